"""The official conformance suite against a server directly and through the gateway: the same lines, or it fails.

Rebinding protection is the gateway's own duty, so there it must pass whatever the server does.
The frozen requirement sets cover 2025-11-25 and 2026-07-28; older revisions run by version filter. Scenarios of the
optional tasks extension fail directly as well (the server does not have it) and must fail alike.
"""
import collections
import difflib
import json
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

# What one run said: `{scenario: (passed, failed)}`, and `{scenario: how often each (check, verdict) came}`.
Found = collections.namedtuple("Found", "lines verdicts")


def judged(bench, url, revision, label):
    """One run of the suite; its whole output stays in the work folder."""
    folder = bench.stack.work / f"conformance-{label}"
    command = [NODE, SUITE, "server", "--url", url, "-o", folder, *RUNS[revision]]
    _status, out, err = run(command, seconds=300)
    (bench.stack.work / f"conformance-{label}.log").write_text(out + err)
    lines = {m[1]: (int(m[2]), int(m[3])) for m in LINE.finditer(out) if m[1] != "Total"}
    return Found(lines, {scenario: verdicts(folder, scenario) for scenario in lines})


def lines(bench, url, revision, label):
    return judged(bench, url, revision, label).lines


def verdicts(folder, scenario):
    """The folder of a scenario is named `server-SCENARIO-TIME`."""
    name = re.compile(rf"server-{re.escape(scenario)}-\d{{4}}-")
    file, = (found / "checks.json" for found in folder.iterdir() if name.match(found.name))
    return collections.Counter((judgement["id"], judgement["status"]) for judgement in json.loads(file.read_text()))


def direct(bench, name, revision):
    """The run against the server itself, made once."""
    return bench.once(("conformance", name, revision),
                      lambda: judged(bench, bench.server(name).url, revision, f"{name}-{revision}-direct"))


def judge_direct(found, name):
    check(found, "no scenario ran")
    if name == "typescript":
        failed = [scenario for scenario, (_, bad) in found.items() if bad and not scenario.startswith(KNOWN_TO_FAIL)]
        check(not failed, f"fail against the server itself: {failed}")


def revision_test(bench, name, revision):
    def test():
        found = direct(bench, name, revision).lines
        judge_direct(found, name)
        if bench.binary is None:
            return
        gateway = Gateway(bench, f"conformance-{name}-{revision}", bench.server(name).url)
        through = judged(bench, gateway.url, revision, f"{name}-{revision}-through").lines
        gateway.stop()
        expected = {scenario: (good + bad, 0) if scenario == DUTY_OF_THE_GATEWAY else (good, bad)
                    for scenario, (good, bad) in found.items()}
        show = lambda lines: [f"{scenario}: {good} passed, {bad} failed" for scenario, (good, bad) in lines.items()]
        different = list(difflib.unified_diff(show(expected), show(through), "expected", "through", lineterm="", n=0))
        check(not different, lambda: "\n".join(different))

    return test


def tests(bench):
    for name, revision in COMBINATIONS:
        yield f"conformance/{name}/{revision}", revision_test(bench, name, revision)
