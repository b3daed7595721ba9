"""Memory of the gateway for each legacy session on one shared child, and for each session with a child of its own; and
of the warden beside it.

    python3 benches/stdio_sessions.py target/release/smartgate [sessions]

All sessions are opened over one connection, so that what connections cost is not counted.
"""
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile

CHILD = pathlib.Path(__file__).parent.parent / "tests/it/support/child.py"
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {"sampling": {}, "roots": {}}, "clientInfo": {"name": "bench", "version": "1"}}})
SUBSCRIBE = '{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"file:///data/a.txt"}}'


def kib(pid, what="VmRSS"):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(what + ":")))


def children(pid):
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(") ", 1)[1].split()[1]) == pid:
                yield int(stat.parent.name), (stat.parent / "cmdline").read_bytes().split(b"\0")[1].decode()
        except OSError:
            continue


def measure(program, sharing, warm, sessions):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "smartgate.toml"
        config.write_text(f"""server.listen = "127.0.0.1:0"
admin.listen = "127.0.0.1:0"
[upstreams.child]
command = [{json.dumps(sys.executable)}, {json.dumps(str(CHILD.resolve()))}]
env = {{ EVENTS = "/dev/null" }}
sharing = "{sharing}"
""")
        gateway = subprocess.Popen([program, "serve", "-c", config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   cwd=folder, text=True)
        try:
            endpoint = next(line for line in gateway.stdout if line.startswith("endpoint"))
            authority, path = endpoint.split("://")[1].split()[0].split("/", 1)
            connection = http.client.HTTPConnection(authority)

            def post(body, session=None):
                headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
                if session:
                    headers |= {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
                connection.request("POST", "/" + path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == 200, (answer.status, text)
                return answer.getheader("mcp-session-id")

            def open_all(count):
                for _ in range(count):
                    post(SUBSCRIBE, post(HELLO))

            open_all(warm)
            before = kib(gateway.pid)
            open_all(sessions)
            after = kib(gateway.pid)
            print(f"{sharing}: {sessions} sessions: {before} -> {after} KiB, {(after - before) / sessions:.2f} KiB each")
            for pid, argument in children(gateway.pid):
                if argument == "warden":
                    print(f"  warden: {kib(pid)} KiB, of these {kib(pid, 'RssAnon')} KiB its own")
        finally:
            gateway.terminate()
            gateway.wait()


def main(program, sessions=1000):
    measure(program, "shared", 200, sessions)
    # At most 64 children run; of those one may be the catalog's.
    measure(program, "session", 10, 50)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
