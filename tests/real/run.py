#!/usr/bin/env python3
"""Runs the tests against real servers, clients, suites and collectors. Standard library only.

  run.py --bin target/release/smartgate --rmcp-client target/debug/rmcp-client [FILTER...]
  run.py --direct ...       without the gateway: shows that the parts themselves work

A FILTER is a part of a test's name. Modules run beside each other, `--jobs` at a time (see jobs.py). Ends with the slowest
tests and `N passed, N failed`; exit 1 if any failed. Logs stay in the folder that
is printed when something failed.
"""
import argparse
import collections
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import all_as_one
import bad_neighbours
import bridge
import bridge_page
import bridge_shards
import builtin
import collector
import conformance
import conformance_bridge
import conformance_client
import conformance_page
import harness
import http_sse
import jobs
import matrix
import pages
import readme_demo
import round_robin
import sigkill
import standing
import stdio
import trace_backend
import upstreams
from harness import HERE, PYTHON1, Failed, Skipped, Stack, check, run

MODULES = (
    matrix, stdio, bridge, standing, all_as_one, round_robin, bad_neighbours, http_sse, conformance, conformance_client,
    conformance_bridge, builtin, collector, trace_backend, sigkill, readme_demo, pages,
)
Tls = collections.namedtuple("Tls", "ca cert key")


class Bench:
    """What the tests of one run share: binaries, services that are started once, and the certificates."""

    def __init__(self, options, work):
        self.binary = None if options.direct else pathlib.Path(options.bin).resolve()
        self.rmcp_client = pathlib.Path(options.rmcp_client).resolve()
        self.rmcp_server = self.rmcp_client.with_name("rmcp-server")
        self.stack = Stack(work)
        self.walked = {}
        self.cells = {}
        self.whole_matrix = options.table or options.write_matrix
        self.shard = options.shard
        self.conformance = {}
        self.whole_conformance = options.write_conformance
        self._made = {}

    def once(self, key, make):
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def server(self, name, way=None, revision=None):
        return self.once(("server", name, way, revision), lambda: upstreams.start(self, name, way, revision))

    @property
    def tls(self):
        return self.once("tls", self._make_tls)

    def _make_tls(self):
        status, out, err = run([PYTHON1, HERE / "certificates.py", self.stack.work])
        check(status == 0, f"certificates: {out}{err}")
        return Tls(*(self.stack.work / name for name in ("ca.crt", "tls.crt", "tls.key")))


def one(name, test):
    """Runs one test and prints its line; returns (verdict, name, seconds)."""
    started, verdict, why = time.monotonic(), "passed", ""
    try:
        test()
    except Skipped as reason:
        verdict, why = "skipped", str(reason)
    except Failed as failure:
        verdict, why = "failed", str(failure)
    except Exception:
        verdict, why = "failed", traceback.format_exc()
    seconds = time.monotonic() - started
    print(f"{verdict:8}{name} ({seconds:.1f} s)", flush=True)
    if why:
        print("\n".join("        " + line for line in why.splitlines()), flush=True)
    return verdict, name, seconds


def here(bench, chosen, options):
    """Runs tests in this process."""
    try:
        found = [one(name, test) for _, name, test in chosen]
    finally:
        bench.stack.close()
    if options.cells:
        bridge_shards.leave(bench.cells, options.cells)
    if options.write_conformance:
        conformance_page.write(bench.conformance)
    if any(verdict == "failed" for verdict, *_ in found):
        print(f"logs: {bench.stack.work}")
    else:
        shutil.rmtree(bench.stack.work)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="target/release/smartgate")
    parser.add_argument("--rmcp-client", default="target/debug/rmcp-client")
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--table", action="store_true", help="let `bridge` walk every cell, and not a slice")
    parser.add_argument("--write-matrix", action="store_true", help="the same, and write docs/matrix.md from it")
    parser.add_argument("--write-conformance", action="store_true", help="write docs/conformance.md from those of `conformance-bridge`")
    parser.add_argument("--shard", help="I/N: of the table's columns walk each Nth, from the Ith on")
    parser.add_argument("--cells", help="leave what the walks of the table saw in this file")
    parser.add_argument("--list", action="store_true", help="print the tests' names only")
    parser.add_argument("--jobs", type=int, default=3, help="how many modules run at a time; with 1 a line comes as each test ends")
    parser.add_argument("--module", help="only this module, in this process")
    parser.add_argument("--ports", help="FIRST:END of the ports to take")
    parser.add_argument("filters", nargs="*")
    options = parser.parse_args()
    if options.ports:
        harness.PORTS = range(*map(int, options.ports.split(":")))
    bench = Bench(options, pathlib.Path(tempfile.mkdtemp(prefix="smartgate-real-")))
    chosen = [(module.__name__, name, test) for module in MODULES if options.module in (None, module.__name__)
              for name, test in module.tests(bench)
              if not options.filters or any(word in name for word in options.filters)]
    modules = list(dict.fromkeys(module for module, _, _ in chosen))
    if options.list:
        print("\n".join(name for _, name, _ in chosen))
        return 0
    if options.write_matrix and not options.shard:
        shutil.rmtree(bench.stack.work)
        found = bridge_shards.run(sys.argv[1:], options.jobs)
    elif options.jobs > 1 and len(modules) > 1 and not options.write_conformance:
        shutil.rmtree(bench.stack.work)
        found = jobs.run(modules, sys.argv[1:], options.jobs)
    else:
        found = here(bench, chosen, options)
    if not options.module:
        print(jobs.slowest(found))
    counts = collections.Counter(verdict for verdict, *_ in found)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
