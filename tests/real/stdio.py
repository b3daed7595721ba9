"""Every client against servers over stdio behind the gateway, each server as its authors ship it.

A walk is that of `matrix`: initialise, list, call, and where the server has slow tools progress, cancel, call again.
At the end the gateways stop, and every process below them must be gone.
"""
import json
import pathlib

import matrix
import upstreams
from gateway import Gateway
from harness import HERE, NODE, PYTHON2, check, free_ports, listening, wait_until

PACKAGES = HERE / "node_modules/@modelcontextprotocol"


class Stdio(upstreams.Server):
    """A server over stdio with its command, its plan, and what its answer to the plan's `echo` holds."""

    def __init__(self, bench, name, command, modern=False, events=None, call=None, says=None, more=""):
        super().__init__(name, None, modern, events)
        self.command, self.call, self.says = command, call, says
        self.gateway = bench.once(("stdio", name), lambda: Gateway(bench, f"stdio-{name}", command, extra=more))

    def plan(self):
        return super().plan() if self.call is None else ({"echo": self.call}, None)

    def judge(self, seen, mode):
        if self.call is None:
            return matrix.judge(seen, matrix.revision(mode == "auto"))
        spoken = matrix.revision(mode == "auto")
        check(seen["protocol"] == spoken, f"protocol {seen['protocol']}, expected {spoken}")
        check(self.call[0] in seen["tools"], f"tools: {seen['tools']}")
        check(self.says in seen["echo"], f"{self.call[0]} said {seen['echo']!r}")


def everything(bench):
    return Stdio(bench, "everything", [NODE, upstreams.EVERYTHING, "stdio"])


def python(bench):
    events = bench.stack.work / "stdio-python.events"
    return Stdio(bench, "python", [PYTHON2, HERE / "servers/py_server.py", "stdio", events], True, events)


def filesystem(bench):
    folder = bench.stack.work / "stdio-files"
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("read over stdio")
    command = [NODE, PACKAGES / "server-filesystem/dist/index.js", folder]
    return Stdio(bench, "filesystem", command, call=["read_text_file", {"path": str(folder / "a.txt")}], says="read over stdio")


def memory(bench):
    return Stdio(bench, "memory", [NODE, PACKAGES / "server-memory/dist/index.js"], call=["read_graph", {}], says="entities")


def time(bench):
    command = [PYTHON2.parent / "mcp-server-time", "--local-timezone", "UTC"]
    call = ["get_current_time", {"timezone": "Asia/Tokyo"}]
    return Stdio(bench, "time", command, modern=True, call=call, says="+09:00")


def fetch(bench):
    folder = bench.stack.work / "stdio-pages"
    folder.mkdir(exist_ok=True)
    (folder / "page.html").write_text("<html><body><p>fetched over stdio</p></body></html>")
    port, = free_ports(1)
    web = [PYTHON2, "-m", "http.server", port, "--bind", "127.0.0.1", "--directory", folder]
    bench.stack.start(f"pages-{port}", web, lambda: listening(port))
    call = ["fetch", {"url": f"http://127.0.0.1:{port}/page.html", "raw": True}]
    command = [PYTHON2.parent / "mcp-server-fetch", "--allow-private-ips"]
    return Stdio(bench, "fetch", command, modern=True, call=call, says="fetched over stdio")


SERVERS = {make.__name__: make for make in (everything, python, filesystem, memory, time, fetch)}


def walk(bench, client, mode, name):
    def test():
        server = bench.once(("stdio server", name), lambda: SERVERS[name](bench))
        server.judge(matrix.walk(bench, client, mode, server, server.gateway.url), mode)
        bench.stdio_walks = getattr(bench, "stdio_walks", 0) + 1

    return test


def descendants(pid):
    """Every process below `pid`."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rsplit(") ", 1)[1].split()[1]), []).append(int(stat.parent.name))
        except OSError:
            continue
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def nothing_left(bench):
    check(getattr(bench, "stdio_walks", 0), "no walk went through a gateway")
    for name in SERVERS:
        server = bench.once(("stdio server", name), lambda: SERVERS[name](bench))
        gateway = server.gateway
        children = descendants(gateway.process.child.pid)
        check(gateway.stop() == 0, f"{name}: the gateway exited {gateway.process.child.returncode}")
        wait_until(f"{name}: end of {children}", lambda: not [pid for pid in children if pathlib.Path(f"/proc/{pid}").exists()], 3)
        bad = [r for r in gateway.records() if r["method"] in matrix.ANSWERED and r["outcome"] != "ok"]
        check(not bad, lambda: f"{name}: {json.dumps(bad[:2])}")
        gateway.verify_journal()


def tests(bench):
    if bench.binary is None:
        return
    for name in SERVERS:
        for client in matrix.CLIENTS:
            for mode in matrix.MODES.get(client, ["auto", "legacy"]):
                yield f"stdio/{name}/{client}-{mode}", walk(bench, client, mode, name)
    yield "stdio/nothing-left", lambda: nothing_left(bench)
