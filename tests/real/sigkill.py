"""SIGKILL in the middle of load: what was answered before it, less the fsync window, is in the journal.

And at random moments again and again, over one journal whose chain must hold each time: SMARTGATE_SIGKILL_ROUNDS says how
often (5 by default; 200 takes some minutes). Each caller numbers its requests, so an answered call is found in the journal by its request id. The same journal then
serves a second gateway process, and its hash chain must hold over the break.
"""
import dataclasses
import json
import os
import random
import threading
import time
from http.client import HTTPException

from calls import modern_call
from gateway import Gateway
from harness import check, run, wait_until

CALLERS = 8
ENOUGH_CALLS = 300
FSYNC_SECONDS = 1
MAX_CALLS = 20_000
ROUNDS = int(os.environ.get("SMARTGATE_SIGKILL_ROUNDS", "5"))
LONGEST_LIFE = 0.8


@dataclasses.dataclass
class Load:
    """Callers in threads against `url` until `stop()`; `answered` holds (request id, moment of the answer)."""
    url: str
    answered: list = dataclasses.field(default_factory=list)
    refused: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._calls, args=(number,)) for number in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _calls(self, caller):
        for number in range(MAX_CALLS // CALLERS):
            if self._end.is_set():
                return
            request_id = f"{caller}-{number}"
            try:
                status, _, text = modern_call(self.url, request_id, {"message": request_id})
            except (OSError, HTTPException):
                return  # the gateway is gone
            if status == 200 and f"Echo: {request_id}" in text:
                self.answered.append((request_id, time.monotonic()))
            else:
                self.refused.append((request_id, status, text[:200]))

    def stop(self):
        self._end.set()
        for thread in self._threads:
            thread.join(15)


def load_itself(bench):
    """The load works against the server alone."""
    load = Load(bench.server("typescript").url)
    wait_until("enough answered calls", lambda: len(load.answered) >= ENOUGH_CALLS, seconds=60)
    load.stop()
    check(not load.refused, f"refused: {load.refused[:3]}")


def nothing_answered_is_lost(bench):
    server = bench.server("typescript")
    journal = f'{{ path = "audit.jsonl", fsync = "{FSYNC_SECONDS}s" }}'
    gateway = Gateway(bench, "sigkill", server.url, journal=journal)
    load = Load(gateway.url)
    wait_until("enough answered calls", lambda: len(load.answered) >= ENOUGH_CALLS, seconds=60)
    time.sleep(FSYNC_SECONDS + 0.5)
    killed = time.monotonic()
    gateway.process.kill()
    load.stop()
    check(not load.refused, lambda: f"calls failed before the kill: {load.refused[:3]}")
    due = {request_id for request_id, moment in load.answered if moment < killed - FSYNC_SECONDS}
    check(len(due) >= ENOUGH_CALLS, f"only {len(due)} calls were answered before the window")

    gateway.start()
    status, _, answer = modern_call(gateway.url, "after", {"message": "after"})
    check(status == 200, f"after the restart: {status} {answer}")
    gateway.stop()
    recorded = [json.loads(record["request_id"]) for record in gateway.records() if record["method"] == "tools/call"]
    lost = due - set(recorded)
    check(not lost, lambda: f"{len(lost)} of {len(due)} answered calls are not in the journal, such as {sorted(lost)[:3]}")
    check(len(recorded) == len(set(recorded)), "a call is in the journal twice")
    check("after" in recorded, "the call after the restart is not in the journal")
    gateway.verify_journal()


def the_chain_holds_each_time(bench):
    """The journal rotates all the while, and checkpoints are signed: verify checks them, and against all that were logged."""
    folder = bench.stack.work / "sigkill-key"
    folder.mkdir()
    key = folder / "audit.key"
    status, told, err = run([bench.binary, "audit", "keygen", key])
    check(status == 0, f"keygen: {err}")
    public = told.split("# public key ")[1].split()[0]
    gateway = Gateway(
        bench, "sigkill-often", bench.server("typescript").url, extra=f'signing_key = "file:{key}"\ncheckpoint = "200ms"\n',
        journal='{ path = "audit.jsonl", fsync = "50ms", rotate = "64KiB", keep = 100000 }')
    dice, answered, healed, longest = random.Random(), 0, 0, 0
    for number in range(ROUNDS):
        if number:
            gateway.start()
        load = Load(gateway.url)
        time.sleep(dice.uniform(0, LONGEST_LIFE))
        gateway.process.kill()
        load.stop()
        answered += len(load.answered)
        kept = [line for line in gateway.process.log.read_text(errors="replace").splitlines() if "checkpoint=" in line]
        (folder / "kept.log").write_text("\n".join(kept) + "\n")
        status, out, err = run([bench.binary, "audit", "verify", gateway.journal, "--public-key", public,
                                *(["--against", folder / "kept.log"] if kept else [])])
        # A line that was being written is healed at the next start, and only then is the journal whole again.
        torn = status == 1 and "torn" in err
        healed, longest = healed + torn, max(longest, len(kept))
        check(status == 0 or torn, f"round {number}: verify exited {status}: {out}{err}")
    gateway.start()
    gateway.stop()
    status, out, err = run([bench.binary, "audit", "verify", gateway.journal, "--public-key", public])
    check(status == 0, f"at the end: verify exited {status}: {out}{err}")
    records = list(every_record(gateway))
    starts = [record for record in records if record["kind"] == "start"]
    check(len(starts) == ROUNDS + 1, f"{len(starts)} boots after {ROUNDS} kills")
    check(sum(record["healed_bytes"] > 0 for record in starts) == healed, "a torn line that no start has told of")
    print(f"        {ROUNDS} kills, {answered} calls answered, {len(records)} records, {healed} torn lines healed, {longest} checkpoints kept")


def every_record(gateway):
    for path in sorted(gateway.folder.glob("audit.jsonl.[0-9]*")) + [gateway.journal]:
        yield from map(json.loads, path.read_text().splitlines())


def tests(bench):
    yield "sigkill/load-itself", lambda: load_itself(bench)
    if bench.binary is not None:
        yield "sigkill/nothing-answered-is-lost", lambda: nothing_answered_is_lost(bench)
        yield "sigkill/the-chain-holds-each-time", lambda: the_chain_holds_each_time(bench)
