#!/usr/bin/env python3
"""Runs the checks of what lies in deploy/ and of the documents about it. `scripts/test deploy` installs what they need.

  run.py --bin target/release/smartgate [FILTER...]

A FILTER is a part of a test's name. Ends with `N passed, N failed`; exit 1 if any failed. A test that needs a tool which
this machine cannot have is skipped and says which.
"""

import argparse
import collections
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "real"))

import chart  # noqa: E402
import documents  # noqa: E402
import editors  # noqa: E402
import engine  # noqa: E402
import image  # noqa: E402
import injection  # noqa: E402
import manifests  # noqa: E402
import observability  # noqa: E402
import package  # noqa: E402
import pod  # noqa: E402
import unit  # noqa: E402
from harness import Failed, Skipped, Stack  # noqa: E402

MODULES = (image, engine, manifests, injection, chart, unit, package, observability, editors, documents, pod)
Bench = collections.namedtuple("Bench", "binary stack")


def one(name, test):
    """Runs one test; returns `passed`, `failed` or `skipped` after printing its line and what it found worth saying."""
    started, verdict, said = time.monotonic(), "passed", ""
    try:
        said = test() or ""
    except Skipped as reason:
        verdict, said = "skipped", str(reason)
    except Failed as failure:
        verdict, said = "failed", str(failure)
    except Exception:
        verdict, said = "failed", traceback.format_exc()
    print(f"{verdict:8}{name} ({time.monotonic() - started:.1f} s)", flush=True)
    if said:
        print("\n".join("        " + line for line in said.splitlines()), flush=True)
    return verdict


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="target/release/smartgate")
    parser.add_argument("filters", nargs="*")
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="smartgate-deploy-"))
    bench = Bench(pathlib.Path(options.bin).resolve(), Stack(work))
    chosen = [
        (name, test)
        for module in MODULES
        for name, test in module.tests(bench)
        if not options.filters or any(word in name for word in options.filters)
    ]
    try:
        counts = collections.Counter(one(name, test) for name, test in chosen)
    finally:
        bench.stack.close()
    if counts["failed"]:
        print(f"logs: {work}")
    else:
        shutil.rmtree(work)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] or not counts["passed"] else 0


sys.exit(main())
