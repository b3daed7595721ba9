"""Real clients that hold a session while things happen around it.

Owns a client's process and the exchange of one command for one answer; what the commands are stands in
`clients/session.py`. Invariant: an answer belongs to the command just sent, for commands are sent one at a time.
"""
import concurrent.futures
import json
import os
import queue
import subprocess
import threading

import matrix
from harness import HERE, NODE, PYTHON1, PYTHON2, STOP_SECONDS, Failed, check

PROGRAMS = {
    "python1": [PYTHON1, HERE / "clients/session_py1.py"],
    "python2": [PYTHON2, HERE / "clients/session_py2.py"],
    "typescript1": [NODE, HERE / "clients/session_ts1.mjs"],
    "typescript2": [NODE, HERE / "clients/session_ts2.mjs"],
    "rmcp": None,  # the binary's place depends on the target folder
}
ANSWER_SECONDS = 45


def kinds(clients=PROGRAMS):
    """(client, mode) of each way in which these clients can speak."""
    return [(client, mode) for client in clients for mode in matrix.MODES.get(client, ["auto", "legacy"])]


class Held:
    """One client with its session."""

    def __init__(self, bench, client, mode, url):
        self.name, self.mode = f"{client}-{mode}", mode
        self._log = open(bench.stack.work / f"held-{self.name}-{id(self)}.log", "w+")
        command = [*(PROGRAMS[client] or [bench.rmcp_client.with_name("rmcp-session")]), url, "--mode", mode]
        self.child = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"}, start_new_session=True)
        self._answers = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.protocol = self._answer()["protocol"]
        except Failed:
            self.close()
            raise

    def _read(self):
        for line in self.child.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _answer(self):
        try:
            line = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            line = None
        if line is None:
            self._log.seek(0)
            raise Failed(f"{self.name} gave no answer: {self._log.read()[-1500:]}")
        return json.loads(line)

    def ask(self, **command):
        self.child.stdin.write(json.dumps(command) + "\n")
        self.child.stdin.flush()
        return self._answer()

    def call(self, name, arguments):
        return self.ask(do="call", name=name, arguments=arguments)

    def close(self):
        """Ends the session as the client does by itself at the end of its input."""
        self.child.stdin.close()
        try:
            self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self._log.close()


def hold(bench, url, clients=PROGRAMS):
    """A session of each client in each mode, all open at the same time. The caller closes them."""
    opened, failed = [], []
    with concurrent.futures.ThreadPoolExecutor(len(PROGRAMS) * 2) as pool:
        for attempt in [pool.submit(Held, bench, client, mode, url) for client, mode in kinds(clients)]:
            try:
                opened.append(attempt.result())
            except Failed as failure:
                failed.append(str(failure))
    if failed:
        close(opened)
        raise Failed("\n".join(failed))
    return opened


def close(sessions):
    each(sessions, lambda held: held.close())


def each(sessions, what):
    """Does something with all sessions at once; fails with all that went wrong."""
    with concurrent.futures.ThreadPoolExecutor(max(1, len(sessions))) as pool:
        done = [(held, pool.submit(what, held)) for held in sessions]
    wrong = [f"{held.name}: {failure}" for held, one in done if (failure := one.exception())]
    check(not wrong, lambda: "\n".join(wrong))
    return {held.name: one.result() for held, one in done}


def says(held, name, arguments, text):
    """A call that must succeed, with `text` in what it says."""
    answer = held.call(name, arguments)
    check(not answer.get("failed") and not answer["error"] and text in answer["text"], lambda: f"{name}: {answer}")
