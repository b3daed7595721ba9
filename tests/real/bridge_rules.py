"""What cannot work in a cell, and the rule of the protocol or of an SDK that makes it so.

Invariant: whatever is named here is shown in docs/matrix.md by its number, and the walk checks that it is so, where the
rule says what happens instead.
"""
from bridge_plans import LEGACY, MODERN

SSE = "http-sse"
SINCE = {"structured": "2025-06-18", "elicitation": "2025-06-18", "page": LEGACY}
RULES = {
    1: """The revision that the client asked for has no elicitation (before 2025-06-18), no pages to open (before
   2025-11-25) and no structured results (before 2025-06-18). So it is not asked, and it gets structured results as text.""",
    2: """`everything` asks for roots on the session's own stream (GET) and not on the stream of the call that needs them. A modern
   result can carry only what its own call asks for (2026-07-28, multi round-trip requests), so nobody can be asked.""",
    3: """A legacy server on the Rust SDK sends log lines on the session's own stream over HTTP. The modern era has them on the stream
   of the request that asked for them alone (2026-07-28, logging), and nobody can tell which request these are of.""",
    4: """The TypeScript SDK 1 forgets a call's progress handler as soon as it reads the result, before it has run the handler
   for a report that came in the same read. Over HTTP+SSE that is the rule, with and without the gateway: such reports are lost.""",
    5: """One process serves all calls of the modern era over stdio, and a log line there names no request (2026-07-28, logging; transports,
   stdio). Nobody can tell whose it is, so nobody gets it.""",
}


def revision_of(mode):
    """What the client offers: over HTTP+SSE, too, these SDKs offer their newest."""
    return {"auto": MODERN, "legacy": LEGACY, SSE: LEGACY}.get(mode, mode)


def lacks(kind, mode, translated):
    """Whether the gateway keeps such a step from a client whose revision does not know it: where it translates."""
    return translated and revision_of(mode) < SINCE.get(kind, "")


def of(client, mode, server, translated):
    """The numbers of the rules that hold in a cell; `server` is (kind, transport, revision)."""
    kind, transport, revision = server
    modern = revision_of(mode) == MODERN
    holds = {
        1: any(lacks(step, mode, translated) for step in SINCE),
        2: modern and kind == "everything",
        3: modern and kind == "rmcp" and transport == "HTTP" and revision != MODERN,
        4: client == "typescript1" and mode == SSE,
        5: transport == "stdio" and revision == MODERN,
    }
    return {number for number, true in holds.items() if true}
