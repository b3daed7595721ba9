"""A gateway to which everything has happened that dashboards and alerts ask about: calls that end in each way, repairs,
refusals by each limit, a reload, a broken file, an upstream that went away, spans at a real collector."""

import json
import socket
from urllib.parse import urlencode

import collector
import upstreams
from calls import modern_call
from harness import check, free_ports, http, wait_until

RICH, POOR, QUICK = (f"{name}-0123456789abcdef0123456789abcdef" for name in ("rich", "poor", "quick"))


class Staged:
    def __init__(self, bench):
        self.bench = bench
        self.folder = bench.stack.work / "staged"
        self.folder.mkdir()
        self.collector = collector.Collector(bench)
        self.port, self.admin = free_ports(2)
        self.config = self.folder / "smartgate.toml"
        (port,) = free_ports(1)
        self.server = upstreams.Server("python", f"http://127.0.0.1:{port}/mcp", True, None)
        self.process = bench.stack.start(
            f"staged-server-{port}",
            [upstreams.PYTHON2, upstreams.HERE / "servers/py_server.py", port, "/dev/null"],
            lambda: upstreams.listening(port),
        )
        self.config.write_text(self._text())
        bench.stack.start("staged-gateway", [bench.binary, "serve", "-c", self.config], self._ready)
        self._happen()

    def _text(self):
        key = '[[keys]]\nname = "{}"\nenv = "{}"\n{}\n'
        keys = [("rich", RICH, ""), ("poor", POOR, 'budget = "10 tokens/day"'), ("quick", QUICK, 'rate = "1/min"')]
        for name, secret, _ in keys:
            (self.folder / name).write_text(secret)
        return "".join(
            [
                f'[server]\nlisten = "127.0.0.1:{self.port}"\n[admin]\nlisten = "127.0.0.1:{self.admin}"\n',
                *(key.replace("env", "file").format(name, self.folder / name, more) for name, _, more in keys),
                f'[upstreams.server]\nurl = "{self.server.url}"\n[upstreams.smart]\nbuiltin = true\n',
                f'[telemetry]\notlp = "http://127.0.0.1:{self.collector.grpc}"\n',
            ]
        )

    def _get(self, path):
        return http(f"http://127.0.0.1:{self.admin}{path}", seconds=2)

    def _ready(self):
        try:
            return self._get("/readyz")[1:] and '"server":{"state":"ok"' in self._get("/readyz")[2]
        except OSError:
            return False

    def metrics(self):
        return self._get("/metrics")[2]

    def call(self, upstream, key, expected, tool="echo", arguments=None):
        status, _, text = modern_call(
            f"http://127.0.0.1:{self.port}/mcp/{upstream}",
            "1",
            arguments or {"message": "hi"},
            headers={"authorization": f"Bearer {key}"},
            tool=tool,
        )
        check(status == expected, f"{tool} at {upstream}: {status}, not {expected}: {text[:500]}")

    def _happen(self):
        self.call("server", RICH, 200)
        self.call("server", RICH, 200, "count", {"steps": "3"})  # repaired: a number in quotes
        remember = {"action": "store", "key": "a", "content": "b"}
        self.call("smart", RICH, 200, "smart_memory", remember)
        self.call("smart", POOR, 429, "smart_memory", remember)
        self.call("server", "wrong", 401)
        self.call("server", QUICK, 200)
        self.call("server", QUICK, 429)
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as raw:
            raw.sendall(b"no HTTP\r\n\r\n")
            raw.recv(100)
        whole = self.config.read_text()
        self.config.write_text(whole.replace('budget = "10 tokens/day"', 'budget = "100k tokens/day"'))
        self._reloads("ok")
        self.call("smart", POOR, 200, "smart_memory", remember)
        self.config.write_text("broken")
        self._reloads("failed")
        self.process.stop()
        self.call("server", RICH, 502)

    def _reloads(self, result):
        wait_until(f"a reload: {result}", lambda: f'smartgate_reloads_total{{result="{result}"}}' in self.metrics())

    def attributes(self):
        """Names of the attributes that the collector has seen."""
        wait_until(
            "spans", lambda: any("smartgate.tokens.out" in span["attributes"] for span in self.collector.spans())
        )
        return {name for span in self.collector.spans() for name in span["attributes"]}


def sample_names(text):
    return {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}


def query(port, expression):
    """The series that Prometheus gives for an expression, as a list."""

    status, _, text = http(f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': expression})}")
    check(status == 200, f"{expression}: {text}")
    return json.loads(text)["data"]["result"]
