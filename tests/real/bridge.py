"""Clients of every revision in front of servers of every revision, through the gateway.

A walk is that of `matrix` and then lists of two pages, a structured result, an error result, every kind of question,
a resource, a prompt, a completion, a task, and what the server tells by itself: a resource that was subscribed to, a
changed list, a log line. The journal says at the end which calls were translated. What the walks saw is in
`bench.cells`, of which `bridge_page` makes docs/matrix.md; without `--write-matrix` a slice of the table is walked.
"""
import bridge_rules
import bridge_slice
import matrix
from bridge_places import ALL, MEMBERS, SERVERS, held, place
from bridge_plans import COMPLETED, MODERN, NEWS, SAYS
from bridge_rules import SSE, lacks, revision_of
from harness import Failed, Skipped, check

# Revisions that a client asks for in `initialize`; only one SDK can be brought to it.
OLDER = {"python1": ["2025-06-18", "2025-03-26", "2024-11-05", SSE], "typescript1": [SSE]}


def modes(client):
    return [*matrix.MODES.get(client, ["auto", "pinned", "legacy"]), *OLDER.get(client, [])]


def cells():
    """Every (client, mode, server)."""
    return [(client, mode, name) for name in [*SERVERS, ALL] for client in matrix.CLIENTS for mode in modes(client)]


def crosses(mode, name):
    """Whether the gateway stands between two eras; of several servers, before the one that has tasks."""
    speaks = MEMBERS["rmcp"] if name == ALL else SERVERS[name][2]
    return (revision_of(mode) == MODERN) != (speaks == MODERN)


def translates(mode, name):
    """Whether the gateway stands between two eras, or in front of several servers."""
    return name == ALL or crosses(mode, name)


def rules(client, mode, name):
    return bridge_rules.of(client, mode, translates(mode, name), held(name))


def judge_step(kind, seen, lacking, refused):
    """Why the step was not right, or None."""
    failed = "failed" in seen or seen["error"]
    if kind in ("elicitation", "page") and refused:
        return None if failed else f"the client answered: {seen}"
    if kind == "error":
        return None if failed else f"no error: {seen}"
    if kind in ("elicitation", "page") and lacking:
        return None if failed or SAYS[kind] not in seen["text"] else f"the client was asked: {seen}"
    if failed:
        return seen.get("failed") or seen["text"]
    if kind == "structured":
        if lacking:
            return None if seen["structured"] is None and seen["text"] else f"not as text alone: {seen}"
        return None if seen["structured"] else f"no structured result: {seen}"
    return None if SAYS[kind] in seen["text"] else f"said {seen['text']!r}"


def judge(seen, client, mode, server):
    """What was seen as {step: why it was not right, or None}."""
    cell, translated, rule = {}, translates(mode, server.name), rules(client, mode, server.name)
    agreed = revision_of(mode) if translated else held(server.name) or revision_of(mode)
    cell["connect"] = None if seen["protocol"] == agreed else f"protocol {seen['protocol']}"
    wanted = {tool for step, (tool, _) in server.extra.items() if not lacks(step.split(" ")[0], mode, translated)}
    cell["list"] = None if wanted <= set(seen["tools"]) else f"not listed: {sorted(wanted - set(seen['tools']))}"
    cell["pages"] = None if seen["pages"] == server.pages else f"{seen['pages']} instead of {server.pages}"
    cell["call"] = None if seen["echo"] == seen["echo_after"] == "Echo: hi" else f"said {seen['echo']!r}, {seen['echo_after']!r}"
    steps = [done for done, _total in seen["progress"]]
    came = steps == [1, 2, 3][:len(steps) if 2 in rule else 3]
    cell["progress"] = None if came else f"came: {seen['progress']}"
    cell["cancel"] = None if seen["cancelled"] is True else "the slow call went on"
    for step in server.extra:
        kind = step.split(" ")[0]
        cell[step] = judge_step(kind, seen["extra"][step], lacks(kind, mode, translated), 3 in rule)
    cell["resource"] = None if server.read[1] in seen["read"] else f"read {seen['read']!r}"
    cell["prompt"] = None if "Paris" in seen["prompt"] else f"said {seen['prompt']!r}"
    cell["completion"] = None if COMPLETED & set(seen["completion"]) else f"came: {seen['completion']}"
    if "task" in seen:
        cell["task"] = judge_task(seen["task"], crosses(mode, server.name))
    return {**cell, **judge_news(seen, server.notices["rounds"])}


def judge_news(seen, rounds):
    """Whether each round gave what it should and nothing else, and the list has the tool that was added last."""
    cell = dict.fromkeys(NEWS.values())
    added = {}
    for number, (wanted, came) in enumerate(zip(rounds, seen["notices"])):
        for kind in set(wanted["wanted"]) - set(came["heard"]):
            cell[NEWS[kind]] = f"{kind} did not come in round {number}"
        for kind in set(wanted["without"]) & set(came["heard"]):
            cell[NEWS[kind]] = f"{kind} came in round {number}"
        texts = zip(wanted["calls"], came["texts"])
        added.update({tool: text for (tool, _), text in texts if tool.endswith("change")})
    missing = {tool.removesuffix("change") + name for tool, name in added.items()} - set(seen["after"])
    if missing:
        cell["list change"] = f"not listed after it: {sorted(missing)}"
    return cell


def judge_task(seen, between_eras):
    """Between two ends of one era a task is one; elsewhere nobody is told of them, and the call runs at once."""
    if not between_eras:
        return None if seen.get("result") == {"done": True} else f"no finished task: {seen}"
    return None if seen == {"task": False, "text": "done at once"} else f"a task, or no result: {seen}"


def walk(bench, client, mode, name):
    def test():
        cells = bench.cells
        server = place(bench, name, translates(mode, name))
        try:
            cell = cells[client, mode, name] = judge(walk_of(bench, client, mode, server), client, mode, server)
        except Failed as failure:
            cells[client, mode, name] = {"walk": str(failure)}
            raise
        bad = {step: why for step, why in cell.items() if why}
        check(not bad, lambda: "\n".join(f"{step}: {why}" for step, why in bad.items()))

    return test


def walk_of(bench, client, mode, server):
    if mode == SSE:
        return matrix.walk(bench, client, "legacy", server, server.sse_url)
    return matrix.walk(bench, client, mode, server, server.url)


def journal(bench, key, speaks, in_front):
    """Every call has its record, which says whether it was translated; a call that its client took back failed nowhere."""
    gateway = bench.once(key, lambda: None)
    if gateway is None:
        raise Skipped("no walk went through this gateway")
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
    table = [cell for cell in cells() if bridge_slice.takes(bench.shard, cell[2])]
    for client, mode, name in table if bench.whole_matrix else bridge_slice.of(table, translates):
        yield f"bridge/{name}/{client}-{mode}", walk(bench, client, mode, name)
    alone = {name: revision for name, (_, _, revision) in SERVERS.items()}
    yield "bridge/journal", lambda: journal(bench, "bridge", alone, lambda record: False)
    # Legacy clients are always translated in front of several servers.
    yield "bridge/journal-all", lambda: journal(bench, "bridge-all", MEMBERS, lambda record: record["era"] == "legacy")
