"""An MCP server over stdio that behaves as badly as the called tool's name says. What happens to it goes to $EVENTS."""
import json
import os
import signal
import subprocess
import sys
import time

MODERN = "2026-07-28"
speaks_modern = os.environ.get("SPEAKS") == "modern"
calls = 0
later = []


def note(*words):
    with open(os.environ["EVENTS"], "a") as events:
        events.write(" ".join(map(str, words)) + "\n")


def put(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def say(**message):
    put(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def read():
    line = sys.stdin.readline()
    if not line:
        note("eof", os.getpid())
        sys.exit()
    return json.loads(line)


def hear():
    return later.pop(0) if later else read()


def answer_to(id):
    """What is not the answer waits: the gateway may ask for lists at any moment."""
    while True:
        message = read()
        if message.get("id") == id and "method" not in message:
            return message
        later.append(message)


def has_grown():
    """Whether a process of this server has been told to."""
    with open(os.environ["EVENTS"]) as events:
        return "grown\n" in events


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def tool(id, name, arguments, meta):
    global calls
    calls += 1
    if name == "echo":
        if arguments["message"] == "grow":
            note("grown")
            say(method="notifications/tools/list_changed")
        say(id=id, result=text(arguments["message"]))
    elif name == "count":
        say(id=id, result=text(f"{os.getpid()} {calls}"))
    elif name == "die_before":
        os._exit(3)
    elif name == "die_in":
        put('{"jsonrpc":"2.0","id":%d,"result":{"content":[' % id)
        os._exit(3)
    elif name == "die_after":
        say(id=id, result=text("last words"))
        os._exit(3)
    elif name == "die_in_stream":
        say(method="notifications/progress", params={"progressToken": meta["progressToken"], "progress": 1})
        os._exit(3)
    elif name == "flood":
        line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message",
                           "params": {"level": "info", "data": "x" * 1000}}) + "\n"
        for _ in range(arguments["thousands"]):
            put(line * 1000)
        say(id=id, result=text("dry"))
    elif name == "deaf":
        note("deaf")
        time.sleep(1000)
    elif name == "noise":
        put('npm notice\n[1,2]\n\n{"jsonrpc": \n{"a":1}\n"\n\xff\n')
        put('{"jsonrpc":"2.0","id":999,"result":{}}\n')
        say(id=id, result=text("heard"))
    elif name == "complain":
        print("the key is hunter22\nand more", file=sys.stderr, flush=True)
        say(id=id, result=text("complained"))
    elif name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say(id=id, result=text("stays"))
        time.sleep(1000)
    elif name == "fork":
        note("grandchild", subprocess.Popen(["sleep", "1000"]).pid)
        say(id=id, result=text("forked"))
    elif name == "huge":
        put('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % id)
        for _ in range(arguments["mib"]):
            put("x" * (1 << 20))
        put('"}]}}\n')
    elif name == "progress":
        for step in (1, 2, 3):
            say(method="notifications/progress",
                params={"progressToken": meta["progressToken"], "progress": step, "total": 3})
        say(id=id, result=text("done"))
    elif name == "ask":
        say(id="q-1", method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        say(id=id, result=text(json.dumps(answer_to("q-1"))))
    elif name == "hesitate":
        for n in range(arguments["times"]):
            say(id=f"h-{n}", method="roots/list", params={})
            say(method="notifications/cancelled", params={"requestId": f"h-{n}"})
        say(id=id, result=text("hesitated"))
    elif name == "announce":
        say(id=id, result=text("announced"))
        say(method="notifications/tools/list_changed")
    elif name == "mutter":
        for _ in range(30):
            say(method="notifications/message", params={"level": "info", "data": "of something else"})
            time.sleep(0.1)
    elif name == "log":
        say(method="notifications/message", params={"level": "info", "data": arguments["words"]})
        say(id=id, result=text("logged"))
    elif name == "begin":
        say(method="notifications/progress", params={"progressToken": meta["progressToken"], "progress": 1})
    elif name == "busy":
        for step in range(arguments["steps"]):
            say(method="notifications/progress", params={"progressToken": meta["progressToken"], "progress": step})
            time.sleep(0.4)
        say(id=id, result=text("done"))
    elif name == "batch":
        progress = {"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": meta["progressToken"], "progress": 1}}
        put(json.dumps([progress, 5, {"jsonrpc": "2.0", "id": id, "result": text("of a batch")}]) + "\n")
    elif name == "update":
        say(method="notifications/resources/updated", params={"uri": arguments["uri"]})
        say(id=id, result=text("updated"))
    elif name == "slow":
        note("slow", id)
    elif name == "environment":
        say(id=id, result=text(" ".join(sorted(os.environ)) + " in " + os.getcwd()))
    else:
        say(id=id, error={"code": -32602, "message": "unknown tool"})


note("start", os.getpid(), *sys.argv[1:])
if "broken" in sys.argv:
    sys.exit(4)
while True:
    message = hear()
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "initialize":
        say(id=id, result={"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "child", "version": "1"},
                           "capabilities": {"tools": {"listChanged": True}, "logging": {}}})
    elif method == "server/discover" and speaks_modern:
        say(id=id, result={"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}},
                           "ttlMs": 0, "cacheScope": "public"})
    elif method == "notifications/initialized":
        note("initialized", os.getpid())
    elif method == "notifications/cancelled":
        note("cancelled", params["requestId"])
    elif method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        note(method, params.get("level") or params["uri"])
        say(id=id, result={})
    elif method == "tools/list":
        grown = [{"name": "grown", "inputSchema": {"type": "object"}}] if has_grown() else []
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if speaks_modern else {}
        say(id=id, result={"tools": [{"name": "echo", "inputSchema": {"type": "object"}}, *grown], **more})
    elif method == "tools/call":
        tool(id, params["name"], params.get("arguments", {}), params.get("_meta", {}))
    elif id is not None and method is not None:
        say(id=id, error={"code": -32601, "message": "method not found"})
