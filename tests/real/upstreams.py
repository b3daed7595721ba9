"""The real servers: how each is started, which eras it speaks, and the plan that a client can walk on it."""
import dataclasses
import itertools

from harness import HERE, NODE, PYTHON2, free_ports, listening

EVERYTHING = HERE / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
_tags = itertools.count(1)


@dataclasses.dataclass
class Server:
    """A running server. `events` is where its slow tool reports how it ended, or None where it cannot."""
    name: str
    url: str
    modern: bool
    events: object

    def plan(self):
        """(plan for one client run, the tag of its slow call)."""
        tag = f"slow-{next(_tags)}"
        echo = ["echo", {"message": "hi"}]
        if self.events is None:
            slow = "trigger-long-running-operation"
            return {"echo": echo, "progress": [slow, {"duration": 0.3, "steps": 3}], "slow": [slow, {"duration": 20, "steps": 200}]}, tag
        return {"echo": echo, "progress": ["count", {"steps": 3}], "slow": ["slow", {"tag": tag}]}, tag

    def slow_call_ended(self, tag):
        """How the server saw the slow call end: `cancelled`, `finished` or None while it runs."""
        lines = self.events.read_text().splitlines() if self.events.exists() else []
        return next((event for event, seen in map(str.split, lines) if seen == tag and event != "start"), None)


def start(bench, name, way=None, revision=None):
    """Starts the server `name`, over HTTP+SSE if `way` says so, and of one legacy revision alone if `revision` does."""
    stack, (port,) = bench.stack, free_ports(1)
    events = None if name == "everything" else stack.work / f"{name}-{port}.events"
    env = {"PORT": str(port)}
    if name == "everything":
        held = ["--import", HERE / "servers/held_to.mjs"] if revision else []
        command = [NODE, *held, EVERYTHING, way or "streamableHttp"]
        env |= {"HELD_TO": revision} if revision else {}
    else:
        command = [*ours(bench, name), port, events, *([way] if way else []), *([revision] if revision else [])]
    stack.start(f"server-{name}-{port}", command, lambda: listening(port), env=env)
    return Server(name, f"http://127.0.0.1:{port}/{way or 'mcp'}", name != "everything" and not way, events)


def ours(bench, name):
    """The command of a server that is ours; what follows is PORT|stdio EVENTS_FILE [sse] [REVISION]."""
    return {
        "python": [PYTHON2, HERE / "servers/py_server.py"],
        "typescript": [NODE, HERE / "servers/ts_server.mjs"],
        "rmcp": [bench.rmcp_server],
    }[name]


NAMES = ("everything", "python", "typescript")
