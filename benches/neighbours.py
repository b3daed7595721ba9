"""What bad neighbours cost: a hung, a flooding and a crashing server beside a healthy one, all behind one endpoint.

    python3 benches/neighbours.py target/release/smartgate [--rounds 8] [--seconds 4] [--flood events,json,stdio]

Each round calls the healthy server through the gateway and directly, in turns, while clients draw on the bad ones the
same way: through the gateway in the one half, directly in the other. So the load is the same but for what the gateway
does itself. Prints a table; asserts nothing about time.
"""
import argparse
import contextlib
import gc
import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from neighbours_parts import Caller

PARTS = pathlib.Path(__file__).with_name("neighbours_parts.py")
KINDS = ("healthy", "hung", "flood", "crash")
FLOODS = ("events", "json", "stdio")
# Between two calls, so that the measuring client does not take a processor for itself.
PAUSE = 0.001


def start(*words):
    return subprocess.Popen([sys.executable, PARTS, *map(str, words)], start_new_session=True)


def free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if condition():
                return
        time.sleep(0.05)
    raise SystemExit(f"{what} did not happen")


def listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Neighbours:
    """The four servers, one of them over stdio too, and the gateway that shows them as one."""

    def __init__(self, binary, folder):
        self.ports = {kind: free() for kind in KINDS}
        self.running = [start("serve", kind, port) for kind, port in self.ports.items()]
        self.port, self.admin = free(), free()
        tables = "".join(
            f'[upstreams.{kind}]\nurl = "http://127.0.0.1:{port}/mcp"\ntimeout = "5s"\n' for kind, port in self.ports.items())
        config = pathlib.Path(folder) / "smartgate.toml"
        config.write_text(
            f'server.listen = "127.0.0.1:{self.port}"\nadmin.listen = "127.0.0.1:{self.admin}"\nlimits.concurrency = 4096\n'
            f'audit.journal = {{ path = "{folder}/audit.jsonl" }}\n{tables}'
            f'[upstreams.child]\ncommand = {json.dumps([sys.executable, str(PARTS), "child"])}\n')
        for port in self.ports.values():
            until("start of a server", lambda port=port: listening(port))
        self.gateway = subprocess.Popen(
            [binary, "serve", "-c", config], stdout=subprocess.DEVNULL, stderr=open(pathlib.Path(folder) / "log", "w"))
        self.running.append(self.gateway)
        until("the gateway's look at its servers", self.knows_all)

    def knows_all(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=5)
        connection.request("GET", "/readyz")
        return connection.getresponse().read().decode().count('"state":"ok"') >= len(KINDS) + 1

    def way(self, kind, tool, through):
        return (self.port, "/mcp", f"{kind}__{tool}") if through else (self.ports[kind], "/mcp", tool)

    def bad(self, floods, through):
        """Starts the clients of the bad neighbours."""
        drawing = [start("draw", "wait", *self.way("hung", "echo", through)), start("draw", "try", *self.way("crash", "echo", through))]
        for flood in floods:
            if flood != "stdio":
                drawing.append(start("draw", "pull", *self.way("flood", flood, through)))
            elif through:
                drawing.append(start("draw", "pull", self.port, "/mcp", "child__flood"))
            else:
                drawing.append(start("drain"))
        return drawing

    def resident(self):
        """MiB of the gateway."""
        lines = pathlib.Path(f"/proc/{self.gateway.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 1024

    def close(self):
        stop(reversed(self.running))


def stop(processes):
    """Parts may have children, which are in their group; the gateway ends its own."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            if process.args[0] == sys.executable:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.terminate()
        process.wait()


def measure(caller, seconds):
    """Times of calls one after the other, in microseconds, and how many were no good."""
    times, failed, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        try:
            good = b'"result":' in caller.call()
        except OSError:
            good = False
            caller.close()
        times.append((time.perf_counter() - begun) * 1e6)
        failed += not good
        time.sleep(PAUSE)
    return sorted(times), failed


def half(neighbours, floods, through, seconds):
    caller = Caller(*neighbours.way("healthy", "echo", through))
    drawing = neighbours.bad(floods, through)
    try:
        measure(caller, 1)
        return measure(caller, seconds)
    finally:
        stop(drawing)
        caller.close()


def percentile(times, part):
    return times[min(len(times) - 1, int(len(times) * part))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=lambda word: pathlib.Path(word).resolve())
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--flood", type=lambda word: [kind for kind in word.split(",") if kind], default=list(FLOODS))
    options = parser.parse_args()
    gc.disable()
    with tempfile.TemporaryDirectory(prefix="smartgate-neighbours-") as folder:
        neighbours = Neighbours(options.binary, folder)
        try:
            print(f"{'':6} {'direct p50':>11} {'p99':>8} {'gateway p50':>12} {'p99':>8} {'ratio p50':>10} {'p99':>6} {'MiB':>6}")
            ratios = []
            for turn in range(options.rounds):
                order = (False, True) if turn % 2 == 0 else (True, False)
                got = {through: half(neighbours, options.flood, through, options.seconds) for through in order}
                figures = [percentile(got[through][0], part) for through in (False, True) for part in (0.5, 0.99)]
                ratios.append((figures[2] / figures[0], figures[3] / figures[1]))
                failed = sum(bad for _, bad in got.values())
                print(f"{turn + 1:6} {figures[0]:11.0f} {figures[1]:8.0f} {figures[2]:12.0f} {figures[3]:8.0f}"
                      f" {ratios[-1][0]:10.2f} {ratios[-1][1]:6.2f} {neighbours.resident():6.1f}"
                      + (f"  {failed} calls failed" if failed else ""), flush=True)
            p50, p99 = (statistics.median(side) for side in zip(*ratios))
            print(f"median of ratios, us of calls of a healthy server beside {', '.join(options.flood) or 'no flood'}: p50 {p50:.2f}, p99 {p99:.2f}")
        finally:
            neighbours.close()


if __name__ == "__main__":
    main()
