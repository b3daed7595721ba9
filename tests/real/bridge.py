"""Clients of every revision in front of servers of every revision, through the gateway.

A walk is that of `matrix` and then a structured result, an error result, an elicitation, a sampling, a resource, and what
the server tells by itself: a resource that was subscribed to, a changed list, a log line. The journal says at the end
which calls were translated. Pairs of one era are walked by `matrix` and `stdio`, and here only for the page. What the walks saw is in `bench.cells`, of which `bridge_page` makes docs/matrix.md.
"""
import matrix
from bridge_places import ALL, LEGACY, MEMBERS, MODERN, SERVERS, place
from harness import Failed, check

# Revisions that a client asks for in `initialize`; only one SDK can be brought to it.
OLDER = {"python1": ["2025-06-18", "2025-03-26", "2024-11-05"]}
SINCE = {"structured": "2025-06-18", "elicitation": "2025-06-18"}
SAYS = {"elicitation": "Ada", "sampling": "sampled"}


def revision_of(mode):
    return {"auto": MODERN, "legacy": LEGACY}.get(mode, mode)


def modes(client):
    return [*matrix.MODES.get(client, ["auto", "legacy"]), *OLDER.get(client, [])]


def translates(mode, name):
    """Whether the gateway stands between two eras, or in front of several servers."""
    return name == ALL or (revision_of(mode) == MODERN) != (SERVERS[name][1] == MODERN)


def lacks(kind, mode, name):
    """Whether the gateway keeps such a step from a client whose revision does not know it: where it translates."""
    return translates(mode, name) and revision_of(mode) < SINCE.get(kind, "")


def judge_step(kind, seen, lacking):
    """Why the step was not right, or None."""
    failed = "failed" in seen or seen["error"]
    if kind == "error":
        return None if failed else f"no error: {seen}"
    if kind == "elicitation" and lacking:
        return None if failed or SAYS[kind] not in seen["text"] else f"the client was asked: {seen}"
    if failed:
        return seen.get("failed") or seen["text"]
    if kind == "structured":
        if lacking:
            return None if seen["structured"] is None and seen["text"] else f"not as text alone: {seen}"
        return None if seen["structured"] else f"no structured result: {seen}"
    return None if SAYS[kind] in seen["text"] else f"said {seen['text']!r}"


def judge(seen, mode, server):
    """What was seen as {step: why it was not right, or None}."""
    cell = {}
    cell["connect"] = None if seen["protocol"] == revision_of(mode) else f"protocol {seen['protocol']}"
    wanted = {tool for step, (tool, _) in server.extra.items() if not lacks(step.split(" ")[0], mode, server.name)}
    cell["list"] = None if wanted <= set(seen["tools"]) else f"not listed: {sorted(wanted - set(seen['tools']))}"
    cell["call"] = None if seen["echo"] == seen["echo_after"] == "Echo: hi" else f"said {seen['echo']!r}, {seen['echo_after']!r}"
    cell["progress"] = None if [done for done, _total in seen["progress"]] == [1, 2, 3] else f"came: {seen['progress']}"
    cell["cancel"] = None if seen["cancelled"] is True else "the slow call went on"
    for step in server.extra:
        kind = step.split(" ")[0]
        cell[step] = judge_step(kind, seen["extra"][step], lacks(kind, mode, server.name))
    cell["resource"] = None if server.read[1] in seen["read"] else f"read {seen['read']!r}"
    if server.notices:
        missing = set(server.notices["wanted"]) - set(seen["notices"])
        cell["notices"] = f"did not come: {sorted(missing)}" if missing else None
    return cell


def walk(bench, client, mode, name):
    def test():
        cells = bench.cells
        server = place(bench, name)
        try:
            cell = cells[client, mode, name] = judge(matrix.walk(bench, client, mode, server, server.url), mode, server)
        except Failed as failure:
            cells[client, mode, name] = {"walk": str(failure)}
            raise
        bad = {step: why for step, why in cell.items() if why}
        check(not bad, lambda: "\n".join(f"{step}: {why}" for step, why in bad.items()))

    return test


def journal(bench, key, speaks, in_front):
    """Every call has its record, which says whether it was translated; a call that its client took back failed nowhere."""
    gateway = bench.once(key, None)
    gateway.stop()
    calls = [record for record in gateway.records() if record["method"] == "tools/call" and record["upstream"] in speaks]
    check(calls, "no call is in the journal")
    for record in calls:
        differ = (record["era"] == "modern") != (speaks[record["upstream"]] == MODERN)
        check(record["bridged"] == (differ or in_front(record)), f"`bridged` is {record['bridged']}: {record}")
        check(not record["bridged"] or record["outcome"] != "upstream_failed", f"a bridged call failed: {record}")
    gateway.verify_journal()


def tests(bench):
    if bench.binary is None:
        return
    for name in [*SERVERS, ALL]:
        for client in matrix.CLIENTS:
            for mode in modes(client):
                if bench.whole_matrix or translates(mode, name):
                    yield f"bridge/{name}/{client}-{mode}", walk(bench, client, mode, name)
    alone = {name: revision for name, (_, revision, _) in SERVERS.items()}
    yield "bridge/journal", lambda: journal(bench, "bridge", alone, lambda record: False)
    # Legacy clients are always translated in front of several servers.
    yield "bridge/journal-all", lambda: journal(bench, "bridge-all", MEMBERS, lambda record: record["era"] == "legacy")
