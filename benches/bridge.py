"""What the bridge costs: the time that it adds to a call, and the memory of a session. Prints a table; asserts nothing.

    python3 benches/bridge.py target/release/smartgate [sessions]

A second gateway with its built-in tools stands for the server: it is held to one era by `protocol`, so that the same call of the same
server goes through translated and untranslated in turns, over one kept connection each.
"""
import http.client
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

CALLS = 2_000
LEGACY, MODERN = "2025-11-25", "2026-07-28"
CALL = {"name": "smart_dedup", "arguments": {"texts": ["one", "two"]}}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}


def free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    def __init__(self, binary, folder, name, upstreams):
        self.port, self.admin = free(), free()
        place = folder / name
        place.mkdir()
        file = place / "smartgate.toml"
        file.write_text(
            f'server.listen = "127.0.0.1:{self.port}"\nadmin.listen = "127.0.0.1:{self.admin}"\n'
            f'limits.concurrency = 4096\nstorage.path = "{place}/storage.db"\naudit.journal = {{ path = "{place}/audit.jsonl" }}\n{upstreams}'
        )
        self.process = subprocess.Popen(
            [binary, "serve", "-c", file], stdout=subprocess.DEVNULL, stderr=(place / "log").open("w")
        )
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.until(lambda: self.get("/readyz")[0] == 200)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def until(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit("the gateway did not get ready")

    def knows(self, count):
        self.until(lambda: self.get("/readyz")[1].count('"state":"ok"') >= count)

    def resident(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])


class Client:
    """One kept connection."""

    def __init__(self, gateway, path="/mcp"):
        self.connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
        self.path, self.session = path, None

    def post(self, message, headers):
        kept = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
        self.connection.request("POST", self.path, json.dumps(message), kept)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status >= 300 or b'"error"' in body:
            raise SystemExit(f"{answer.status}: {body[:500]!r}")
        return answer

    def initialize(self):
        client = {"name": "bench", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
        answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, {})
        self.session = answer.headers.get("mcp-session-id")

    def legacy(self, prefix=""):
        headers = {"mcp-protocol-version": LEGACY, **({"mcp-session-id": self.session} if self.session else {})}
        call = {**CALL, "name": prefix + CALL["name"]}
        self.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, headers)

    def modern(self):
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": CALL["name"]}
        self.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**CALL, "_meta": META}}, headers)


def micros(call):
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e6


def latency(gateway, label, plain, translated):
    for call in (plain, translated):
        for _ in range(100):
            call()
    rounds = [(micros(plain), micros(translated)) for _ in range(CALLS)]
    a, b = (statistics.median(side) for side in zip(*rounds))
    print(f"{label:<46} {a:8.0f} {b:8.0f} {b - a:8.0f}")


def main():
    binary, sessions = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 5_000
    folder = pathlib.Path(tempfile.mkdtemp(prefix="smartgate-bridge-"))
    running = []

    def gateway(name, upstreams):
        running.append(Gateway(binary, folder, name, upstreams))
        return running[-1]

    try:
        server = gateway("server", "upstreams.smart.builtin = true\n")
        old = gateway("old", f'upstreams.a.url = "{server.url}"\nupstreams.a.protocol = "{LEGACY}"\n')
        new = gateway("new", f'upstreams.a.url = "{server.url}"\nupstreams.a.protocol = "{MODERN}"\n')
        for each in (old, new):
            each.knows(1)
        print(f"{'median of a call, us':<46} {'as is':>8} {'bridged':>8} {'added':>8}")
        legacy, modern = Client(old), Client(old)
        legacy.initialize()
        latency(old, "modern client, legacy server", legacy.legacy, modern.modern)
        legacy, modern = Client(new), Client(new)
        legacy.initialize()
        latency(new, "legacy client, modern server", modern.modern, legacy.legacy)

        several = gateway(
            "several",
            f'upstreams.a.url = "{server.url}"\nupstreams.a.prefix = ""\n'
            f'upstreams.b.url = "{server.url}"\nupstreams.b.protocol = "{LEGACY}"\n',
        )
        several.knows(2)
        one, all_as_one = Client(several, "/mcp/a"), Client(several)
        latency(several, "one of several alone; all as one (modern)", one.modern, all_as_one.modern)
        client = Client(several)
        for _ in range(200):
            client.initialize()
            client.legacy()
            client.legacy("b__")
        before = several.resident()
        for _ in range(sessions):
            client.initialize()
            client.legacy()
            client.legacy("b__")
        after = several.resident()
        print(f"\n{sessions} legacy sessions of all as one, a call to each server: {before} -> {after} KiB,"
              f" {(after - before) / sessions:.2f} KiB each")
    finally:
        for each in running:
            each.process.terminate()
        for each in running:
            each.process.wait()


main()
