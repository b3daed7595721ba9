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
    2: """The TypeScript SDK 1 forgets a call's progress handler as soon as it reads the result, before it has run the handler
   for a report that came in the same read. Over HTTP+SSE that is the rule, with and without the gateway: such reports are lost.""",
    3: """The revision that this client and the server agree on has no elicitation (before 2025-06-18). The server asks all the
   same; the Python SDK 2 then answers that it knows no such method, with and without the gateway. The other SDKs answer.""",
}


def revision_of(mode):
    """What the client offers: over HTTP+SSE, too, these SDKs offer their newest."""
    return {"auto": MODERN, "pinned": MODERN, "legacy": LEGACY, SSE: LEGACY}.get(mode, mode)


def lacks(kind, mode, translated):
    """Whether the gateway keeps such a step from a client whose revision does not know it: where it translates."""
    return translated and revision_of(mode) < SINCE.get(kind, "")


def refuses(kind, client, mode, held):
    """Whether the client refuses such a step in a session of the one revision that the server is held to, if it is."""
    return client == "python2" and mode == "legacy" and kind in ("elicitation", "page") and held < SINCE["elicitation"]


def of(client, mode, translated, held):
    """The numbers of the rules that hold in a cell."""
    holds = {
        1: any(lacks(step, mode, translated) for step in SINCE),
        2: client == "typescript1" and mode == SSE,
        3: not translated and held is not None and refuses("elicitation", client, mode, held),
    }
    return {number for number, true in holds.items() if true}
