"""Two gateways with one sealing key behind a load balancer that knows no affinity.

Real clients hold sessions before servers of both eras. When one gateway is killed, the next call of every session
succeeds, and nobody initializes again. Nor does the survivor at a legacy server: what that keeps in a session goes on. What lives in one process says so when it is asked elsewhere: the child of a
legacy session at a `command`, and calls that wait for answers.
"""
import contextlib
import json
import signal
from http.client import HTTPConnection
from urllib.parse import urlsplit

from calls import MODERN, PREFIX
from gateway import Gateway
from harness import FULL, NODE, check, http, wait_until
from held import close, each, hold, says
from round_robin_proxy import RoundRobin
from upstreams import EVERYTHING

LEGACY = "2025-11-25"
SEALING = '[sealing]\nkeys = ["round-robin-0123456789abcdef0123456789abcdef"]\n'
CLIENTS = ("python1", "python2", "typescript1", "typescript2")
MEMBERS = ("everything", "python-old", "python-new", "typescript-old", "typescript-new")
NAMES = ("one", "other")
HELLO = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}, "clientInfo": {"name": "round-robin", "version": "1"}}


def pair(bench):
    return bench.once("round-robin", lambda: [gateway(bench, name) for name in NAMES])


def gateway(bench, name):
    fixed = 'protocol = "{}"'.format
    python, typescript = bench.server("python").url, bench.server("typescript").url
    made = Gateway(bench, f"round-robin-{name}", {
        "everything": (bench.server("everything").url, ""),
        "python-old": (python, fixed(LEGACY)),
        "python-new": (python, fixed(MODERN)),
        "typescript-old": (typescript, fixed(LEGACY)),
        "typescript-new": (typescript, fixed(MODERN)),
        "child": ([NODE, EVERYTHING, "stdio"], ""),
    }, extra=SEALING)
    knows_all(made)
    return made


def knows_all(made):
    state = lambda: http(f"http://127.0.0.1:{made.admin}/readyz")[2].count('"state":"ok"')
    wait_until("lists of all servers", lambda: state() > len(MEMBERS))


def all_answer(held):
    for name in MEMBERS:
        says(held, f"{name}__echo", {"message": "hi"}, "Echo: hi")


def in_turn(bench, path, what):
    """Sessions at `path` behind the load balancer, while one gateway after the other is killed and comes back."""
    def test():
        gateways = pair(bench)
        balancer = RoundRobin([made.port for made in gateways])
        sessions = []
        try:
            sessions = hold(bench, f"http://127.0.0.1:{balancer.port}{path}", CLIENTS)
            for _ in NAMES:
                each(sessions, what)
            check(all(balancer.served.values()), lambda: f"not in turn: {balancer.served}")
            initialized = balancer.initialized
            check(initialized >= len([held for held in sessions if held.mode == "legacy"]), f"only {initialized} were counted")
            for killed in gateways:
                killed.process.child.send_signal(signal.SIGKILL)
                killed.process.child.wait()
                each(sessions, what)
                killed.start()
                knows_all(killed)
            each(sessions, what)
            check(balancer.initialized == initialized, f"{balancer.initialized - initialized} sessions were initialized again")
        finally:
            close(sessions)
            balancer.close()

    return test


def post(made, path, body, session=None, version=LEGACY, **headers):
    """One request of hand; returns (status, headers, JSON or text)."""
    sent = {"mcp-protocol-version": version, **({"mcp-session-id": session} if session else {}), **headers}
    status, got, text = http(made.url + path, {"jsonrpc": "2.0", **body}, sent)
    data = [line[5:] for line in text.splitlines() if line.startswith("data:")]
    with contextlib.suppress(ValueError):
        return status, got, json.loads(data[-1] if data else text)
    return status, got, text


def open_session(made, path):
    status, headers, _ = post(made, path, {"id": 0, "method": "initialize", "params": HELLO})
    check(status == 200 and headers["mcp-session-id"], f"initialize was answered {status}")
    post(made, path, {"method": "notifications/initialized"}, headers["mcp-session-id"])
    return headers["mcp-session-id"]


def upstream_session(bench):
    """The survivor goes on with the session that the killed gateway has opened at a legacy server, until the client ends it."""
    counter = RoundRobin([urlsplit(bench.server("everything").url).port])
    servers = {"everything": (f"http://127.0.0.1:{counter.port}/mcp", ""), "python": (bench.server("python").url, "")}
    one, other = (Gateway(bench, f"named-{name}", servers, extra=SEALING) for name in NAMES)
    for made in (one, other):
        made.knows()
    tool = {"name": "everything__toggle-simulated-logging", "arguments": {}}
    toggle = lambda made: json.dumps(post(made, "", {"id": 1, "method": "tools/call", "params": tool}, session)[2])
    try:
        before = counter.initialized
        session = open_session(one, "")
        check(counter.initialized == before + 1, f"the client's session made {counter.initialized - before} at the server")
        check("Started" in (said := toggle(one)), lambda: f"the first call was answered {said}")
        one.process.child.send_signal(signal.SIGKILL)
        one.process.child.wait()
        check("Stopped" in (said := toggle(other)), lambda: f"the server does not know the session: {said}")
        check("Started" in (said := toggle(other)), lambda: f"the third call was answered {said}")
        check(counter.initialized == before + 1, f"initialize was sent {counter.initialized - before} times to the server")
        status, _, _ = http(other.url, None, {"mcp-session-id": session, "mcp-protocol-version": LEGACY}, method="DELETE")
        check(status == 200, f"DELETE was answered {status}")
        wait_until("the end of the session at the server", lambda: counter.deleted == 1)
    finally:
        counter.close()


def own_child(bench):
    """A legacy session at a `command` lives in its process; among several as one it is made anew where it is missed."""
    one, other = pair(bench)
    session = open_session(one, "/child")
    echo = {"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "hi"}}}
    check(post(one, "/child", echo, session)[0] == 200, "it is not there where it was opened")
    status, _, answer = post(other, "/child", echo, session)
    check(status == 404 and answer["error"]["data"]["reason"] == "session_not_found", f"elsewhere it was answered {status}: {answer}")
    check("another process of the gateway" in answer["error"]["message"], f"it does not say why: {answer}")
    ended = open_session(other, "/child")
    http(f"{other.url}/child", None, {"mcp-session-id": ended, "mcp-protocol-version": LEGACY}, method="DELETE")
    status, _, answer = post(other, "/child", echo, ended)
    check(status == 404 and "another process" not in answer["error"]["message"], f"ended here: {status}, {answer}")
    session = open_session(one, "")
    echo["params"]["name"] = "child__echo"
    for made in (one, other):
        status, _, answer = post(made, "", echo, session)
        check(status == 200 and "Echo: hi" in json.dumps(answer), f"several as one answered {status}: {answer}")


def question(bench):
    """The answer to a question belongs to the process whose call waits for it."""
    one, other = pair(bench)
    session = open_session(one, "")
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "python-new__greet", "arguments": {}}}
    connection = HTTPConnection("127.0.0.1", one.port, timeout=20)
    connection.request("POST", "/mcp", json.dumps(call), {
        "content-type": "application/json", "accept": "application/json, text/event-stream",
        "mcp-session-id": session, "mcp-protocol-version": LEGACY})
    events = messages(connection.getresponse())
    asked = next(events)
    check(asked.get("method") == "elicitation/create", lambda: f"instead of a question came {asked}")
    answer = {"id": asked["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
    status, _, refusal = post(other, "", answer, session)
    check(status == 409 and refusal["error"]["data"]["reason"] == "parked_elsewhere", f"elsewhere: {status}, {refusal}")
    status, _, text = post(one, "", answer, session)
    check(status == 202, f"where it waits: {status}, {text}")
    check("Ada" in json.dumps(next(events)), "the call did not go on")
    connection.close()


def messages(response):
    for line in response:
        if line.startswith(b"data:") and line[5:].strip():
            yield json.loads(line[5:])


def parked(bench):
    """So does the state of a call that a modern client goes on with."""
    one, other = pair(bench)
    about = {f"{PREFIX}/protocolVersion": MODERN, f"{PREFIX}/clientCapabilities": {"elicitation": {"form": {}}},
             f"{PREFIX}/clientInfo": {"name": "round-robin", "version": "1"}}
    params = {"name": "python-old__greet", "arguments": {}, "_meta": about}
    mirrored = {"mcp-method": "tools/call", "mcp-name": params["name"]}
    send = lambda made, more: post(made, "", {"id": 1, "method": "tools/call", "params": {**params, **more}}, version=MODERN, **mirrored)
    status, _, asked = send(one, {})
    check(status == 200 and asked["result"]["resultType"] == "input_required", f"{status}: {asked}")
    answers = {key: {"action": "accept", "content": {"name": "Ada"}} for key in asked["result"]["inputRequests"]}
    again = {"inputResponses": answers, "requestState": asked["result"]["requestState"]}
    status, _, refusal = send(other, again)
    check(refusal["error"]["code"] == -32602 and "requestState" in refusal["error"]["message"], f"elsewhere: {status}, {refusal}")
    status, _, answer = send(one, again)
    check("Ada" in json.dumps(answer.get("result")), f"where it waits: {status}, {answer}")


def tests(bench):
    if bench.binary is None:
        return
    single = lambda held: says(held, "echo", {"message": "hi"}, "Echo: hi")
    yield "round-robin/all", in_turn(bench, "/mcp", all_answer)
    for name in ("everything", "python-old", "python-new") if FULL else ("python-old",):
        yield f"round-robin/{name}", in_turn(bench, f"/mcp/{name}", single)
    yield "round-robin/upstream-session", lambda: upstream_session(bench)
    yield "round-robin/own-child", lambda: own_child(bench)
    yield "round-robin/question", lambda: question(bench)
    yield "round-robin/parked", lambda: parked(bench)
