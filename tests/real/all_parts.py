"""The servers of `all_as_one`: each as its authors ship it, over stdio, HTTP and HTTP+SSE, behind one endpoint.

Owns the gateway and what is known of each member: a call that proves it is there, its prompt, its resource, and the
tools with which it asks the client. Three of the members are the everything server: their tools and prompts are told
apart by prefixes. Their resources have the same URIs, and such URIs are shown of none (docs/bridge.md).
"""
import json

import upstreams
from calls import PREFIX, MODERN
from gateway import Gateway
from harness import HERE, NODE, PYTHON2, free_ports, http, listening, wait_until

PACKAGES = HERE / "node_modules/@modelcontextprotocol"
EVERYTHING = ("everything", "everything-stdio", "everything-sse")
PROMPTS = {
    **{name: ("simple-prompt", {}, "simple prompt") for name in EVERYTHING},
    "typescript": ("test_simple_prompt", {}, "simple prompt"),
}
RESOURCES = {
    "test://about": "a resource of the Python server",
    "test://static-text": "content of the static text resource",
}
TEMPLATES = ["test://template/{id}/data"]
ASKS = {
    "python": [("greet", {}, "Ada"), ("ask_model", {}, "sampled")],
    "typescript": [
        ("test_input_required_result_elicitation", {}, "Ada"),
        ("test_input_required_result_sampling", {}, "sampled"),
    ],
    **{name: [
        ("trigger-elicitation-request", {}, "Ada"),
        ("trigger-sampling-request", {"prompt": "Say something"}, "sampled"),
    ] for name in EVERYTHING},
}


class Parts:
    """The running members and the gateway in front of them."""

    def __init__(self, bench):
        self.bench, self.work = bench, bench.stack.work / "all-as-one"
        self.work.mkdir()
        (self.work / "a.txt").write_text("read over stdio")
        (self.work / "page.html").write_text("<html><body><p>fetched over stdio</p></body></html>")
        self.ports = dict(zip(("everything", "everything-sse", "pages"), free_ports(3)))
        self._running = {}
        for name in self.ports:
            self.bring_up(name)
        self.calls = self._calls()
        self.gateway = Gateway(bench, "all-as-one", self._members())
        wait_until("lists of all members", lambda: all(f'"{name}__' in listed(self.gateway.url) for name in self.calls))

    def bring_up(self, name):
        """Starts a server on its port, also once more."""
        port = self.ports[name]
        command = {
            "everything": [NODE, upstreams.EVERYTHING, "streamableHttp"],
            "everything-sse": [NODE, upstreams.EVERYTHING, "sse"],
            "pages": [PYTHON2, "-m", "http.server", port, "--bind", "127.0.0.1", "--directory", self.work],
        }[name]
        self._running[name] = self.bench.stack.start(
            f"all-{name}-{port}", command, lambda: listening(port), env={"PORT": str(port)})

    def take_down(self, name):
        self._running[name].kill()

    def _calls(self):
        """One call for each member: (tool, arguments, what it says)."""
        page = f"http://127.0.0.1:{self.ports['pages']}/page.html"
        echo = ("echo", {"message": "hi"}, "Echo: hi")
        return {
            "files": ("read_text_file", {"path": str(self.work / "a.txt")}, "read over stdio"),
            "memory": ("read_graph", {}, "entities"),
            "time": ("get_current_time", {"timezone": "Asia/Tokyo"}, "+09:00"),
            "fetch": ("fetch", {"url": page, "raw": True}, "fetched over stdio"),
            "everything-stdio": echo, "everything": echo, "everything-sse": echo, "python": echo, "typescript": echo,
        }

    def _members(self):
        server = lambda package: PACKAGES / package / "dist/index.js"
        return {
            "files": ([NODE, server("server-filesystem"), self.work], ""),
            "memory": ([NODE, server("server-memory")], f"env = {{ MEMORY_FILE_PATH = {json.dumps(str(self.work / 'memory.jsonl'))} }}"),
            "time": ([PYTHON2.parent / "mcp-server-time", "--local-timezone", "UTC"], ""),
            "fetch": ([PYTHON2.parent / "mcp-server-fetch", "--allow-private-ips"], ""),
            "everything-stdio": ([NODE, upstreams.EVERYTHING, "stdio"], ""),
            "everything": (f"http://127.0.0.1:{self.ports['everything']}/mcp", ""),
            "everything-sse": (f"http://127.0.0.1:{self.ports['everything-sse']}/sse", 'protocol = "sse"'),
            "python": (self.bench.server("python").url, ""),
            "typescript": (self.bench.server("typescript").url, ""),
        }


def listed(url):
    """The text of one page of tools; a gateway is ready before it has asked each of its servers."""
    about = {f"{PREFIX}/protocolVersion": MODERN, f"{PREFIX}/clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": about}}
    return http(url, body, {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"})[2]
