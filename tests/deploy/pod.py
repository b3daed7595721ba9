"""The sidecar's life in a pod, without a cluster: what kubelet and the container runtime do, done by hand.

Each pod has a network of its own in which server and gateway share the loopback device. The gateway runs with the files
of deploy/kubernetes/component as they are: user 65532 without rights, read-only root, ConfigMap and Secret as kubelet lays
them out, the memory limit of the manifest. Only `server.drain` is shortened, and the server's preStop sleep with it.
What this machine does not allow is left out and said.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "real"))

import harness  # noqa: E402
import sandbox  # noqa: E402
from callers import Faithful, Load, Prober, Service, call, get  # noqa: E402
from harness import PYTHON2, ROOT, Failed, Skipped, check, wait_until  # noqa: E402
from large import memory_said  # noqa: E402
from volume import Volume  # noqa: E402

COMPONENT = ROOT / "deploy/kubernetes/component"
SERVER_PORT = 3001
DRAIN, EXTRA = 3, 2
SERVER_GRACE = 5  # what is left of terminationGracePeriodSeconds for the server, shortened
LEAST_GRACE = 2  # what kubelet gives a container at least, however much the others took
LAG = 1  # seconds until the endpoints of a deleted pod are gone everywhere
CALLERS = 8
KEY = "pod-tests-0123456789abcdef0123456789abcdef"


def memory_limit():
    text = (COMPONENT / "sidecar.yaml").read_text()
    return int(re.search(r"limits: \{ memory: (\d+)Mi \}", text)[1]) << 20


def configuration():
    text = (COMPONENT / "smartgate.toml").read_text()
    check('drain = "20s"' in text, "server.drain is not where this test looks for it")
    return text.replace('drain = "20s"', f'drain = "{DRAIN}s"')


class Pod:
    """Server and gateway on one loopback device. Starts as kubelet would: the sidecar first, the server when it is up."""

    def __init__(self, name, work, binary, rights):
        self.name, self.folder, self.network = name, work / name, sandbox.Network()
        self.config = Volume(self.folder / "config", {"smartgate.toml": configuration()})
        self.keys = Volume(self.folder / "keys", {"default": KEY})
        self.state = self.folder / "state"
        self.state.mkdir()
        if rights:
            os.chown(self.state, sandbox.NOBODY, sandbox.NOBODY)
        self.root = sandbox.Root(
            self.folder / "root",
            binary,
            [
                (self.config.folder, "/etc/smartgate", False),
                (self.keys.folder, "/etc/smartgate-keys", False),
                (self.state, "/var/lib/smartgate", True),
            ],
        )
        self.memory = sandbox.MemoryLimit(f"smartgate-{os.getpid()}-{name}", memory_limit())
        self.gateway = self._start_gateway(rights)
        try:
            wait_until(f"{name}: startup probe", lambda: self._lives(self.gateway) and self._probe("/healthz"))
            self.server = self._start(
                "server",
                [PYTHON2, ROOT / "tests/real/servers/py_server.py", SERVER_PORT, "/dev/null"],
                self.network.enter,
            )
            wait_until(
                f"{name}: the server's tools",
                lambda: self._lives(self.server) and '"server":{"state":"ok"' in get(self, "/readyz")[1],
            )
        except Failed as failure:
            raise Failed(f"{failure}\n{(self.folder / 'gateway.log').read_text()}") from None
        self.prober = Prober(self)

    def _start_gateway(self, rights):
        def contain():
            self.memory.enter()
            self.network.enter()
            self.root.enter()
            if rights:
                sandbox.drop_rights(sandbox.NOBODY)

        return self._start(
            "gateway", ["/usr/local/bin/smartgate", "serve", "-c", "/etc/smartgate/smartgate.toml"], contain
        )

    def _start(self, name, command, contain):
        with open(self.folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"SMARTGATE_LOG_FORMAT": "json"},
                preexec_fn=contain,
                start_new_session=True,
            )

    def _lives(self, process):
        check(process.poll() is None, lambda: f"ended with {process.returncode}")
        return True

    def _probe(self, path):
        return get(self, path)[0] == 200

    def delete(self, service):
        """As kubelet stops a pod with a native sidecar: preStop, then the main container, then the sidecar."""
        threading.Timer(LAG, lambda: service.pods.remove(self)).start()
        time.sleep(DRAIN + EXTRA)
        by_itself = self._end(self.server, SERVER_GRACE)
        self.prober.end.set()
        check(self._end(self.gateway, LEAST_GRACE), f"{self.name}: the gateway did not end within {LEAST_GRACE} s")
        check(self.gateway.returncode == 0, f"{self.name}: the gateway exited with {self.gateway.returncode}")
        return by_itself

    def _end(self, process, grace):
        """SIGTERM and, after `grace`, SIGKILL. Whether the first was enough."""
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(grace)
            return True
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(harness.STOP_SECONDS)
            return False

    def close(self):
        self.prober.end.set()
        for process in (self.gateway, self.server):
            if process.poll() is None:
                process.kill()
                process.wait(harness.STOP_SECONDS)
        self.memory.close()


def reached(pod, key):
    """The HTTP status of a call with `key`."""
    return call(pod, key, "probe", "echo", {"message": "hi"})[0]


def swap_live(pod, load):
    """The Secret and the ConfigMap change under load: a key more, then another secret for it, then a tool less."""
    before = len(load.lost)
    pod.keys.update({"default": KEY, "second": "second-secret-1"})
    pod.config.update(
        {"smartgate.toml": configuration() + '\n[[keys]]\nname = "second"\nfile = "/etc/smartgate-keys/second"\n'}
    )
    wait_until("the new key", lambda: reached(pod, "second-secret-1") == 200)
    pod.keys.update({"default": KEY, "second": "second-secret-2"})
    wait_until("the secret to be the new one", lambda: reached(pod, "second-secret-2") == 200)
    check(reached(pod, "second-secret-1") == 401, "the old secret still works")
    pod.config.update(
        {
            "smartgate.toml": configuration()
            + '\n[[keys]]\nname = "second"\nfile = "/etc/smartgate-keys/second"\ntools = ["!echo"]\n'
        }
    )
    wait_until("the tool to be refused", lambda: reached(pod, "second-secret-2") == 403)
    check(len(load.lost) == before, lambda: f"lost while the configuration was swapped: {load.lost[before:][:3]}")


def judge_journal(pod, load, binary):
    """Every call that was answered is in the journal once, and its chain holds."""
    status, out, err = harness.run([binary, "audit", "verify", pod.state / "audit.jsonl"])
    check(status == 0, f"audit verify: {out}{err}")
    lines = (pod.state / "audit.jsonl").read_text()
    answered = load.answered.get(pod.name, [])
    check(answered, f"{pod.name} answered nothing")
    for request_id in answered:
        times = lines.count(f'"request_id":"\\"{request_id}\\""')
        check(times == 1, f"{pod.name}: call {request_id} is in the journal {times} times")


def life(binary, work, rights):
    """One pod, changed while it works, replaced by a second one. Returns what is worth saying."""
    said = []
    with contextlib.ExitStack() as stack:
        old = Pod("old", work, binary, rights)
        stack.callback(old.close)
        told = call(old, KEY, "first", "echo", {"message": "hi"})
        check(told[0] == 200, f"the first call: {told}")
        check(reached(old, "wrong") == 401, "a wrong key is let in")
        idle, spent = sandbox.use(old.gateway.pid)
        service = Service([old])
        load = Load(service, KEY, CALLERS, longest=DRAIN - 0.5)
        stack.callback(load.stop)
        swap_live(old, load)

        new = Pod("new", work, binary, rights)
        stack.callback(new.close)
        service.pods.append(new)
        faithful = Faithful(old, KEY)
        time.sleep(1)
        busy, spent_then = sandbox.use(old.gateway.pid)
        calls = len(load.answered[old.name])
        said.append(
            f"the gateway has {idle} MiB after its start and {busy} MiB after {calls} calls at {CALLERS} at once, "
            f"each of which took {(spent_then - spent) * 1000 / calls:.1f} ms of processor time, live changes and probes included"
        )
        if not old.delete(service):
            said.append(f"the server did not end by itself within {SERVER_GRACE} s and was killed")
        faithful.join(10)
        time.sleep(1)
        load.stop()

        total = sum(map(len, load.answered.values()))
        check(not load.lost, lambda: f"{len(load.lost)} of {total} calls were lost: {load.lost[:3]}")
        allowed = {"ok", "upstream_connect", "draining"}
        told = faithful.seen
        check(
            all(what in allowed or what.startswith("closed") for what in told), f"a client that stays was told {told}"
        )
        for pod in (old, new):
            check(not pod.prober.failures, lambda: f"{pod.name}: probes failed: {pod.prober.failures[:3]}")
        judge_journal(old, load, binary)
        judge_journal(new, load, binary)
        polls = old.prober.polls + new.prober.polls
        said.append(
            f"{total} calls over a rolling restart and three live changes, none lost; {polls} probes, none failed"
        )
        said.append(f"a client that stays on its connection was told {told}")
        said += memory_said(new, KEY, configuration())
        said.append(f"the slowest probe took {max(old.prober.slowest, new.prober.slowest):.2f} s")
    return said


def run_apart(bench):
    """Runs this file in namespaces of its own; as a user without rights, in one where it is root."""
    rights = os.geteuid() == 0
    apart = ["unshare", "--mount", "--net"] + ([] if rights else ["--map-root-user"])
    if harness.run([*apart, "true"])[0] != 0:
        raise Skipped("this machine allows no namespaces (unshare --mount --net)")
    work = bench.stack.work / "pod"
    work.mkdir()
    status, out, err = harness.run(
        [*apart, sys.executable, __file__, bench.binary, "rights" if rights else "mapped", work], seconds=240
    )
    check(status == 0, lambda: (out + err).strip())
    return out.strip()


def tests(bench):
    yield "pod/life", lambda: run_apart(bench)


if __name__ == "__main__":
    can = sys.argv[2] == "rights"
    work = pathlib.Path(sys.argv[3])
    work.chmod(0o755)
    try:
        notes = life(sys.argv[1], work, can)
    except Failed as failure:
        sys.exit(str(failure))
    print("\n".join(notes + ([] if can else ["the gateway ran as root of a user namespace, not as user 65532"])))
