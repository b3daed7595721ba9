"""What clients of every revision meet behind the gateway: each server alone at /mcp/NAME, and several as one at /mcp.

Owns the two gateways, and what each place has for a walk. Servers that speak both eras are held to one revision by
`protocol`, so that each stands on either side of the bridge.
"""
import http_sse
import upstreams
from bridge_plans import EVERYTHING, LEGACY, MODERN, OLDEST, READS, SERVER_PROMPTS, STEPS, WATCHED, rounds_of, steps_of
from calls import PREFIX
from gateway import Gateway
from harness import HERE, NODE, http, wait_until

REVISIONS = {"2025-03-26": "0326", "2025-06-18": "0618", LEGACY: "old", MODERN: "new"}
# server: (its SDK or kind, its transport, the revision it is spoken to in)
SERVERS = {
    "everything": ("everything", "HTTP", LEGACY),
    "everything-0326": ("everything", "HTTP", "2025-03-26"),
    "everything-stdio": ("everything", "stdio", LEGACY),
    "everything-sse": ("everything", "HTTP+SSE", LEGACY),
    "python-sse": ("python", "HTTP+SSE", OLDEST),
    **{f"{kind}{way}-{short}": (kind, transport, revision) for revision, short in REVISIONS.items()
       for kind in ("python", "typescript", "rmcp") for transport, way in (("HTTP", ""), ("stdio", "-stdio"))},
}
# Servers of these revisions speak no other legacy one, so that clients of newer ones agree on them.
HELD = (OLDEST, "2025-03-26", "2025-06-18")
ALL = "all"
# What each member of `all` speaks; the built-in tools speak what they are asked in.
MEMBERS = {"everything": LEGACY, "python": MODERN, "typescript": LEGACY, "rmcp": MODERN, "memory": LEGACY}


def held(name):
    """The one legacy revision of the server, if it has but one."""
    revision = SERVERS[name][2] if name != ALL else None
    return revision if revision in HELD else None


class Place(upstreams.Server):
    """A server behind one of the gateways, with its plan for a client that is translated for or not."""

    def __init__(self, name, kind, url, events, extra, translated):
        super().__init__(name, url, True, events)
        self.kind, self.extra, self.translated = kind, extra, translated

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
        """What is subscribed to, and the rounds of changes."""
        if self.name != ALL:
            return {"uris": [WATCHED[self.kind]], "rounds": rounds_of(self.kind, self.translated)}
        rounds = [one for kind in ("python", "typescript", "rmcp") for one in rounds_of(kind, True, f"{kind}__")]
        # Its lists and its log lines are of sessions, which several as one do not share.
        toggle = ["everything__toggle-subscriber-updates", {}]
        rounds += [{"level": "error", "calls": [toggle], "wanted": wanted, "without": []} for wanted in (["resources/updated"], [])]
        return {"uris": list(WATCHED.values()), "rounds": rounds}

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
        more = {"task": ["later", {}]} if self.kind == "rmcp" else {}
        if self.name == ALL:
            more["task"] = ["rmcp__later", {}]
        return {**plan, "extra": self.extra, "read": self.read[0], "prompt": prompt, "completion": completion,
                "notices": self.notices, **more}, tag


def events_of(bench, name):
    return bench.stack.work / f"{name}.events"


def server(bench, name):
    """The process of a server that is not started by the gateway."""
    kind, transport, _ = SERVERS[name]
    if name == "everything-sse":
        return http_sse.server(bench)
    return bench.server(kind, "sse" if transport == "HTTP+SSE" else None, held(name))


def upstream(bench, name):
    """What the gateway is told of a server: where it is, and what it speaks."""
    kind, transport, revision = SERVERS[name]
    if name == "everything-stdio":
        return [NODE, upstreams.EVERYTHING, "stdio"], ""
    protocol = {"everything": "", "everything-sse": 'protocol = "sse"'}.get(name, f'protocol = "{revision}"')
    if transport == "stdio":
        words = [held(name)] if held(name) else []
        return [*upstreams.ours(bench, kind), "stdio", events_of(bench, name), *words], protocol
    return server(bench, name).url, protocol


def gateway(bench):
    """One gateway with every server, each alone at /mcp/NAME."""
    return Gateway(bench, "bridge", {name: upstream(bench, name) for name in SERVERS})


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


def place(bench, name, translated):
    """What a client has before it."""
    if name == ALL:
        whole = bench.once("bridge-all", lambda: aggregate(bench))
        bench.once("bridge-all lists", lambda: wait_until("lists of all members", lambda: listed(whole.url)))
        return Place(name, "typescript", whole.url, bench.server("python").events, steps_of_all(), translated)
    one = bench.once("bridge", lambda: gateway(bench))
    kind, transport, revision = SERVERS[name]
    if transport == "stdio":
        events = None if kind == "everything" else events_of(bench, name)
    else:
        events = server(bench, name).events
    return Place(name, kind, f"{one.url}/{name}", events, steps_of(kind, revision), translated)
