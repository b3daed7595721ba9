"""Writes docs/matrix.md from what the walks of `bridge` saw. Invariant: two runs that saw the same write the same."""
import json
import re

import bridge
import bridge_rules
from bridge_places import ALL, SERVERS
from harness import HERE, ROOT, check

PAGE = ROOT / "docs/matrix.md"
NAMES = {"python1": "Python SDK 1", "python2": "Python SDK 2", "typescript1": "TypeScript SDK 1", "typescript2": "TypeScript SDK 2",
         "rmcp": "Rust SDK"}
SERVER_NAMES = {"everything": "everything", "python": "Python SDK", "typescript": "TypeScript SDK", "rmcp": "Rust SDK"}
PARTS = ("@modelcontextprotocol/client", "@modelcontextprotocol/sdk", "@modelcontextprotocol/server",
         "@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-memory")

HEAD = """# The matrix

Real clients in front of real servers, through the gateway. Written by `tests/matrix`; do not edit.

A cell is one walk: connect, list (of two pages, where the server has two: all but `everything`), call, structured result, error
result, progress, cancel, elicitation, a page to open, sampling, roots, a resource, a prompt, a completion, a resource that
was subscribed to and changes, a list that changes (and has the new tool when it is read again), and log lines (those below the level
that the client wants do not come, others do); between the Rust SDK's client and server, also as one of several, a task, which
is one between ends of one era, and a plain call where the gateway translates. Every server is alone at `/mcp/NAME`, for clients of
HTTP+SSE at `/sse/NAME`. The last column is all of them as one at `/mcp`: `everything` (HTTP, legacy), Python and Rust (HTTP, 2026-07-28),
TypeScript (HTTP, 2025-11-25), `memory` (stdio, legacy) and the built-in tools; there results, questions and news are walked on each
member that has them, the rest on one; the members' lists are read page by page and shown as one page.

- **ok**: every step did what is expected of it, and the gateway translated between the eras. In the last column it does so
  where client and member differ, and for legacy clients always.
- ok: the same, and nothing was translated, because client and server speak one era. The servers of 2024-11-05, 2025-03-26 and 2025-06-18
  speak no other legacy revision, so client and server agree on the column's, which is checked; before the servers of 2025-11-25 they
  agree on the client's. Between HTTP+SSE and the other transports the gateway goes between in either case.
- a number: a step is impossible by the rule of that number below, and does what the rule says instead.

A client of 2026-07-28 is one that would fall back to an older revision (`auto`), or one that never does (`pinned`): the Python SDK 2 then
asks for nothing before its first request, which in these walks is a call; the TypeScript SDK 2 (`pin`) and the Rust SDK (`Discover`)
begin with `server/discover`, as they do in `auto`.

Servers that speak both eras are held to one by `protocol`. The journal of both gateways is checked after the walks: `bridged` is
true for the tool calls that were translated and for no other, no translated call is a failure of a server, and the hash chain holds.
"""

REST = """
## Not in the table

- Older revisions are asked for by one client alone, through a constant of its SDK. The servers are held to one by an option of their
  SDK (TypeScript 2, Rust), by its constants (Python) or by the answer to `initialize` (`everything`, which is on the TypeScript SDK 1).
- Servers over HTTP+SSE of the TypeScript SDK 2 and the Rust SDK: these SDKs have no such transport. Other servers of 2024-11-05: over
  stdio it is the later revisions' transport, and over HTTP there was none but HTTP+SSE.
- Tasks of the other SDKs: they have none of 2026-07-28.
- `everything`: its list of tools changes only while a session begins, so the list that changes is that of its resources. Its log lines
  belong to no call: a modern client, whose log lines all belong to one, hears those that come while a call is open.
- Of `everything` as one of several: roots and pages to open, which are at `PATH/NAME` alone; the change of its list, which only the
  session sees that made it; its log lines, which belong to no call ([bridge.md](bridge.md)). `memory` and the built-in tools have nothing
  to subscribe to and no lists that change.
- A second page of several as one: a page of theirs has 1,000 entries, and they have fewer.
"""


def of_client(client, mode):
    revision = bridge_rules.revision_of(mode)
    if mode == bridge_rules.SSE:
        return f"{NAMES[client]}, {revision} over HTTP+SSE"
    return f"{NAMES[client]}, {revision}" + (f" (`{mode}`)" if mode in ("auto", "pinned") else "")


def of_server(name):
    if name == ALL:
        return "all as one"
    kind, transport, revision = SERVERS[name]
    return f"{SERVER_NAMES[kind]}, {transport}, {revision}"


def of_cell(cell, client, mode, name):
    bad = [step for step, why in cell.items() if why]
    if bad:
        return "fails: " + ", ".join(bad)
    numbers = "".join(f" {number}" for number in sorted(bridge.rules(client, mode, name)))
    return ("**ok**" if bridge.translates(mode, name) else "ok") + numbers


def rules():
    lines = [f"{number}. {text}" for number, text in bridge_rules.RULES.items()]
    return "\n## Rules\n\n" + "\n".join(lines) + "\n\n[bridge.md](bridge.md) lists these and all other losses.\n"


def versions():
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
    found = [f"`{part}` {wanted[part]}" for part in PARTS]
    for file in ("py1", "py2"):
        text = (HERE / f"requirements/{file}.txt").read_text()
        found.append("`mcp` " + re.search(r"^mcp==(\S+)", text, re.M).group(1))
    found.append("`rmcp` " + re.search(r'^rmcp = \{ version = "=([^"]+)"', (HERE / "rmcp/Cargo.toml").read_text(), re.M).group(1))
    return ", ".join(found)


def write(cells):
    rows = [(client, mode) for client in NAMES for mode in bridge.modes(client)]
    columns = [*SERVERS, ALL]
    missing = [(*row, name) for row in rows for name in columns if (*row, name) not in cells]
    check(not missing, lambda: f"the page needs every cell; not run: {missing[:3]}")
    lines = ["| client | " + " | ".join(map(of_server, columns)) + " |", "|---" * (len(columns) + 1) + "|"]
    for client, mode in rows:
        found = [of_cell(cells[client, mode, name], client, mode, name) for name in columns]
        lines.append(f"| {of_client(client, mode)} | " + " | ".join(found) + " |")
    PAGE.write_text(HEAD + "\n" + "\n".join(lines) + "\n" + rules() + REST + "\nVersions: " + versions() + ".\n")
