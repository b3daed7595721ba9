"""Clients of pods: a Service with its endpoints, callers that never rest, and the probes of kubelet. Each opens its
connections inside the pod's network namespace, which stands for the way there."""

import contextlib
import http.client
import json
import random
import threading
import time

from calls import MODERN, PREFIX

MCP_PORT, ADMIN_PORT = 8787, 9787
SECONDS = 60
STEP_SECONDS = 0.02  # of the server's tool `count`


def connection(pod, port):
    """A connection to a pod; the calling thread stays in the pod's network."""
    pod.network.enter()
    return http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)


def post(link, key, request_id, tool, arguments):
    """One `tools/call` of the modern era, which needs no session; returns (status, text)."""
    about = {
        f"{PREFIX}/protocolVersion": MODERN,
        f"{PREFIX}/clientCapabilities": {},
        f"{PREFIX}/clientInfo": {"name": "smartgate-pod-tests", "version": "1.0.0"},
    }
    body = {
        "jsonrpc": "2.0",
        "id": request_id,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": about},
    }
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {key}",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    link.request("POST", "/mcp", json.dumps(body), headers)
    answer = link.getresponse()
    return answer.status, answer.read().decode()


def call(pod, key, request_id, tool, arguments):
    with contextlib.closing(connection(pod, MCP_PORT)) as link:
        return post(link, key, request_id, tool, arguments)


def get(pod, path):
    """(status, text) of the admin listener; status 0 where nothing answers."""
    try:
        with contextlib.closing(connection(pod, ADMIN_PORT)) as link:
            link.request("GET", path)
            answer = link.getresponse()
            return answer.status, answer.read().decode()
    except OSError:
        return 0, ""


class Service:
    """The pods that new connections may go to."""

    def __init__(self, pods):
        self.pods = list(pods)

    def pick(self):
        return random.choice(self.pods)


class Load:
    """Callers that make one call after the other on new connections. `lost` has everything that was not answered right."""

    def __init__(self, service, key, callers, longest):
        self.service, self.key, self.most = service, key, int(longest / STEP_SECONDS)
        self.answered, self.lost, self._end = {}, [], threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(callers)]
        for thread in self._threads:
            thread.start()

    def _work(self, caller):
        for number in range(10_000):
            if self._end.is_set():
                return
            pod, steps, request_id = self.service.pick(), random.randint(1, self.most), f"{caller}-{number}"
            try:
                status, text = call(pod, self.key, request_id, "count", {"steps": steps})
            except (OSError, http.client.HTTPException) as error:
                status, text = 0, repr(error)
            if status == 200 and f"Counted to {steps}" in text:
                self.answered.setdefault(pod.name, []).append(request_id)
            else:
                self.lost.append((pod.name, request_id, status, text[:300]))

    def stop(self):
        self._end.set()
        for thread in self._threads:
            thread.join(SECONDS)


class Faithful(threading.Thread):
    """A client that keeps its one connection and goes on calling whatever happens; `seen` counts what it was told."""

    def __init__(self, pod, key):
        super().__init__(daemon=True)
        self.pod, self.key, self.seen, self.end = pod, key, {}, threading.Event()
        self.start()

    def run(self):
        with contextlib.closing(connection(self.pod, MCP_PORT)) as link:
            for number in range(10_000):
                if self.end.is_set() or not self._once(link, number):
                    return
                time.sleep(0.05)

    def _once(self, link, number):
        try:
            status, text = post(link, self.key, f"faithful-{number}", "echo", {"message": "hi"})
        except (OSError, http.client.HTTPException) as error:
            self._count(f"closed: {type(error).__name__}")
            return False
        found = "ok" if status == 200 and "Echo: hi" in text else json.loads(text)["error"]["data"]["reason"]
        self._count(found)
        return True

    def _count(self, what):
        self.seen[what] = self.seen.get(what, 0) + 1


class Prober(threading.Thread):
    """Asks /healthz and /readyz as kubelet does; `failures` has what was not 200 until `end` is set, `slowest` the longest
    wait for an answer in seconds."""

    def __init__(self, pod):
        super().__init__(daemon=True)
        self.pod, self.polls, self.failures, self.slowest, self.end = pod, 0, [], 0.0, threading.Event()
        self.start()

    def run(self):
        while not self.end.wait(0.2):
            for path in ("/healthz", "/readyz"):
                asked = time.monotonic()
                status, text = get(self.pod, path)
                self.polls += 1
                self.slowest = max(self.slowest, time.monotonic() - asked)
                if status != 200 and not self.end.is_set():
                    self.failures.append((path, status, text))
