"""The gateway's built-in upstream as an MCP server: real clients of both eras list and call it, the suite judges it.

The SDKs check the result against the tool's output schema. Of the suite, the scenarios count that need no tool,
prompt or resource of the suite's own.
"""
import json

import matrix
from conformance import lines
from gateway import Gateway
from harness import check, run

TEXTS = ["Paris is the capital of France.", "Paris is the capital of France.", "Rome is in Italy."]
PLAN = {"echo": ["smart_dedup", {"texts": TEXTS}]}
SCENARIOS = {
    "2025-11-25": ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"],
    "2026-07-28": ["tools-list", "dns-rebinding-protection", "http-header-validation", "sep-2164-resource-not-found",
                   "input-required-result-unsupported-methods", "server-sse-multiple-streams"],
}


def gateway(bench):
    return bench.once("builtin", lambda: Gateway(bench, "builtin", None))


def client_test(bench, client, mode):
    def test():
        command = [*(matrix.CLIENTS[client] or [bench.rmcp_client]), gateway(bench).url]
        status, out, err = run([*command, "--mode", mode, "--plan", json.dumps(PLAN)], seconds=60)
        check(status == 0, lambda: f"exited {status}: {err[-1500:]}")
        seen = json.loads(out)
        era = "2026-07-28" if mode == "auto" else "2025-11-25"
        check((seen["protocol"], seen["server"]) == (era, "smartgate"), f"saw {seen['protocol']} of {seen['server']}")
        check("smart_dedup" in seen["tools"], f"tools: {seen['tools']}")
        check(json.loads(seen["echo"])["kept"] == [0, 2], f"smart_dedup answered {seen['echo']}")

    return test


def suite_test(bench, revision):
    def test():
        found = lines(bench, gateway(bench).url, revision, f"builtin-{revision}")
        wanted = {scenario: found.get(scenario) for scenario in SCENARIOS[revision]}
        bad = {scenario: counts for scenario, counts in wanted.items() if not counts or counts[1] or not counts[0]}
        check(not bad, f"(passed, failed): {bad}")

    return test


def tests(bench):
    if bench.binary is None:
        return
    for client in matrix.CLIENTS:
        for mode in matrix.MODES.get(client, ["auto", "legacy"]):
            yield f"builtin/{client}-{mode}", client_test(bench, client, mode)
    for revision in SCENARIOS:
        yield f"builtin/conformance/{revision}", suite_test(bench, revision)
