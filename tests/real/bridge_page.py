"""Writes docs/matrix.md from what the walks of `bridge` saw. Invariant: two runs that saw the same write the same."""
import json
import re

import bridge
from bridge_places import ALL, SERVERS
from harness import HERE, ROOT, check

PAGE = ROOT / "docs/matrix.md"
NAMES = {"python1": "Python SDK 1", "python2": "Python SDK 2", "typescript1": "TypeScript SDK 1", "typescript2": "TypeScript SDK 2",
         "rmcp": "Rust SDK"}
PARTS = ("@modelcontextprotocol/client", "@modelcontextprotocol/sdk", "@modelcontextprotocol/server",
         "@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-memory")

HEAD = """# The matrix

Real clients in front of real servers, through the gateway. Written by `tests/real/run.py --write-matrix bridge/` with the arguments
that [tests/real/README.md](../tests/real/README.md) names; do not edit.

A cell is one walk: connect, list, call, structured result, error result, progress, cancel, elicitation, sampling, a resource; with
TypeScript servers also a subscribed resource that changes, a list that changes and a log line. Every server is alone at `/mcp/NAME`. The
last column is all of them as one at `/mcp`: `everything` (HTTP, legacy), Python (HTTP, 2026-07-28), TypeScript (HTTP, 2025-11-25),
`memory` (stdio, legacy) and the built-in tools; there structured and error results, elicitation and sampling
are walked on each member that has them, the rest on one.

- **ok**: every step did what is expected of it, and the gateway translated. In the last column it does so
  where client and member differ, and for legacy clients always.
- ok: the same, and nothing was translated, because client and server speak one era. The revision is then what these two agree on, and not
  the column's.
- **ok** with a number: translated, with the loss that is named below.

Servers that speak both eras are held to one revision by `protocol`. The journal of both gateways is checked after the walks: `bridged` is
true for the tool calls that were translated and for no other, no translated call is a failure of a server, and the hash chain holds.
"""

LOSS = """
## Losses

1. The revision that the client asked for has no elicitation and no structured results, so it is not asked, and it gets structured
   results as text; [bridge.md](bridge.md) lists this and all other losses. The walk checks that it is so.

## Not in the table

- Clients and servers over HTTP+SSE (2024-11-05): no walk yet. The rows for older revisions are streamable HTTP.
- A rmcp server, and lists of two pages: no server here has them.
- Older revisions are asked for by one client alone, through a constant of its SDK.
- `tools/list_changed` of all as one: no list changes here. Roots, completions, prompts, pages to open, tasks.
"""


def of_client(client, mode):
    revision = bridge.revision_of(mode)
    return f"{NAMES[client]}, {revision}" + (" (`auto`)" if mode == "auto" else "")


def of_server(name):
    return "all as one" if name == ALL else "{}, {}".format(*SERVERS[name][:2])


def of_cell(cell, client_mode, name):
    bad = [step for step, why in cell.items() if why]
    if bad:
        return "fails: " + ", ".join(bad)
    loses = bridge.lacks("elicitation", client_mode, name)
    return ("**ok**" if bridge.translates(client_mode, name) else "ok") + (" 1" if loses else "")


def versions():
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
    found = [f"`{part}` {wanted[part]}" for part in PARTS]
    for file in ("py1", "py2"):
        text = (HERE / f"requirements/{file}.txt").read_text()
        found.append("`mcp` " + re.search(r"^mcp==(\S+)", text, re.M).group(1))
    found.append("`rmcp` " + re.search(r'^rmcp = \{ version = "=([^"]+)"', (HERE / "rmcp-client/Cargo.toml").read_text(), re.M).group(1))
    return ", ".join(found)


def write(cells):
    rows = [(client, mode) for client in NAMES for mode in bridge.modes(client)]
    columns = [*SERVERS, ALL]
    missing = [(*row, name) for row in rows for name in columns if (*row, name) not in cells]
    check(not missing, lambda: f"the page needs every cell; not run: {missing[:3]}")
    lines = ["| client | " + " | ".join(map(of_server, columns)) + " |", "|---" * (len(columns) + 1) + "|"]
    for client, mode in rows:
        found = [of_cell(cells[client, mode, name], mode, name) for name in columns]
        lines.append(f"| {of_client(client, mode)} | " + " | ".join(found) + " |")
    PAGE.write_text(HEAD + "\n" + "\n".join(lines) + "\n" + LOSS + "\nVersions: " + versions() + ".\n")
