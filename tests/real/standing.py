"""What a legacy server asks on a session's GET stream reaches the modern client whose call is open.

The everything server asks for the roots that way: once a moment after `initialize`, and again in `get-roots-list`.
"""
import json

from calls import PREFIX
from gateway import Gateway
from harness import check, http, wait_until

MODERN = "2026-07-28"
ROOT = {"uri": "file:///somewhere", "name": "Somewhere"}


def ask(url, method, params, headers):
    about = {f"{PREFIX}/protocolVersion": MODERN, f"{PREFIX}/clientCapabilities": {"roots": {}}}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": about, **params}}
    return http(url, body, {"mcp-protocol-version": MODERN, "mcp-method": method, **headers}, seconds=30)


def call(url, more):
    params = {"name": "get-roots-list", "arguments": {}, **more}
    status, kind, text = ask(url, "tools/call", params, {"mcp-name": "get-roots-list"})
    if kind["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data: {")][-1].removeprefix("data: ")
    check(status == 200, f"HTTP {status}: {text}")
    return json.loads(text)


def roots(bench):
    gateway = Gateway(bench, "standing", bench.server("everything").url)
    wait_until("the server's era is known", lambda: ask(gateway.url, "server/discover", {}, {})[0] == 200)
    more, asked = {}, 0
    while True:
        answer = call(gateway.url, more)
        check("result" in answer, f"no result: {answer}")
        result = answer["result"]
        if result["resultType"] == "complete":
            break
        questions = result["inputRequests"]
        check({q["method"] for q in questions.values()} == {"roots/list"}, f"asked {questions}")
        asked += 1
        check(asked < 5, "it is asked again and again")
        more = {"requestState": result["requestState"], "inputResponses": {key: {"roots": [ROOT]} for key in questions}}
    check(asked, "nobody was asked")
    check(ROOT["uri"] in result["content"][0]["text"], f"said {result['content']}")


def tests(bench):
    if bench.binary is not None:
        yield "standing/roots", lambda: roots(bench)
