"""The official conformance suite against a server directly and through the gateway: the same lines, or it fails.

Rebinding protection is the gateway's own duty, so there it must pass whatever the server does.
The frozen requirement sets cover 2025-11-25 and 2026-07-28; older revisions run by version filter. Scenarios of the
optional tasks extension fail directly as well (the server does not have it) and must fail alike.
"""
import difflib
import re

from gateway import Gateway
from harness import HERE, NODE, check, run

SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
LINE = re.compile(r"(\S+): (\d+) passed, (\d+) failed")
RUNS = {
    "2025-03-26": ["--suite", "all", "--spec-version", "2025-03-26"],
    "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
    "2025-11-25": ["--requirements", "2025-11-25"],
    "2026-07-28": ["--requirements", "2026-07-28"],
}
KNOWN_TO_FAIL = "tasks-"
DUTY_OF_THE_GATEWAY = "dns-rebinding-protection"
COMBINATIONS = [("typescript", revision) for revision in RUNS] + [
    ("python", "2025-11-25"), ("python", "2026-07-28"), ("everything", "2025-11-25")]


def lines(bench, url, revision, label):
    """{scenario: (passed, failed)} of one run; the whole output stays in the work folder."""
    folder = bench.stack.work / f"conformance-{label}"
    command = [NODE, SUITE, "server", "--url", url, "-o", folder, *RUNS[revision]]
    _status, out, err = run(command, seconds=300)
    (bench.stack.work / f"conformance-{label}.log").write_text(out + err)
    return {m[1]: (int(m[2]), int(m[3])) for m in LINE.finditer(out) if m[1] != "Total"}


def judge_direct(found, name):
    check(found, "no scenario ran")
    if name == "typescript":
        failed = [scenario for scenario, (_, bad) in found.items() if bad and not scenario.startswith(KNOWN_TO_FAIL)]
        check(not failed, f"fail against the server itself: {failed}")


def revision_test(bench, name, revision):
    def test():
        server = bench.server(name)
        direct = lines(bench, server.url, revision, f"{name}-{revision}-direct")
        judge_direct(direct, name)
        if bench.binary is None:
            return
        gateway = Gateway(bench, f"conformance-{name}-{revision}", server.url)
        through = lines(bench, gateway.url, revision, f"{name}-{revision}-through")
        gateway.stop()
        expected = {scenario: (good + bad, 0) if scenario == DUTY_OF_THE_GATEWAY else (good, bad)
                    for scenario, (good, bad) in direct.items()}
        show = lambda found: [f"{scenario}: {good} passed, {bad} failed" for scenario, (good, bad) in found.items()]
        different = list(difflib.unified_diff(show(expected), show(through), "expected", "through", lineterm="", n=0))
        check(not different, lambda: "\n".join(different))

    return test


def tests(bench):
    for name, revision in COMBINATIONS:
        yield f"conformance/{name}/{revision}", revision_test(bench, name, revision)
