"""What clients of every revision meet behind the gateway: each server alone at /mcp/NAME, and several as one at /mcp.

Owns the two gateways, and what each place has for a walk. Servers that speak both eras are held to one revision by
`protocol`, so that each stands on either side of the bridge.
"""
import http_sse
import upstreams
from bridge_plans import EVERYTHING, LEGACY, MODERN, OLDEST, READS, SERVER_PROMPTS, STEPS, notices_of, steps_of
from calls import PREFIX
from gateway import Gateway
from harness import HERE, NODE, PYTHON2, http, wait_until

# server: (its SDK or kind, its transport, the revision it is spoken to in)
SERVERS = {
    "everything": ("everything", "HTTP", LEGACY),
    "everything-0326": ("everything", "HTTP", "2025-03-26"),
    "everything-stdio": ("everything", "stdio", LEGACY),
    "everything-sse": ("everything", "HTTP+SSE", LEGACY),
    "python-sse": ("python", "HTTP+SSE", OLDEST),
    "python-old": ("python", "HTTP", LEGACY),
    "typescript-old": ("typescript", "HTTP", LEGACY),
    "typescript-0618": ("typescript", "HTTP", "2025-06-18"),
    "rmcp-old": ("rmcp", "HTTP", LEGACY),
    "rmcp-stdio": ("rmcp", "stdio", LEGACY),
    "python-new": ("python", "HTTP", MODERN),
    "python-stdio": ("python", "stdio", MODERN),
    "typescript-new": ("typescript", "HTTP", MODERN),
    "rmcp-new": ("rmcp", "HTTP", MODERN),
    "rmcp-stdio-new": ("rmcp", "stdio", MODERN),
}
ALL = "all"
# What each member of `all` speaks; the built-in tools speak what they are asked in.
MEMBERS = {"everything": LEGACY, "python": MODERN, "typescript": LEGACY, "rmcp": MODERN, "memory": LEGACY}


class Place(upstreams.Server):
    """A server behind one of the gateways, with its plan."""

    def __init__(self, name, kind, url, events, extra):
        super().__init__(name, url, True, events)
        self.kind, self.extra = kind, extra

    @property
    def pages(self):
        """How many pages the list of tools has; those of several servers are put together."""
        return 1 if self.name == ALL or self.kind == "everything" else 2

    @property
    def read(self):
        """(a URI, what reading it gives)"""
        return READS[self.kind]

    @property
    def notices(self):
        """Several as one say that a list changed when theirs did, which it does not here."""
        if self.name == ALL:
            return {**notices_of(self.kind), "change": ["typescript__change", {}], "wanted": ["message", "resources/updated"]}
        return notices_of(self.kind) if self.kind != "everything" else None

    @property
    def sse_url(self):
        """Where clients of HTTP+SSE find it."""
        return self.url.replace("/mcp", "/sse")

    def plan(self):
        plan, tag = super().plan()
        prompt, completion = SERVER_PROMPTS[self.kind]
        if self.name == ALL:
            plan = prefixed("python", plan)
            prompt, completion = ([f"typescript__{name}", *rest] for name, *rest in (prompt, completion))
        more = {"notices": self.notices} if self.notices else {}
        if self.kind == "rmcp":
            more["task"] = ["later", {}]
        return {**plan, "extra": self.extra, "read": self.read[0], "prompt": prompt, "completion": completion, **more}, tag


def events_of(bench, name):
    return bench.stack.work / f"{name}.events"


def gateway(bench):
    """One gateway with every server, each alone at /mcp/NAME."""
    def url(kind, protocol, way=None):
        return bench.server(kind, way).url, f'protocol = "{protocol}"'

    def command(name, *words, protocol):
        return [*words, "stdio", events_of(bench, name)], f'protocol = "{protocol}"'

    python = [PYTHON2, HERE / "servers/py_server.py"]
    return Gateway(bench, "bridge", {
        "everything": (bench.server("everything").url, ""),
        "everything-0326": url("everything", "2025-03-26"),
        "everything-stdio": ([NODE, upstreams.EVERYTHING, "stdio"], ""),
        "everything-sse": (http_sse.server(bench).url, 'protocol = "sse"'),
        "python-sse": url("python", OLDEST, "sse"),
        "python-old": url("python", LEGACY),
        "typescript-old": url("typescript", LEGACY),
        "typescript-0618": url("typescript", "2025-06-18"),
        "rmcp-old": url("rmcp", LEGACY),
        "rmcp-stdio": command("rmcp-stdio", bench.rmcp_server, protocol=LEGACY),
        "python-new": url("python", MODERN),
        "python-stdio": command("python-stdio", *python, protocol=MODERN),
        "typescript-new": url("typescript", MODERN),
        "rmcp-new": url("rmcp", MODERN),
        "rmcp-stdio-new": command("rmcp-stdio-new", bench.rmcp_server, protocol=MODERN),
    })


def aggregate(bench):
    """One gateway that shows servers of both eras, over HTTP and stdio, and the built-in tools as one."""
    def member(kind):
        return bench.server(kind).url, f'protocol = "{MEMBERS[kind]}"'

    return Gateway(bench, "bridge-all", {
        "everything": (bench.server("everything").url, ""),
        "python": member("python"),
        "typescript": member("typescript"),
        "rmcp": member("rmcp"),
        "memory": ([NODE, HERE / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"], ""),
        "own": (None, 'prefix = ""'),
    })


def prefixed(name, calls):
    return {step: [f"{name}__{tool}", args] for step, (tool, args) in calls.items()}


def steps_of_all():
    """The extra steps on modern and on legacy members, and one call for each other member."""
    members = {"python": STEPS, "typescript": steps_of("typescript", LEGACY), "rmcp": STEPS,
               # Shown only to clients with roots, and to those that open pages: at /mcp/everything alone.
               "everything": {step: call for step, call in EVERYTHING.items() if step not in ("roots", "page")}}
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
    """What a client has before it."""
    if name == ALL:
        whole = bench.once("bridge-all", lambda: aggregate(bench))
        bench.once("bridge-all lists", lambda: wait_until("lists of all members", lambda: listed(whole.url)))
        return Place(name, "typescript", whole.url, bench.server("python").events, steps_of_all())
    one = bench.once("bridge", lambda: gateway(bench))
    kind, transport, revision = SERVERS[name]
    if transport == "stdio":
        events = None if kind == "everything" else events_of(bench, name)
    else:
        events = bench.server(kind, "sse" if name == "python-sse" else None).events
    return Place(name, kind, f"{one.url}/{name}", events, steps_of(kind, revision))
