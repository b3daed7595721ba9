"""deploy/systemd: systemd understands the unit, its hardening stays, and the gateway makes no system call that the unit
forbids. The unit is not started: that needs systemd as the first process."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time

from harness import ROOT, check, free_ports, http, run, wait_until
from tools import DEPLOY, output, tool

UNIT = DEPLOY / "systemd/smartgate.service"
ROOT_ALONE = {"fchown"}  # SQLite keeps the owner of its files with it, where it is root
EXPOSURE = 15  # of 100; what `systemd-analyze security` gave when the unit was written, rounded up


def installed(bench):
    """The unit as it would be where the binary of this run is installed."""
    file = bench.stack.work / "smartgate.service"
    file.write_text(UNIT.read_text().replace("=smartgate ", f"={bench.binary} "))
    return file


def verify(bench):
    status, out, err = run([tool("systemd-analyze"), "verify", "--man=no", installed(bench)])
    check(status == 0 and not (out + err).strip(), out + err)


def security(bench):
    command = [
        tool("systemd-analyze"),
        "security",
        "--offline=true",
        "--no-pager",
        f"--threshold={EXPOSURE}",
        installed(bench),
    ]
    return output(command).strip().splitlines()[-1].strip()


def allowed():
    """The system calls that the unit's filter lets through, by systemd's own groups."""
    groups, calls, forbidden = {}, set(), set()
    for line in output([tool("systemd-analyze"), "syscall-filter", "--no-pager"]).splitlines():
        if line.startswith("@"):
            group = groups.setdefault(line.strip(), set())
        elif (name := line.strip()) and not name.startswith("#"):
            group.add(name)

    def resolve(name):
        return set().union(*map(resolve, groups[name])) if name in groups else {name}

    for line in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.M):
        into = forbidden if line.startswith("~") else calls
        into.update(*map(resolve, line.lstrip("~").split()))
    return calls - forbidden


def system_calls(bench):
    strace = tool("strace")
    port, admin = free_ports(2)
    folder = bench.stack.work / "traced"
    folder.mkdir()
    (folder / "smartgate.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:{port}"\n[admin]\nlisten = "127.0.0.1:{admin}"\n[upstreams.smart]\nbuiltin = true\n'
    )
    trace = folder / "trace"
    traced = subprocess.Popen(
        [strace, "-f", "-qq", "-o", trace, bench.binary, "serve", "-c", folder / "smartgate.toml"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until("the gateway", lambda: ready(admin), seconds=60)
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "smart_memory", "arguments": {"action": "store", "key": "a", "content": "b"}},
        }
        status, _, text = http(f"http://127.0.0.1:{port}/mcp", call, seconds=60)
        check(status == 200, f"a call: {status} {text}")
        (folder / "smartgate.toml").open("a").write("\n[limits]\nconcurrency = 9\n")
        wait_until("a reload", lambda: "smartgate_reloads_total" in http(f"http://127.0.0.1:{admin}/metrics")[2])
    finally:
        for child in pathlib.Path(f"/proc/{traced.pid}/task/{traced.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGTERM)
        traced.wait(30)
    used = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(errors="replace"), re.M))
    wrong = used - allowed() - ROOT_ALONE
    check(not wrong, f"forbidden by the unit, but used: {sorted(wrong)}")
    return f"{len(used)} system calls used, all of them allowed"


def ready(admin):
    try:
        return http(f"http://127.0.0.1:{admin}/readyz", seconds=1)[0] == 200
    except OSError:
        return False


def notifications(bench):
    """What systemd hears: ready once it is, each reload with its time (as `Type=notify-reload` wants it) and its end, the stop."""
    port, admin = free_ports(2)
    folder = bench.stack.work / "notified"
    folder.mkdir()
    config = folder / "smartgate.toml"
    config.write_text(
        f'[server]\nlisten = "127.0.0.1:{port}"\n[admin]\nlisten = "127.0.0.1:{admin}"\n[upstreams.smart]\nbuiltin = true\n'
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(folder / "notify"))
        heard.settimeout(60)
        gateway = subprocess.Popen(
            [bench.binary, "serve", "-c", config],
            env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify"), "XDG_STATE_HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def hears(*lines):
            told = heard.recv(4096).decode().splitlines()
            check([line.split("=")[0] for line in told] == [line.split("=")[0] for line in lines], f"systemd hears {told}")
            check(all("=" not in line or line in told for line in lines), f"systemd hears {told}")
            return dict(line.split("=", 1) for line in told)

        try:
            hears("READY=1")
            check(http(f"http://127.0.0.1:{admin}/healthz")[0] == 200, "it said that it is ready, and is not up")
            for asked in ("by the signal alone", "by the signal, of a broken file"):
                before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
                gateway.send_signal(signal.SIGHUP)
                told = hears("RELOADING=1", "MONOTONIC_USEC")
                after = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
                check(before <= int(told["MONOTONIC_USEC"]) <= after, f"{asked}: {told}, not within {before} to {after}")
                hears("READY=1")
                config.write_text("broken")
            gateway.send_signal(signal.SIGTERM)
            while heard.recv(4096).strip() != b"STOPPING=1":  # the broken file may be looked at once more
                pass
            check(gateway.wait(30) == 0, f"it exited with {gateway.returncode}")
        finally:
            gateway.kill()
            gateway.wait()


def paths(_bench):
    """What the unit names exists for the program: the state folder is where the journal may be written."""
    text = UNIT.read_text()
    check("StateDirectory=smartgate" in text and "WorkingDirectory=/var/lib/smartgate" in text, "no state folder")
    drain = int(re.search(r'^drain = "(\d+)s"', (ROOT / "config/defaults.toml").read_text(), re.M)[1])
    stop = int(re.search(r"^TimeoutStopSec=(\d+)s", text, re.M)[1])
    check(stop > drain, f"TimeoutStopSec is {stop} s, the drain {drain} s")


def tests(bench):
    yield "systemd/verify", lambda: verify(bench)
    yield "systemd/security", lambda: security(bench)
    yield "systemd/paths-and-times", lambda: paths(bench)
    yield "systemd/notifications", lambda: notifications(bench)
    yield "systemd/system-calls", lambda: system_calls(bench)
