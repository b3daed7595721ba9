"""What a legacy server asks on a session's GET stream reaches the modern client whose call is open.

The everything server asks for the roots that way: once a moment after `initialize`, and again in `get-roots-list`.
"""
import json

from calls import PREFIX
from gateway import Gateway
from harness import check, http

MODERN = "2026-07-28"
ROOT = {"uri": "file:///somewhere", "name": "Somewhere"}


def call(url, more):
    about = {f"{PREFIX}/protocolVersion": MODERN, f"{PREFIX}/clientCapabilities": {"roots": {}}}
    params = {"name": "get-roots-list", "arguments": {}, "_meta": about, **more}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "get-roots-list"}
    status, kind, text = http(url, body, headers, seconds=30)
    if kind["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data: {")][-1].removeprefix("data: ")
    check(status == 200, f"HTTP {status}: {text}")
    return json.loads(text)


def roots(bench):
    gateway = Gateway(bench, "standing", bench.server("everything").url)
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
