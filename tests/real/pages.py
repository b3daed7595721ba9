"""The admin pages in a real headless Chromium: looks, live calls, keyboard, hostile names, login.

`browser/pages.mjs` walks; this starts what it walks on. Screenshots are kept in `$ARTIFACTS`, else in `artifacts/`.
"""
import hashlib
import os
import pathlib
import shutil
import time

from gateway import Gateway
from harness import HERE, NODE, ROOT, Skipped, check, free_ports, http, run, wait_until

ADMIN_KEY = "admin-key-of-the-pages-0123456789"
SECRETS = {
    "cursor-ada": "sg-pages-ada-0123456789abcdef0123456789ab",
    "nightly": "sg-pages-nightly-0123456789abcdef012345",
    '<b>"key"</b>': "sg-pages-hostile-0123456789abcdef012345",
}
MORE = {"cursor-ada": 'budget = "2M tokens/month"', "nightly": 'budget = "9k tokens/day"'}
SCENARIOS = ("look", "live", "keyboard", "connect", "noscript", "hostile", "login")


def chromium():
    found = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if found is None:
        raise Skipped("there is no chromium: apt-get install chromium")
    return found


def keys():
    table = "[[keys]]\nname = '{}'\nsha256 = \"{}\"\n{}\n"
    return "".join(table.format(name, hashlib.sha256(secret.encode()).hexdigest(), MORE.get(name, ""))
                   for name, secret in SECRETS.items())


def gateway(bench):
    """One with two keys, three upstreams of which one is down, and calls of every kind."""
    def start():
        dead, = free_ports(1)
        upstreams = {
            "files": (bench.server("typescript").url, ""),
            "smart": (None, ""),
            "down": (f"http://127.0.0.1:{dead}/mcp", "connect_timeout = \"200ms\""),
        }
        started = Gateway(bench, "pages", upstreams, extra='capture = "redacted"\n' + keys(), auth="keys")
        wait_until("the tools of the servers", lambda: ready(started, "files") and ready(started, "smart"))
        seed(started)
        return started

    return bench.once("pages", start)


def ready(gate, name):
    return f'"{name}":{{"state":"ok"' in http(f"http://127.0.0.1:{gate.admin}/readyz")[2]


def locked(bench):
    return bench.once("pages-locked", lambda: Gateway(bench, "pages-locked", None, admin_key=ADMIN_KEY))


def tool(name, arguments, number=1):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def seed(gate):
    """Calls over a few seconds, by four clients of which two err in their ways."""
    def send(body, agent, key="cursor-ada"):
        http(gate.url, body, {"authorization": f"Bearer {SECRETS[key]}", "user-agent": agent}, seconds=60)

    for n in range(4):
        for _ in range(3):
            send(tool("files__echo", {"message": f"hello {n}"}), "cursor-vscode/2.1.0")
            send(tool("files__count", {"steps": 2 + n}), "claude-code/3.4.1")
        send(tool("files__count", {"steps": str(n + 1)}), "old-agent/0.9")
        send({"jsonrpc": "2.0", "id": 1, "method": "files__echo", "params": {"message": "direct"}}, "old-agent/0.9")
        send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}, "old-agent/1.0")
        send(tool("files__echo", {"message": 5, "token": "hidden"}), "old-agent/0.9")
        send(tool("smart_dedup", {"texts": ["a b c", "a b c", "d"] * 20}), "nightly-job/1", "nightly")
        send(tool("down__anything", {}), "nightly-job/1", "nightly")
        send(b"{not json", "broken/0.1")
        http(gate.url, tool("files__echo", {"message": "x"}), {"authorization": "Bearer wrong", "user-agent": "stranger/1"})
        time.sleep(0.9)


def test(bench, scenario):
    def walk():
        gate, other = gateway(bench), locked(bench)
        artifacts = pathlib.Path(os.environ.get("ARTIFACTS", ROOT / "artifacts")) / "pages"
        artifacts.mkdir(parents=True, exist_ok=True)
        status, out, err = run([NODE, HERE / "browser/pages.mjs", scenario], seconds=180, env={
            "ADMIN": f"http://127.0.0.1:{gate.admin}", "MCP": gate.url, "KEY": SECRETS["cursor-ada"],
            "HOSTILE": SECRETS['<b>"key"</b>'], "LOCKED": f"http://127.0.0.1:{other.admin}", "LOCKED_KEY": ADMIN_KEY,
            "CHROMIUM": chromium(), "ARTIFACTS": str(artifacts),
        })
        print(out, end="")
        check(status == 0, lambda: f"{err[-3000:]}")

    return walk


def tests(bench):
    if bench.binary is None:
        return
    for scenario in SCENARIOS:
        yield f"pages/{scenario}", test(bench, scenario)
