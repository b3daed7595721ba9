"""Writes docs/conformance.md from what `conformance_bridge` saw. Invariant: two runs that saw the same write the same."""
import json
import re

from conformance_bridge import CLIENTS, EXPLAINED, EXPLAINED_CLIENT, MODERN, PAIRS, explained
from harness import HERE, ROOT, check

PAGE = ROOT / "docs/conformance.md"
SUITE = "@modelcontextprotocol/conformance"
NAMES = {"typescript": "TypeScript", "python": "Python", "everything": "everything"}

HEAD = """# The conformance suite across the eras

The official suite, with the gateway translating between it and the other side. Written by `tests/real/run.py --write-conformance
conformance-bridge/` with the arguments that [tests/real/README.md](../tests/real/README.md) names; do not edit. A run of the tests
fails if anything else differs than what is explained here, and if a call that reached a server was not translated.

A number is how many checks of a scenario passed, and `n failed` how many did not. Where two stand with an arrow, the first is the
run without the gateway, of the same revision against the same server in its own era, and the second is the run across
the eras; else both were the same, check by check. Numbers behind them lead to the explanation. Scenarios that fail in
both ask for tools that the server does not have: the TypeScript server has those of the suite, the others do not.
`tasks-*` belong to an extension that none of them has.
"""

LEGACY_HEAD = """
## Legacy clients, a modern server

The suite speaks the revision of the column to a server that is held to 2026-07-28.
"""

MODERN_HEAD = """
## Modern clients, a legacy server

The suite speaks 2026-07-28 to a server that is held to the revision of the column. `everything` knows no later revision than
2025-11-25, so beside it is what the suite of 2025-11-25 says of it; only scenarios that both have are compared, and a scenario differs if it fails
across the eras alone.
"""

CLIENT_HEAD = """
## The suite as the server

The suite judges a client on the TypeScript SDK: once of its own era and without the gateway, once of the other era through it. What it
judges then is mostly the gateway, which writes the headers, the `_meta` and the retries that a legacy client has no word for. `same` means that
every check was judged alike.

| scenario | the suite's server | |
|---|---|---|
"""


def score(lines, scenario):
    good, bad = lines[scenario]
    return f"{good}, {bad} failed" if bad else str(good)


def cell(pair, seen, scenario, numbers):
    beside, through = seen[pair]
    if scenario not in through.lines:
        return ""
    marks = sorted({numbers[why] for (where, _), why in explained(pair, through).items() if where == scenario})
    one = score(beside.lines, scenario) if scenario in beside.lines else "-"
    other = score(through.lines, scenario)
    text = other if one == other and not marks else f"{one} → {other}"
    return text + "".join(f" ({mark})" for mark in marks)


def table(pairs, seen, numbers, label):
    scenarios = list(dict.fromkeys(scenario for pair in pairs for scenario in seen[pair][1].lines))
    rows = [[scenario, *(cell(pair, seen, scenario, numbers) for pair in pairs)] for scenario in sorted(scenarios)]
    head = ["scenario", *(f"{NAMES[pair.name]}, {label(pair)}" for pair in pairs)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]) + "\n"


def reasons():
    every = [why for known in [*EXPLAINED.values(), *EXPLAINED_CLIENT.values()] for why in known.values()]
    return {why: number for number, why in enumerate(dict.fromkeys(every), 1)}


def of_client(client, seen, numbers):
    beside, through = seen[client]
    marks = sorted({numbers[why] for why in EXPLAINED_CLIENT.get(client, {}).values()})
    failed = sum(verdict == "FAILURE" for _, verdict in through)
    text = f"{failed} fail" + "".join(f" ({mark})" for mark in marks) if marks else "same"
    return f"| {client.scenario} | {client.server} | {text} |\n"


def write(seen):
    missing = [key for key in [*PAIRS, *CLIENTS] if key not in seen]
    check(not missing, lambda: f"the page needs every run; not run: {missing[:3]}")
    numbers = reasons()
    legacy, modern = [p for p in PAIRS if p.client != MODERN], [p for p in PAIRS if p.client == MODERN]
    version = json.loads((HERE / "package.json").read_text())["dependencies"][SUITE]
    text = HEAD + LEGACY_HEAD + "\n" + table(legacy, seen, numbers, lambda p: p.client)
    text += MODERN_HEAD + "\n" + table(modern, seen, numbers, lambda p: p.server)
    text += CLIENT_HEAD + "".join(of_client(client, seen, numbers) for client in CLIENTS)
    text += "\n## What differs, and why\n\n" + "".join(f"{n}. {why[0].upper()}{why[1:]}.\n" for why, n in numbers.items())
    text += f"\nSuite: `{SUITE}` {version}. It calls 2026-07-28 its draft too; 2025-03-26 has one scenario for servers.\n"
    PAGE.write_text(re.sub(r"\n{3,}", "\n\n", text))
