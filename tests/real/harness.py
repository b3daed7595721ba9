"""Processes, ports and paths for the tests against real parts. Standard library only.

Owns every process a test starts: each is started in its own session, ended by its own pid, and its output is kept in
the work folder. Invariant: after `Stack.close()` nothing that was started through it still runs.
"""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NODE = HERE / "node_modules/.bin/node"
PYTHON1 = ROOT / ".tools/py1/bin/python"
PYTHON2 = ROOT / ".tools/py2/bin/python"
PORTS = range(20_000, 32_000)
START_SECONDS = 20
STOP_SECONDS = 10
# `REAL_FULL=1` runs what is slow and finds little that the rest does not.
FULL = os.environ.get("REAL_FULL") == "1"


class Failed(AssertionError):
    """A test's own verdict; its text is what the reader gets."""


class Skipped(Exception):
    """The test needs a part that this run does not have (the gateway, in direct mode)."""


def check(condition, message):
    if not condition:
        raise Failed(message() if callable(message) else message)


def free_ports(count):
    """Different ports that nothing uses on any address, for servers that bind them all.

    They lie below the range that the kernel takes for outgoing connections, so none of those gets in between.
    """
    found = []
    candidates = iter(random.sample(PORTS, min(500, len(PORTS))))
    while len(found) < count:
        port = next(candidates)
        with socket.socket(socket.AF_INET) as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
        found.append(port)
    return found


def listening(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(what, condition, seconds=START_SECONDS):
    """Polls until `condition()` is true and returns its value; fails with `what` after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"{what} did not happen within {seconds} s")
        time.sleep(0.05)


class Process:
    """One service of a test, with its output in `log`."""

    def __init__(self, name, command, log, env=None, cwd=None):
        self.name, self.log = name, pathlib.Path(log)
        self._out = open(self.log, "ab")
        self.child = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})}, cwd=cwd, start_new_session=True,
        )

    def wait_ready(self, ready):
        def state():
            check(self.child.poll() is None, lambda: f"{self.name} ended with {self.child.returncode}: {self.tail()}")
            return ready()

        wait_until(f"start of {self.name}", state)
        return self

    def tail(self):
        return self.log.read_text(errors="replace")[-2000:]

    def kill(self):
        self.child.kill()
        self.child.wait(STOP_SECONDS)

    def stop(self):
        """SIGTERM, then SIGKILL; returns the exit status."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._out.close()
        return self.child.returncode


class Stack:
    """What one run has started, ended in the reverse order."""

    def __init__(self, work):
        self.work = pathlib.Path(work)
        self._services = []

    def start(self, name, command, ready, **options):
        log = self.work / f"{name}.log"
        service = Process(name, command, log, **options)
        self._services.append(service)
        return service.wait_ready(ready)

    def close(self):
        for service in reversed(self._services):
            service.stop()
        self._services.clear()


def run(command, seconds=120, env=None, cwd=None, stdin=""):
    """Runs a command to its end; returns (status, stdout, stderr)."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=seconds, env={**os.environ, **(env or {})}, cwd=cwd)
    except subprocess.TimeoutExpired:
        raise Failed(f"{words[:3]} did not end within {seconds} s") from None
    return done.returncode, done.stdout, done.stderr


def http(url, body=None, headers=None, method=None, seconds=10, context=None):
    """One HTTP exchange; returns (status, headers, text). A JSON-able `body` is sent as JSON; bytes are sent as they are."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={
        "content-type": "application/json", "accept": "application/json, text/event-stream", **(headers or {})})
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=seconds) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()
