"""The gateway under test, as a user runs it: a configuration file and `smartgate serve -c FILE`.

Owns that file's text and the readiness check. Invariant: every gateway has its own folder, ports and journal.
"""
import json
import pathlib

from harness import Skipped, check, free_ports, http, run, wait_until

KEY_SECRET = "sg-real-tests-0123456789abcdef0123456789abcdef"


def place(upstream):
    if upstream is None:
        return "builtin = true"
    if isinstance(upstream, list):
        return f"command = {json.dumps([str(word) for word in upstream])}"
    return f'url = "{upstream}"'


class Gateway:
    """One running gateway in front of `upstream`: a URL, a command as a list, None for the built-in tools, or several of
    these by name, each with more lines of its table: `{name: (upstream, more)}`."""

    def __init__(self, bench, name, upstream, tls=None, key=False, journal='{ path = "audit.jsonl" }', extra="", protocol=None,
                 auth="none", admin_key=None):
        if bench.binary is None:
            raise Skipped("no gateway in a direct run")
        self.bench, self.name = bench, name
        self.folder = pathlib.Path(bench.stack.work) / f"gateway-{name}"
        self.folder.mkdir(parents=True)
        self.port, self.admin = free_ports(2)
        self.scheme = "https" if tls else "http"
        self.url = f"{self.scheme}://127.0.0.1:{self.port}/mcp"
        self.journal = self.folder / "audit.jsonl"
        self.config = self.folder / "smartgate.toml"
        self.config.write_text(self._text(upstream, tls, key, journal, extra, protocol, auth, admin_key))
        self.start()

    def _text(self, upstream, tls, key, journal, extra, protocol, auth, admin_key):
        server = f'[server]\nlisten = "127.0.0.1:{self.port}"\n'
        if tls:
            server += f'tls = {{ cert = "{tls.cert}", key = "{tls.key}" }}\n'
        auth = f'[auth]\nmode = "{auth}"\n'
        admin = f'[admin]\nlisten = "127.0.0.1:{self.admin}"\n' + (f'key = "{admin_key}"\n' if admin_key else "")
        if key:
            secret = self.folder / "key.secret"
            secret.write_text(KEY_SECRET)
            auth = f'[auth]\nmode = "keys"\n[[keys]]\nname = "real-tests"\nfile = "{secret}"\n'
        more = 'prefix = ""' + (f'\nprotocol = "{protocol}"' if protocol is not None else "")
        several = upstream if isinstance(upstream, dict) else {"real": (upstream, more)}
        tables = "".join(f"[upstreams.{name}]\n{place(of)}\n{more}\n" for name, (of, more) in several.items())
        return (
            f'{server}{admin}{auth}{tables}'
            f'[audit]\njournal = {journal}\n{extra}'
        )

    def start(self):
        self.process = self.bench.stack.start(
            f"gateway-{self.name}", [self.bench.binary, "serve", "-c", self.config], self.ready, cwd=self.folder)

    def ready(self):
        try:
            return http(f"http://127.0.0.1:{self.admin}/readyz", seconds=1)[0] == 200
        except OSError:
            return False

    def knows(self):
        """Waits until every upstream was asked what it speaks: before that, calls go on as they came."""
        def learned():
            states = json.loads(http(f"http://127.0.0.1:{self.admin}/readyz")[2])["upstreams"].values()
            return all(state["state"] == "ok" for state in states)

        wait_until(f"{self.name} knows its upstreams", learned)

    def stop(self):
        return self.process.stop()

    def records(self, kind="call"):
        """The journal's records; a last line that is still being written is left out."""
        lines = self.journal.read_text().split("\n")[:-1]
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    def verify_journal(self):
        status, out, err = run([self.bench.binary, "audit", "verify", self.journal])
        check(status == 0, f"audit verify exited {status}: {out}{err}")
