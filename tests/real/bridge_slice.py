"""The part of the table that every run walks: pairs of what a client is and what a server is; and the part of a shard.

Invariant: the same choice in every run, in which every SDK and every revision of a client meets every SDK, revision and
transport of a server, and every row and every column is walked.
"""
from itertools import product

from bridge_places import ALL, SERVERS


def pairs(cell):
    client, mode, name = cell
    kind, transport, revision = SERVERS.get(name, (ALL, ALL, ALL))
    ends = product((("sdk", client), ("offers", mode)), (("sdk", kind), ("over", transport), ("speaks", revision)))
    return {*ends, ("row", client, mode), ("column", name)}


def of(cells, translates):
    """A greedy cover: the cell with most pairs that are missing is next; of equals one that is translated, the first."""
    missing, chosen = set().union(*map(pairs, cells)), set()
    while missing:
        best = max(cells, key=lambda cell: (len(pairs(cell) & missing), translates(*cell[1:])))
        missing -= pairs(best)
        chosen.add(best)
    return [cell for cell in cells if cell in chosen]


def takes(shard, name):
    """Whether this process walks a column; `shard` is I/N, or None in a process that walks all."""
    if shard is None:
        return True
    index, count = map(int, shard.split("/"))
    return [*SERVERS, ALL].index(name) % count == index
