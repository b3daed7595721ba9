"""Memory of the gateway for each legacy session before two legacy servers: with the sessions at the servers that its id
names, without `sealing.keys`, where the first call opens one, and without any at a server.

    python3 benches/named_sessions.py target/release/smartgate [sessions]

All sessions are opened over one connection, so that what connections of clients cost is not counted.
"""
import http.client
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from stdio_sessions import HELLO, kib

CALL = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one__t","arguments":{}}}'
LIST = '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
ABOUT = {"capabilities": {"tools": {"listChanged": True}, "logging": {}, "resources": {"subscribe": True}},
         "serverInfo": {"name": "bench", "version": "1"}, "instructions": "Be brief. " * 50}
RESULTS = {"tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}, "resources/list": {"resources": []},
           "resources/templates/list": {"resourceTemplates": []}, "tools/call": {"content": []}}


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    opened = 0

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, session = message.get("method"), None
        if method == "initialize":
            type(self).opened += 1
            session = str(uuid.uuid4())
            result = {"protocolVersion": message["params"]["protocolVersion"], **ABOUT}
        elif method in RESULTS:
            result = RESULTS[method]
        elif "id" in message and method:
            return self.say(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
        else:
            return self.say(202, None)
        self.say(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, session)

    def do_GET(self):
        self.say(405, None)

    do_DELETE = do_GET

    def say(self, status, body, session=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()

    def log_message(self, *_):
        pass


def server():
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    # The gateway's end is the end of its connections.
    made.handle_error = lambda *_: None
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{made.server_port}/mcp"


def measure(program, what, sealing, then, warm, sessions):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "smartgate.toml"
        config.write_text(f"""server.listen = "127.0.0.1:0"
admin.listen = "127.0.0.1:0"
audit.journal = {{ path = "audit.jsonl" }}
{sealing}
upstreams.one.url = "{server()}"
upstreams.two.url = "{server()}"
""")
        gateway = subprocess.Popen([program, "serve", "-c", config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   cwd=folder, text=True)
        try:
            endpoint = next(line for line in gateway.stdout if line.startswith("endpoint"))
            authority, path = endpoint.split("://")[1].split()[0].split("/", 1)
            connection = http.client.HTTPConnection(authority)
            time.sleep(3)

            def post(body, session=None):
                headers = {"content-type": "application/json", "accept": "application/json, text/event-stream",
                           "user-agent": "bench/1.0 (of sessions)"}
                if session:
                    headers |= {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
                connection.request("POST", "/" + path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == 200 and b'"error"' not in text, (answer.status, text)
                return answer.getheader("mcp-session-id")

            def open_all(count):
                for _ in range(count):
                    session = post(HELLO)
                    post(then, session)
                return len(session)

            open_all(warm)
            before, opened = kib(gateway.pid), Server.opened
            began = time.perf_counter()
            length = open_all(sessions)
            took = (time.perf_counter() - began) / sessions
            after = kib(gateway.pid)
            print(f"{what}: {sessions} sessions, {Server.opened - opened} at the servers: {before} -> {after} KiB, "
                  f"{(after - before) / sessions:.2f} KiB each; ids of {length} bytes, {took * 1000:.1f} ms for each")
        finally:
            gateway.terminate()
            gateway.wait()


def main(program, sessions=5000):
    key = 'sealing.keys = ["0123456789abcdef0123456789abcdef"]'
    measure(program, "named", key, CALL, 500, sessions)
    measure(program, "opened by the first call", "", CALL, 500, sessions)
    # What a client's session and the records of its two calls take by themselves.
    measure(program, "none at the servers", "", LIST, 500, sessions)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
