"""Every client against every server: directly, through the gateway, and through the gateway over TLS with a key.

One test walks a client through a server: initialise, list, call, progress, cancel, call again. The direct walk says
what is right; both walks through the gateway must show exactly the same, and the server must see the cancelled call end.
"""
import json

import upstreams
from gateway import KEY_SECRET, Gateway
from harness import HERE, NODE, PYTHON1, PYTHON2, check, run, wait_until

CLIENTS = {
    "python1": [PYTHON1, HERE / "clients/py1.py"],
    "python2": [PYTHON2, HERE / "clients/py2.py"],
    "typescript1": [NODE, HERE / "clients/ts1.mjs"],
    "typescript2": [NODE, HERE / "clients/ts2.mjs"],
    "rmcp": None,  # the binary's place depends on the target folder
}
MODES = {"python1": ["legacy"], "typescript1": ["legacy"]}
CALLS_PER_WALK = 4
ANSWERED = ("initialize", "tools/list")


def walk(bench, client, mode, server, url, ca=None, key=None):
    """Runs one client to its end; returns what it saw."""
    plan, tag = server.plan()
    command = [*(CLIENTS[client] or [bench.rmcp_client]), url, "--mode", mode, "--plan", json.dumps(plan)]
    command += ["--ca", ca] if ca else []
    command += ["--key", key] if key else []
    env = {"NODE_EXTRA_CA_CERTS": str(ca)} if ca else {}
    status, out, err = run(command, seconds=60, env=env)
    check(status == 0, lambda: f"{client} exited {status} at {url}: {err[-1500:]}")
    if server.events is not None:
        how = wait_until(f"end of {tag} at the server", lambda: server.slow_call_ended(tag))
        check(how == "cancelled", f"the server saw the slow call end as {how}")
    return json.loads(out)


def judge(seen, revision):
    """The direct walk must itself be good, or equality with it would prove nothing."""
    check(seen["protocol"] == revision, f"protocol {seen['protocol']}, expected {revision}")
    check(seen["echo"] == seen["echo_after"] == "Echo: hi", f"echo: {seen['echo']!r}, {seen['echo_after']!r}")
    check([done for done, _total in seen["progress"]] == [1, 2, 3], f"progress: {seen['progress']}")
    check(seen["cancelled"] is True, "the slow call was not cancelled")
    check("echo" in seen["tools"], f"tools: {seen['tools']}")


def revision(modern):
    """What a client speaks with a server, or with the gateway, which serves modern clients before any server."""
    return "2026-07-28" if modern else "2025-11-25"


def same(direct, through, how, mode):
    direct = {**direct, "protocol": revision(mode == "auto")}
    for field in direct:
        check(direct[field] == through.get(field), lambda: f"{how}: {field} is {through.get(field)!r}, directly {direct[field]!r}")


def walks(bench, client, mode, name):
    def test():
        server = bench.server(name)
        direct = walk(bench, client, mode, server, server.url)
        judge(direct, revision(server.modern and mode == "auto"))
        if bench.binary is None:
            return
        plain = bench.once(("plain", name), lambda: Gateway(bench, f"matrix-{name}", server.url))
        same(direct, walk(bench, client, mode, server, plain.url), "plain", mode)
        tls = bench.once(("tls", name), lambda: Gateway(bench, f"matrix-tls-{name}", server.url, tls=bench.tls, key=True))
        same(direct, walk(bench, client, mode, server, tls.url, ca=bench.tls.ca, key=KEY_SECRET), "TLS", mode)
        bench.walked[name] = bench.walked.get(name, 0) + 1

    return test


def journals(bench):
    """Every tool call of every walk is in the journal once, the answered ones as `ok`, and its chain holds.

    How a cancelled call ends differs by SDK: the client leaves, the server says so, or the stream ends without a word.
    """
    check(bench.walked, "no walk went through a gateway")
    for name, count in bench.walked.items():
        for kind in ("plain", "tls"):
            gateway = bench.once((kind, name), None)
            gateway.stop()
            calls = [record for record in gateway.records() if record["method"] == "tools/call"]
            expected = CALLS_PER_WALK * count
            check(len(calls) == expected, f"{kind} {name}: {len(calls)} tool calls in the journal, made {expected}")
            answered = [r for r in gateway.records() if r["method"] in ANSWERED or r["tool"] in ("echo", "count")]
            bad = [r for r in answered if r["outcome"] != "ok" or not r["client"]["name"]]
            check(not bad, lambda: f"{kind} {name}: answered calls that are not `ok` or of nobody: {bad[:2]}")
            gateway.verify_journal()


def tests(bench):
    for name in upstreams.NAMES:
        for client in CLIENTS:
            for mode in MODES.get(client, ["auto", "legacy"]):
                yield f"matrix/{name}/{client}-{mode}", walks(bench, client, mode, name)
    if bench.binary is not None:
        yield "matrix/journals", lambda: journals(bench)
