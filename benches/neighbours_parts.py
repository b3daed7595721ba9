"""Servers that are bad neighbours and one that is not, and the clients that draw on them; each is a process of its own.

    neighbours_parts.py serve KIND PORT     healthy, hung, flood or crash: a server of 2026-07-28 over HTTP
    neighbours_parts.py child               a legacy server over stdio whose tool `flood` never stops writing
    neighbours_parts.py draw HOW PORT PATH TOOL
                                            calls TOOL again and again until it is ended: `pull` reads all that comes,
                                            `ignore` reads nothing, `wait` keeps 16 calls waiting, `try` calls fifty
                                            times a second
    neighbours_parts.py drain               starts `child` and reads all that it writes

Nothing here is measured: it is load, and has to be cheap. The servers know as much of MCP as the gateway asks for.
"""
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

BLOCK = 256 * 1024
MODERN = "2026-07-28"
META = json.dumps({
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    # Otherwise log lines, of which two floods consist, would not be passed on.
    "io.modelcontextprotocol/logLevel": "debug",
    "io.modelcontextprotocol/clientInfo": {"name": "neighbours", "version": "1"},
})
ID = re.compile(rb'"id":("[^"]*"|[0-9]+)')
METHOD = re.compile(rb'"method":"([^"]*)"')
ABOUT = {"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}},
         "serverInfo": {"name": "neighbour", "version": "1"}, "ttlMs": 3_600_000, "cacheScope": "public"}
TOOLS = ("echo", "json", "events")
LIST = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public",
        "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
RESULT = {"resultType": "complete", "content": [{"type": "text", "text": "y" * 900}], "isError": False}
NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "z" * 60}}


def answer(request_id, result):
    return b'{"jsonrpc":"2.0","id":' + request_id + b',"result":' + json.dumps(result).encode() + b"}"


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def head(kind):
    return b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\ntransfer-encoding: chunked\r\n\r\n"


class Server(asyncio.Protocol):
    """One connection. Requests come one at a time, as HTTP/1.1 clients send them."""

    kind = "healthy"

    def connection_made(self, transport):
        self.transport, self.seen = transport, b""

    def data_received(self, data):
        self.seen += data
        end = self.seen.find(b"\r\n\r\n")
        length = re.search(rb"content-length: *([0-9]+)", self.seen[:end], re.IGNORECASE) if end >= 0 else None
        if end < 0 or (length and len(self.seen) < end + 4 + int(length[1])):
            return
        body, self.seen = self.seen[end + 4:], b""
        request_id, method = ID.search(body), METHOD.search(body)
        if not method or not request_id:
            self.transport.write(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")
        elif method[1] == b"tools/call":
            self.call(request_id[1], body)
        elif method[1] in (b"server/discover", b"tools/list"):
            self.whole(answer(request_id[1], ABOUT if method[1] == b"server/discover" else LIST))
        else:
            error = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32601,"message":"no such method"}}' % request_id[1]
            self.whole(error, b"404 Not Found")

    def whole(self, body, status=b"200 OK"):
        self.transport.write(b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))

    def call(self, request_id, body):
        if self.kind == "healthy":
            self.whole(answer(request_id, RESULT))
        elif self.kind == "crash":
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{")
            os._exit(1)
        elif self.kind == "flood":
            # A thread for each flood: a blocking socket writes more than an event loop does.
            stream = self.transport.get_extra_info("socket").dup()
            self.transport.pause_reading()
            threading.Thread(target=flood, args=(stream, request_id, b"events" in body), daemon=True).start()


def flood(stream, request_id, events):
    stream.setblocking(True)
    if events:
        event = b"data: " + json.dumps(NOTE).encode() + b"\n\n"
        start, block = head(b"text/event-stream"), chunk(event * (BLOCK // len(event)))
    else:
        begun = b'{"jsonrpc":"2.0","id":' + request_id + b',"result":{"content":[{"type":"text","text":"'
        start, block = head(b"application/json") + chunk(begun), chunk(b"x" * BLOCK)
    try:
        stream.sendall(start)
        while True:
            stream.sendall(block)
    except OSError:
        stream.close()


async def listen(port):
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", port, reuse_address=True)
    await server.serve_forever()


def serve(kind, port):
    Server.kind = kind
    if kind != "crash":
        asyncio.run(listen(port))
    while True:
        child = os.fork()
        if child == 0:
            asyncio.run(listen(port))
        os.waitpid(child, 0)


def child():
    out = sys.stdout.buffer
    block = (json.dumps(NOTE).encode() + b"\n") * 1000
    hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "child", "version": "1"}}
    for line in sys.stdin.buffer:
        request_id, method = ID.search(line), METHOD.search(line)
        if not request_id or not method:
            continue
        result = {b"initialize": hello, b"tools/list": {"tools": [{"name": "flood", "inputSchema": {"type": "object"}}]}}.get(method[1])
        while method[1] == b"tools/call":
            out.write(block)
        out.write(answer(request_id[1], result or {}) + b"\n")
        out.flush()


class Caller:
    """One kept connection of a modern client."""

    def __init__(self, port, path, tool):
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{},"_meta":%b}}' % (tool.encode(), META.encode())
        lines = (f"POST {path} HTTP/1.1", f"host: 127.0.0.1:{port}", "content-type: application/json",
                 "accept: application/json, text/event-stream", f"mcp-protocol-version: {MODERN}", "mcp-method: tools/call",
                 f"mcp-name: {tool}", f"content-length: {len(body)}", "", "")
        self.request, self.place, self.socket = "\r\n".join(lines).encode() + body, ("127.0.0.1", port), None

    def send(self):
        if self.socket is None:
            self.socket = socket.create_connection(self.place, 30)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(self.request)

    def call(self):
        """The whole answer, which has a length or ends with its last chunk."""
        self.send()
        seen = b""
        while True:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("the connection was closed")
            seen += more
            end = seen.find(b"\r\n\r\n")
            if end < 0:
                continue
            length = re.search(rb"content-length: ([0-9]+)", seen[:end], re.IGNORECASE)
            if (length and len(seen) >= end + 4 + int(length[1])) or (not length and seen.endswith(b"0\r\n\r\n")):
                return seen

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def pull(caller):
    """Reads as fast as it comes; starts again when it ends."""
    room = [bytearray(1024 * 1024)]
    caller.send()
    caller.socket.setblocking(True)
    # What is read as a file, and not as a socket, is counted in /proc/PID/io.
    while os.readv(caller.socket.fileno(), room):
        pass


def ignore(caller):
    caller.send()
    time.sleep(3600)


def wait(caller):
    others = [Caller(caller.place[1], "", "echo") for _ in range(15)]
    for other in (caller, *others):
        other.request = caller.request
        other.send()
    for other in (caller, *others):
        try:
            other.socket.recv(65536)
        finally:
            other.close()


def attempt(caller):
    time.sleep(0.02)
    caller.call()


def draw(how, port, path, tool):
    caller = Caller(port, path, tool)
    while True:
        try:
            {"pull": pull, "ignore": ignore, "wait": wait, "try": attempt}[how](caller)
        except OSError:
            time.sleep(0.02)
        caller.close()


def drain():
    command = [sys.executable, __file__, "child"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}\n')
    process.stdin.flush()
    room = bytearray(1024 * 1024)
    while process.stdout.raw.readinto(room):
        pass


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", kind, port]:
            serve(kind, int(port))
        case ["child"]:
            child()
        case ["draw", how, port, path, tool]:
            draw(how, int(port), path, tool)
        case ["drain"]:
            drain()
