"""Large calls for the memory limit of a pod: as the manifest is, and with a budget in tokens. Invariant: what the limit kills is
a failure, and no probe fails meanwhile."""

import collections
import json
import re
import threading

from callers import call, get
from harness import check, wait_until

BIG_CALLERS, BIG_BYTES = 64, 1_000_000
BUDGET = '"1000M tokens/day"'
BUDGET_LIMIT = 512 << 20  # as docs/deploy.md says


def big_calls(pod, key):
    """Large calls, as many at once as the configuration lets in, for the memory limit; returns their outcomes, counted.

    They keep the Python server busy for longer than it keeps idle connections, so it closes some that were used again.
    """
    message, told = "x" * BIG_BYTES, collections.Counter()

    def one(number):
        status, text = call(pod, key, f"big-{number}", "echo", {"message": message})
        right = status == 200 and len(text) > BIG_BYTES
        told["ok" if right else json.loads(text)["error"]["data"]["reason"]] += 1

    threads = [threading.Thread(target=one, args=(n,)) for n in range(BIG_CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(
        told.total() == BIG_CALLERS and set(told) <= {"ok", "rate_limited", "upstream_protocol"}, f"large calls: {told}"
    )
    return dict(told)


def memory_said(pod, key, configuration):
    """Large calls as the manifest is, then with a budget and the limit that the documents ask for with one."""
    told = [f"{BIG_CALLERS} calls of {BIG_BYTES:,} bytes at once: {big_calls(pod, key)}{peak_said(pod)}"]
    pod.memory.set(BUDGET_LIMIT)
    before = reloads(pod)
    pod.config.update({"smartgate.toml": configuration.replace('\n[limits]', f"budget = {BUDGET}\n\n[limits]")})
    wait_until("the budget", lambda: reloads(pod) != before)
    told.append(f"the same with a budget in tokens: {big_calls(pod, key)}{peak_said(pod)}")
    check(not pod.prober.failures, lambda: f"probes failed under large calls: {pod.prober.failures[:3]}")
    return told


def reloads(pod):
    return re.findall(r"^smartgate_reloads_total.*", get(pod, "/metrics")[1], re.M)


def peak_said(pod):
    if not pod.memory.folder:
        return "; no memory limit: this machine has no cgroup to write to"
    check(pod.memory.kills() == 0, "the memory limit killed the gateway")
    peak = f"{pod.memory.peak() >> 20} MiB" if pod.memory.peak() else "an amount that this kernel does not tell"
    return f"; at most {peak} of {pod.memory.limit >> 20} MiB, page cache included"
