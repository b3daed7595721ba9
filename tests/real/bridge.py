"""Clients and servers of different eras behind one gateway, each server alone at /mcp/NAME and several as one at /mcp.

A walk is that of `matrix` and then the plan's `extra`: a structured result, an error result, an elicitation, a sampling.
Servers that speak both eras are held to one by `protocol`, so that each stands on either side of the bridge.
"""
import json

import matrix
import upstreams
from gateway import Gateway
from harness import HERE, NODE, PYTHON2, Failed, check, wait_until

LEGACY, MODERN = "2025-11-25", "2026-07-28"
PYTHON = {
    "structured": ["total", {"a": 2, "b": 3}],
    "error": ["fail", {}],
    "elicitation": ["greet", {}],
    "sampling": ["ask_model", {}],
}
TYPESCRIPT = {
    LEGACY: {
        "structured": ["total", {"a": 2, "b": 3}],
        "error": ["test_error_handling", {}],
        "elicitation": ["test_elicitation", {"message": "Who?"}],
        "sampling": ["test_sampling", {"prompt": "Say something"}],
    },
    MODERN: {
        "structured": ["total", {"a": 2, "b": 3}],
        "error": ["test_error_handling", {}],
        "elicitation": ["test_input_required_result_elicitation", {}],
        "sampling": ["test_input_required_result_sampling", {}],
    },
}
EVERYTHING = {
    "structured": ["get-structured-content", {"location": "Chicago"}],
    "error": ["get-resource-reference", {"resourceType": "Text", "resourceId": -1}],
    "elicitation": ["trigger-elicitation-request", {}],
    "sampling": ["trigger-sampling-request", {"prompt": "Say something"}],
}
MEMORY = {"structured": ["read_graph", {}]}
# server: (what it is, the era it is spoken to in, its extra steps)
SERVERS = {
    "everything": ("everything over HTTP", LEGACY, EVERYTHING),
    "python-old": ("Python SDK over HTTP", LEGACY, PYTHON),
    "typescript-old": ("TypeScript SDK over HTTP", LEGACY, TYPESCRIPT[LEGACY]),
    "everything-stdio": ("everything over stdio", LEGACY, EVERYTHING),
    "python-new": ("Python SDK over HTTP", MODERN, PYTHON),
    "typescript-new": ("TypeScript SDK over HTTP", MODERN, TYPESCRIPT[MODERN]),
    "python-stdio": ("Python SDK over stdio", MODERN, PYTHON),
}
ALL = "all"
STEPS = ("structured", "error", "elicitation", "sampling")


def era_of(mode):
    return MODERN if mode == "auto" else LEGACY


READS = {
    "python": ("test://about", "a resource of the Python server"),
    "typescript": ("test://static-text", "This is the content of the static text resource."),
    "everything": ("demo://resource/dynamic/text/1", "Resource 1"),
}
NOTICES = {
    "uri": "test://watched-resource",
    "change": ["change", {}],
    "wanted": ["message", "resources/updated", "tools/list_changed"],
}


class Place(upstreams.Server):
    """A server behind the shared gateway, with what the plan says of it."""

    def __init__(self, name, url, events, extra, prefix=""):
        super().__init__(name, url, True, events)
        self.extra, self.prefix = extra, prefix

    def plan(self):
        plan, tag = super().plan()
        named = {step: [self.prefix + tool, args] for step, (tool, args) in plan.items()}
        plan = {**named, "extra": self.extra, "read": READS[self.kind][0]}
        if self.kind == "typescript":
            plan["notices"] = NOTICES
        return plan, tag

    @property
    def kind(self):
        return "python" if self.name == ALL else self.name.split("-")[0]


def gateway(bench):
    """One gateway with every server, each alone at /mcp/NAME."""
    python, typescript = bench.server("python"), bench.server("typescript")
    everything = bench.server("everything")
    fixed = 'protocol = "{}"'.format
    script = HERE / "servers/py_server.py"
    return Gateway(bench, "bridge", {
        "everything": (everything.url, fixed(LEGACY)),
        "python-old": (python.url, fixed(LEGACY)),
        "typescript-old": (typescript.url, fixed(LEGACY)),
        "everything-stdio": ([NODE, upstreams.EVERYTHING, "stdio"], ""),
        "python-new": (python.url, fixed(MODERN)),
        "typescript-new": (typescript.url, fixed(MODERN)),
        "python-stdio": ([PYTHON2, script, "stdio", bench.stack.work / "bridge-stdio.events"], fixed(MODERN)),
    })


def aggregate(bench):
    """One gateway that shows servers of both eras, over HTTP and stdio, and the built-in tools as one."""
    return Gateway(bench, "bridge-all", {
        "everything": (bench.server("everything").url, ""),
        "python": (bench.server("python").url, f'protocol = "{MODERN}"'),
        "typescript": (bench.server("typescript").url, f'protocol = "{LEGACY}"'),
        "memory": ([NODE, HERE / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"], ""),
        "own": (None, 'prefix = ""'),
    })


def prefixed(name, extra, **others):
    return {others.get(step, step): [f"{name}__{tool}", args] for step, (tool, args) in extra.items()}


def everything_in_one():
    """The extra steps on the modern and on the legacy member, and one call for each other member."""
    steps = {f"{step} (modern)": call for step, call in prefixed("python", PYTHON).items()}
    steps |= {f"{step} (legacy)": call for step, call in prefixed("typescript", TYPESCRIPT[LEGACY]).items()}
    steps |= {f"{step} (everything)": call for step, call in prefixed("everything", EVERYTHING).items()}
    steps["structured (stdio)"] = ["memory__read_graph", {}]
    steps["structured (built-in)"] = ["smart_dedup", {"texts": ["One sentence.", "One sentence."]}]
    return steps


def place(bench, name):
    if name == ALL:
        whole = bench.once("bridge-all", lambda: aggregate(bench))
        return Place(name, whole.url, bench.server("python").events, everything_in_one(), "python__")
    one = bench.once("bridge", lambda: gateway(bench))
    events = {
        "python-stdio": bench.stack.work / "bridge-stdio.events",
        "everything": None, "everything-stdio": None,
    }.get(name, bench.server(name.split("-")[0]).events)
    return Place(name, f"{one.url}/{name}", events, SERVERS[name][2])


WANTED = {"error": "", "elicitation": "Ada", "sampling": "sampled"}


def judge_step(step, seen):
    """Why the step was not right, or None."""
    kind = step.split(" ")[0]
    if seen is None:
        return "not run"
    if "failed" in seen:
        return seen["failed"]
    if seen["error"] != (kind == "error"):
        return f"error is {seen['error']}: {seen['text']}"
    if kind == "structured":
        return None if seen["structured"] else f"no structured result: {seen}"
    return None if WANTED[kind] in seen["text"] else f"said {seen['text']!r}"


def walk(bench, client, mode, name):
    def test():
        server = place(bench, name)
        cells = bench.once("cells", dict)
        cell = cells[client, mode, name] = {"walk": "did not come to its end"}
        try:
            seen = matrix.walk(bench, client, mode, server, server.url)
            judge(seen, mode, server)
        except Failed as failure:
            cell["walk"] = str(failure)
            raise
        cell["walk"] = None
        cell |= {step: judge_step(step, seen["extra"].get(step)) for step in server.extra}
        cell["read"] = None if READS[server.kind][1] in seen["read"] else f"read {seen['read']!r}"
        if "notices" in seen:
            missing = set(NOTICES["wanted"]) - set(seen["notices"])
            cell["notices"] = f"did not come: {sorted(missing)}" if missing else None
        bad = {step: why for step, why in cell.items() if why}
        check(not bad, lambda: "\n".join(f"{step}: {why}" for step, why in bad.items()))

    return test


def judge(seen, mode, server):
    check(seen["protocol"] == era_of(mode), f"protocol {seen['protocol']}, expected {era_of(mode)}")
    check(seen["echo"] == seen["echo_after"] == "Echo: hi", f"echo: {seen['echo']!r}, {seen['echo_after']!r}")
    check([done for done, _total in seen["progress"]] == [1, 2, 3], f"progress: {seen['progress']}")
    check(seen["cancelled"] is True, "the slow call was not cancelled")
    wanted = {call[0] for call in server.extra.values()}
    check(wanted <= set(seen["tools"]), lambda: f"not listed: {wanted - set(seen['tools'])}")


def tests(bench):
    if bench.binary is None:
        return
    for name in [*SERVERS, ALL]:
        for client in matrix.CLIENTS:
            for mode in matrix.MODES.get(client, ["auto", "legacy"]):
                if name == ALL or SERVERS[name][1] != era_of(mode):
                    yield f"bridge/{name}/{client}-{mode}", walk(bench, client, mode, name)
