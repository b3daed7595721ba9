"""A real trace backend (Arize Phoenix): it takes the gateway's spans over gRPC and over HTTP, and a query of its API finds
the calls by key and by tool, as somebody looking for them would.

Its gRPC port listens on all addresses, so everything runs in a network namespace of the test's own.
"""
import collections
import json
import os
import pathlib
import sys
import urllib.parse

from gateway import Gateway
from harness import ROOT, Failed, Skipped, Stack, check, http, run, wait_until
from readme_demo import loopback_up

PHOENIX = ROOT / ".tools/phoenix/bin/phoenix"
PORT, GRPC = 6006, 4317
START_SECONDS = 240
KEYS = {"ada": "sg-ada-0123456789abcdef0123456789", "bob": "sg-bob-0123456789abcdef0123456789"}
CALLS = [
    ("ada", "smart_dedup", {"texts": ["a", "a"]}),
    ("ada", "smart_budget_guard", {"action": "count", "text": "hello"}),
    ("bob", "smart_dedup", {"texts": ["b"]}),
]


def start(stack):
    env = {
        "PHOENIX_WORKING_DIR": str(stack.work / "phoenix"), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(PORT),
        "PHOENIX_GRPC_PORT": str(GRPC), "PHOENIX_TELEMETRY_ENABLED": "false", "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }

    def ready():
        try:
            return http(f"http://127.0.0.1:{PORT}/healthz", seconds=1)[0] == 200
        except OSError:
            return False

    stack.start("phoenix", [PHOENIX, "serve"], lambda: True, env=env)
    wait_until("start of phoenix", ready, START_SECONDS)


def found(**attributes):
    """Names of the calls that have all these attributes, the newest first."""
    asked = [("limit", 100)] + [("attribute", f"{name}:{value}") for name, value in attributes.items()]
    status, _, text = http(f"http://127.0.0.1:{PORT}/v1/projects/default/spans?{urllib.parse.urlencode(asked)}")
    return [span for span in json.loads(text)["data"] if not span["parent_id"]] if status == 200 else []


def inside(binary, work):
    loopback_up()
    stack = Stack(work)
    bench = collections.namedtuple("Bench", "binary stack")(pathlib.Path(binary), stack)
    try:
        start(stack)
        for protocol, url in (("grpc", f"http://127.0.0.1:{GRPC}"), ("http/protobuf", f"http://127.0.0.1:{PORT}")):
            calls(bench, protocol, url)
    finally:
        stack.close()


def calls(bench, protocol, url):
    name = protocol.split("/")[0]
    keys = "".join(f'[[keys]]\nname = "{name}-{who}"\nenv = "KEY_{who.upper()}"\n' for who in KEYS)
    extra = f'[telemetry]\notlp = "{url}"\nprotocol = "{protocol}"\nmetrics = false\nlogs = false\n{keys}'
    os.environ.update({f"KEY_{who.upper()}": secret for who, secret in KEYS.items()})
    gateway = Gateway(bench, name, None, extra=extra, auth="keys")
    for number, (who, tool, arguments) in enumerate(CALLS):
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        status, _, text = http(gateway.url, body, {"authorization": f"Bearer {KEYS[who]}"}, seconds=60)
        check(status == 200, f"the call itself: {status} {text}")
    for who in KEYS:
        mine = [tool for key, tool, _ in CALLS if key == who]
        key = {"smartgate.principal": f"{name}-{who}"}
        wait_until(f"calls of {who} over {protocol}", lambda: len(found(**key)) == len(mine))
        tools = sorted(span["attributes"]["gen_ai.tool.name"] for span in found(**key))
        check(tools == sorted(mine), f"{who} called {tools}, not {mine}")
        both = found(**key, **{"gen_ai.tool.name": "smart_dedup"})
        check(len(both) == 1 and both[0]["name"] == "tools/call smart_dedup", f"by key and tool: {both}")
    line = next(r for r in gateway.records() if r["tool"] == "smart_budget_guard")
    kept, = found(**{"smartgate.principal": f"{name}-ada", "gen_ai.tool.name": "smart_budget_guard"})
    places = [(kept["attributes"][f"smartgate.{part}"], line[part]) for part in ("boot", "seq", "hash")]
    check(all(there == here for there, here in places), f"the span and the journal disagree: {places}")
    gateway.stop()


def finds(bench):
    if not PHOENIX.exists():
        raise Skipped("Phoenix is not installed here")
    apart = ["unshare", "--map-root-user", "--net"]
    if run([*apart, "true"])[0] != 0:
        raise Skipped("this machine allows no network namespace")
    work = bench.stack.work / "trace-backend"
    work.mkdir()
    status, out, err = run([*apart, sys.executable, __file__, bench.binary, work], seconds=400)
    check(status == 0, f"{out}{err}")


def tests(bench):
    if bench.binary is not None:
        yield "trace-backend/calls-are-found-by-key-and-tool", lambda: finds(bench)


if __name__ == "__main__":
    try:
        inside(*sys.argv[1:])
    except Failed as failure:
        sys.exit(str(failure))
