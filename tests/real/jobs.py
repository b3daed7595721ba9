"""Runs the modules of tests in processes of their own, several at a time: most of their time is waiting. Standard library
only.

Owns which of them run beside others. Invariant: each has its own work folder, servers and ports; its lines come as one
block when it has ended, in the form that `run.py` prints.
"""
import collections
import concurrent.futures
import re
import subprocess
import sys

from harness import HERE, PORTS

LINE = re.compile(r"^(passed|failed|skipped) +(\S+) \(([\d.]+) s\)$", re.M)
# These judge times, rates or memory, and run alone after the others.
ALONE = ("bad_neighbours", "sigkill")
# The longest first, so that none of them is what everybody waits for at the end.
LONGEST = ("all_as_one", "matrix", "bridge", "conformance", "stdio", "round_robin", "trace_backend", "pages", "conformance_client")


def run(names, arguments, jobs):
    """Runs these modules with `arguments` for each; returns [(verdict, test, seconds)]."""
    beside = [name for name in LONGEST if name in names]
    beside += [name for name in names if name not in beside and name not in ALONE]
    found = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(one, name, names.index(name), len(names), arguments) for name in beside]
        for done in concurrent.futures.as_completed(running):
            found += told(*done.result())
    for name in names:
        if name in ALONE:
            found += told(*one(name, names.index(name), len(names), arguments))
    return found


def one(name, number, count, arguments):
    """Runs a module with ports that no other module takes."""
    width = len(PORTS) // count
    ports = f"{PORTS[number * width]}:{PORTS[number * width] + width}"
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), "--module", name, "--ports", ports, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return name, done.returncode, done.stdout


def told(name, status, text):
    """Prints a module's block; a module that came to no end counts as one failed test."""
    lines = text.splitlines()
    ended = bool(lines) and re.match(r"\d+ passed, \d+ failed", lines[-1])
    print("\n".join(lines[:-1] if ended else lines), flush=True)
    found = [(verdict, test, float(seconds)) for verdict, test, seconds in LINE.findall(text)]
    if not ended:
        print(f"failed  {name} exited {status} and did not come to its end", flush=True)
        found.append(("failed", name, 0.0))
    return found


def slowest(found, count=10):
    """The table of the slowest tests, and what each module took."""
    sums = collections.Counter()
    for _, test, seconds in found:
        sums[test.split("/")[0]] += seconds
    modules = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in sums.most_common())
    rows = sorted(found, key=lambda one: -one[2])[:count]
    return "\n".join(["slowest:", *(f"{seconds:8.1f} s  {test}" for _, test, seconds in rows), f"in sum: {modules}"])
