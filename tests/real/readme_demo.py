"""The README's demonstration is what really happens: its commands are run and its pasted outputs compared.

The blocks fenced as `console` between `<!-- demo:begin -->` and `<!-- demo:end -->` are one shell session: `$ ` starts a
command, `> ` goes on with it, other lines are its output. A command ending in ` &` is a service. Ids and times are
compared by shape; `...` at the end of a line stands for the rest of it. The documented ports are used, in a network
namespace of the test's own where the machine allows one.
"""
import fcntl
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import harness
from harness import HERE, ROOT, Failed, check, listening, wait_until

BEGIN, END = "<!-- demo:begin -->", "<!-- demo:end -->"
README = ROOT / "README.md"
FENCE = re.compile(r"^```console\n(.*?)^```", re.S | re.M)
PORTS = re.compile(r"127\.0\.0\.1:(\d+)")
PORT_OF_OUR_OWN = re.compile(r"\bPORT=(\d+)|--listen \S+:(\d+)")
SHAPES = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "TRACE"),
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"), "TIME"),
    (re.compile(r"\b(\d{13}|[0-9a-z]{8,9})(?=_[0-9a-z]+$)"), "TIME"),
    (re.compile(r"(?<=TIME_)[0-9a-z]+"), "RANDOM"),
]
TRIES = 10
TRY_SECONDS = 0.5
COMMAND_SECONDS = 30
DONE = "@@ the command has ended @@"


def commands(text):
    """[(command, expected output)] of the demonstration in `text`."""
    check(BEGIN in text and END in text, f"{BEGIN} and {END} are missing")
    found = []
    for block in FENCE.findall(text[text.index(BEGIN):text.index(END)]):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(([line[2:]], []))
            elif line.startswith("> "):
                found[-1][0].append(line[2:])
            else:
                found[-1][1].append(line)
    return [("\n".join(command), "\n".join(output)) for command, output in found]


def shape(text):
    for pattern, name in SHAPES:
        text = pattern.sub(name, text)
    return text


def matches(output, expected):
    """Whether the lines agree by shape; an expected line may end in `...`."""
    got, want = shape(output.strip()).splitlines(), shape(expected.strip()).splitlines()
    return len(got) == len(want) and all(
        g.startswith(w[:-3]) if w.endswith("...") else g == w for g, w in zip(got, want))


class Shell:
    """One bash, fed command by command, so that functions and variables stay."""

    def __init__(self, folder):
        path = f"{HERE / 'node_modules/.bin'}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "npm_config_offline": "true"}
        self.bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, command):
        self.bash.stdin.write(f"{command}\nprintf '\\n%s\\n' '{DONE}'\n")
        self.bash.stdin.flush()
        lines = []
        for line in self.bash.stdout:
            if line.strip() == DONE:
                return "".join(lines).rstrip("\n")
            lines.append(line)
        raise Failed(f"the shell ended in: {command}")

    def close(self):
        """Ends the session's own process group, services included."""
        os.killpg(self.bash.pid, signal.SIGTERM)
        self.bash.stdin.close()
        self.bash.wait(COMMAND_SECONDS)


def too_long(_signal, _frame):
    raise Failed("a command does not end")


def play(text, folder):
    """Runs the demonstration; fails with the first command whose output is not the documented one."""
    shell = Shell(folder)
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(COMMAND_SECONDS * 4)
    try:
        for command, expected in commands(text):
            ours = {port for pair in PORT_OF_OUR_OWN.findall(command) for port in pair if port}
            for port in set(PORTS.findall(command)) - ours:
                wait_until(f"something listening on {port}", lambda: listening(int(port)))
            if command.endswith(" &"):
                shell.run(command)
                continue
            for left in reversed(range(TRIES)):  # the gateway learns the upstream's tools shortly after its start
                output = shell.run(command)
                if matches(output, expected):
                    break
                check(left, f"$ {command}\n--- documented\n{expected}\n--- real\n{output}")
                time.sleep(TRY_SECONDS)
    finally:
        shell.close()


def loopback_up():
    """Brings up `lo` of a new network namespace (SIOCSIFFLAGS, netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        up_and_running = 0x41
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", up_and_running))


def inside(readme, binary):
    """The part that runs in the namespace."""
    with tempfile.TemporaryDirectory(prefix="smartgate-demo-", ignore_cleanup_errors=True) as name:
        prepare_and_play(pathlib.Path(readme).read_text(), binary, pathlib.Path(name))


def prepare_and_play(text, binary, folder):
    """Lays out `folder` like a checkout whose binary is built."""
    (folder / "target/release").mkdir(parents=True)
    (folder / "node_modules").symlink_to(HERE / "node_modules")
    (folder / "package.json").write_text('{"private":true}')
    if binary != "none":
        (folder / "target/release/smartgate").symlink_to(binary)
    play(direct_only(text) if binary == "none" else text, folder)


def direct_only(text):
    """The demonstration without the gateway's commands: what shows the failing half."""
    kept = [(command, output) for command, output in commands(text) if "smartgate" not in command and ":8787" not in command]
    body = "\n".join("$ " + command.replace("\n", "\n> ") + ("\n" + output if output else "") for command, output in kept)
    return f"{BEGIN}\n```console\n{body}\n```\n{END}"


def demonstration(bench):
    command = [sys.executable, __file__, README, bench.binary or "none"]
    isolated = harness.run(["unshare", "--map-root-user", "--net", "true"])[0] == 0
    if isolated:
        command = ["unshare", "--map-root-user", "--net", *command, "isolated"]
    status, out, err = harness.run(command, seconds=200)
    check(status == 0, lambda: (out + err).strip())


def tests(bench):
    yield "readme/demonstration", lambda: demonstration(bench)


if __name__ == "__main__":
    if sys.argv[3:] == ["isolated"]:
        loopback_up()
    try:
        inside(sys.argv[1], sys.argv[2])
    except Failed as failure:
        sys.exit(str(failure))
