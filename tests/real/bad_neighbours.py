"""A healthy server goes on beside one that hangs, one that floods and one that crashes, all behind one endpoint.

The parts are those of benches/neighbours.py, which measures; here no time is asserted: calls of the healthy server
succeed, floods that are read get through, and the gateway's memory stays bounded whether they are read or not.
"""
import pathlib
import sys

from harness import ROOT, check, wait_until

sys.path.append(str(ROOT / "benches"))
from neighbours import FLOODS, Neighbours, measure, start, stop  # noqa: E402
from neighbours_parts import Caller  # noqa: E402

SECONDS = 6
UNREAD = 8
# Buffers of the open connections, and 4 MiB for an answer whose client does not read.
MOST_GROWTH_MIB = 96
LEAST_PULLED = 8 * 1024 * 1024


def pulled(process):
    """Bytes that a client has read."""
    lines = pathlib.Path(f"/proc/{process.pid}/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("rchar:")))


def beside(bench):
    folder = bench.stack.work / "neighbours"
    folder.mkdir()
    neighbours = Neighbours(bench.binary, folder)
    drawing = []
    try:
        caller = Caller(*neighbours.way("healthy", "echo", True))
        check(measure(caller, 1)[1] == 0, "calls fail already without the others")
        before = neighbours.resident()
        drawing = neighbours.bad(FLOODS, True)
        pulling = drawing[-len(FLOODS):]
        unread = [neighbours.way("flood", flood, True) for flood in ("events", "json")] * (UNREAD // 2)
        drawing += [start("draw", "ignore", *way) for way in unread]
        times, failed = measure(caller, SECONDS)
        check(times and not failed, f"{failed} of {len(times)} calls of the healthy server failed")
        for flood, process in zip(FLOODS, pulling):
            wait_until(f"the flood of {flood}", lambda process=process: pulled(process) > LEAST_PULLED, 60)
        growth = neighbours.resident() - before
        check(growth < MOST_GROWTH_MIB, f"the gateway grew by {growth:.0f} MiB")
        stop(drawing)
        drawing = []
        check(measure(caller, 1)[1] == 0, "calls fail after the others have ended")
    finally:
        stop(drawing)
        neighbours.close()


def tests(bench):
    if bench.binary is not None:
        yield "neighbours/beside", lambda: beside(bench)
