"""The conformance suite's other half: it plays the server and judges a real client, here with the gateway between them.

The suite starts its server and then the client's command. For the runs through the gateway that command is this file,
which puts a gateway in front of the suite's server for as long as the client runs. Both runs must give the same verdicts;
how often each was given may differ, since the gateway makes calls of its own to learn the server's tools. A check of what the
client does not declare is skipped directly; of the gateway's own calls, which declare it, it may be a success.
"""
import pathlib
import re
import sys
import tempfile
import types

from harness import HERE, NODE, Stack, check, run

SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
CLIENT = [NODE, HERE / "clients/conformance_client.mjs"]
VERDICT = re.compile(r"\[(\S+) *\] \S*?(SUCCESS|FAILURE|WARNING|SKIPPED)")
COLOUR = re.compile(r"\x1b\[\d+m")
SCENARIOS = [
    ("initialize", "2025-11-25"), ("tools_call", "2025-11-25"), ("tools_call", "2026-07-28"),
    ("elicitation-sep1034-client-defaults", "2025-11-25"), ("sse-retry", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2025-11-25"), ("json-schema-2020-12-preservation", "2026-07-28"),
    ("request-metadata", "2026-07-28"),
]


def judged(command, scenario, revision):
    """({(check, verdict)}, all that the suite said)."""
    words = " ".join(map(str, command))
    _status, out, err = run(
        [NODE, SUITE, "client", "--command", words, "--scenario", scenario, "--spec-version", revision], seconds=90)
    said = COLOUR.sub("", out + err)
    return set(VERDICT.findall(said)), said


def judge_direct(direct, said):
    good = direct and {verdict for _, verdict in direct} <= {"SUCCESS", "SKIPPED"}
    check(good and "OVERALL: PASSED" in said, lambda: f"fails without the gateway: {said[-2000:]}")


def differences(direct, through):
    """The checks that were judged otherwise, and those that only one run had."""
    own = {(name, "SUCCESS") for name, verdict in direct if verdict == "SKIPPED"}
    otherwise = {v for v in through ^ direct if v not in own and not (v[1] == "SKIPPED" and (v[0], "SUCCESS") in through)}
    return {name for name, _ in otherwise} | ({name for name, _ in through} ^ {name for name, _ in direct})


def scenario_test(bench, scenario, revision):
    def test():
        direct, said = judged(CLIENT, scenario, revision)
        judge_direct(direct, said)
        if bench.binary is None:
            return
        through, said = judged([sys.executable, HERE / "conformance_client.py", bench.binary], scenario, revision)
        differ = differences(direct, through)
        check(not differ, lambda: f"differ: {sorted(differ)}\n{said[-3000:]}")

    return test


def tests(bench):
    for scenario, revision in SCENARIOS:
        yield f"conformance-client/{scenario}/{revision}", scenario_test(bench, scenario, revision)


def between(url, binary, mode=None, protocol=None):
    """Runs the client against a gateway in front of `url`, and returns the client's exit status. With `mode` it is a client
    of another era than the server, which is held to `protocol`."""
    from gateway import Gateway
    with tempfile.TemporaryDirectory(prefix="smartgate-conformance-") as work:
        stack = Stack(work)
        try:
            bench = types.SimpleNamespace(binary=pathlib.Path(binary), stack=stack)
            gateway = Gateway(bench, "client", url, protocol=protocol)
            if protocol:
                gateway.knows()
            env = {"SMARTGATE_CLIENT_MODE": mode} if mode else None
            status, out, err = run([*CLIENT, gateway.url], seconds=60, env=env)
            sys.stdout.write(out)
            sys.stderr.write(err)
            return status
        finally:
            stack.close()


if __name__ == "__main__":
    sys.exit(between(sys.argv[-1], *sys.argv[1:-1]))
