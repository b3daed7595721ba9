"""What clients of every revision meet behind the gateway: each server alone at /mcp/NAME, and several as one at /mcp.

Owns the two gateways, and the plan of each place. Servers that speak both eras are held to one revision by `protocol`,
so that each stands on either side of the bridge.
"""
import upstreams
from calls import PREFIX
from gateway import Gateway
from harness import HERE, NODE, PYTHON2, http, wait_until

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
# server: (what it is, the revision it is spoken to in, its extra steps)
SERVERS = {
    "everything": ("everything, HTTP", LEGACY, EVERYTHING),
    "everything-0326": ("everything, HTTP", "2025-03-26", EVERYTHING),
    "everything-stdio": ("everything, stdio", LEGACY, EVERYTHING),
    "python-old": ("Python SDK, HTTP", LEGACY, PYTHON),
    "typescript-old": ("TypeScript SDK, HTTP", LEGACY, TYPESCRIPT[LEGACY]),
    "typescript-0618": ("TypeScript SDK, HTTP", "2025-06-18", TYPESCRIPT[LEGACY]),
    "python-new": ("Python SDK, HTTP", MODERN, PYTHON),
    "python-stdio": ("Python SDK, stdio", MODERN, PYTHON),
    "typescript-new": ("TypeScript SDK, HTTP", MODERN, TYPESCRIPT[MODERN]),
}
ALL = "all"
# What each member of `all` speaks; the built-in tools speak what they are asked in.
MEMBERS = {"everything": LEGACY, "python": MODERN, "typescript": LEGACY, "memory": LEGACY}

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
    """A server behind one of the gateways, with its plan."""

    def __init__(self, name, url, events, extra):
        super().__init__(name, url, True, events)
        self.extra = extra
        self.kind = "typescript" if name == ALL else name.split("-")[0]

    @property
    def read(self):
        """(a URI, what reading it gives)"""
        return READS[self.kind]

    @property
    def notices(self):
        """Several as one say that a list changed when theirs did, which it does not here."""
        if self.name == ALL:
            return {**NOTICES, "change": ["typescript__change", {}], "wanted": ["message", "resources/updated"]}
        return NOTICES if self.kind == "typescript" else None

    def plan(self):
        plan, tag = super().plan()
        if self.name == ALL:
            plan = prefixed("python", plan)
        more = {"notices": self.notices} if self.notices else {}
        return {**plan, "extra": self.extra, "read": self.read[0], **more}, tag


def gateway(bench):
    """One gateway with every server, each alone at /mcp/NAME."""
    python, typescript = bench.server("python"), bench.server("typescript")
    everything = bench.server("everything")
    fixed = 'protocol = "{}"'.format
    script = HERE / "servers/py_server.py"
    return Gateway(bench, "bridge", {
        "everything": (everything.url, ""),
        "everything-0326": (everything.url, fixed("2025-03-26")),
        "python-old": (python.url, fixed(LEGACY)),
        "typescript-old": (typescript.url, fixed(LEGACY)),
        "typescript-0618": (typescript.url, fixed("2025-06-18")),
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


def prefixed(name, calls):
    return {step: [f"{name}__{tool}", args] for step, (tool, args) in calls.items()}


def steps_of_all():
    """The extra steps on a modern and on two legacy members, and one call for each other member."""
    members = {"python": PYTHON, "typescript": TYPESCRIPT[LEGACY], "everything": EVERYTHING}
    steps = {f"{step} ({name})": call for name, extra in members.items() for step, call in prefixed(name, extra).items()}
    steps["structured (memory)"] = ["memory__read_graph", {}]
    steps["structured (built-in)"] = ["smart_dedup", {"texts": ["One sentence.", "One sentence."]}]
    return steps


def listed(url):
    """Whether the lists of all members are there; a gateway is ready without those of one that fails at first."""
    about = {f"{PREFIX}/protocolVersion": MODERN, f"{PREFIX}/clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": about}}
    text = http(url, body, {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"})[2]
    return all(f'"{member}__' in text for member in MEMBERS)


def place(bench, name):
    if name == ALL:
        whole = bench.once("bridge-all", lambda: aggregate(bench))
        bench.once("bridge-all lists", lambda: wait_until("lists of all members", lambda: listed(whole.url)))
        return Place(name, whole.url, bench.server("python").events, steps_of_all())
    one = bench.once("bridge", lambda: gateway(bench))
    kind = name.split("-")[0]
    events = bench.stack.work / "bridge-stdio.events" if name == "python-stdio" else bench.server(kind).events
    return Place(name, f"{one.url}/{name}", events, SERVERS[name][2])
