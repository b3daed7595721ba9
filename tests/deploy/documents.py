"""The documents about deploying are what really happens: each `console` block is run and its output compared, unless the
line above says `<!-- not run: WHAT IT NEEDS -->`. Their tables are compared with what they are about.

One shell for each document, in a folder laid out like a checkout, with the documented ports, in a network namespace of
its own where the machine allows one.
"""

import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "real"))

import harness  # noqa: E402
from harness import ROOT, Failed, Skipped, check, listening, wait_until  # noqa: E402
from readme_demo import COMMAND_SECONDS, Shell, loopback_up, matches, too_long  # noqa: E402
from tools import tool  # noqa: E402

NAMES = ("concepts", "how-to", "hosts", "tuning", "comparison", "deploy", "doctor", "metrics", "runbook", "security", "troubleshooting")
BLOCK = re.compile(r"^(<!-- not run: ([^\n]+) -->\n)?```console\n(.*?)^```", re.S | re.M)
NEEDED = {"a cluster", "an image engine", "systemd as the first process"}
ADMIN = 9787
TRIES, TRY_SECONDS = 6, 0.5


def commands(text):
    """[(command, expected output)] of the blocks that are run."""
    found = []
    for _, needs, block in BLOCK.findall(text):
        check(not needs or needs in NEEDED, f"a block that needs {needs!r}, which is none of {NEEDED}")
        for line in [] if needs else block.splitlines():
            if line.startswith("$ "):
                found.append(([line[2:]], []))
            elif line.startswith("> "):
                found[-1][0].append(line[2:])
            else:
                found[-1][1].append(line)
    return [("\n".join(command), "\n".join(output)) for command, output in found]


def lay_out(folder, binary):
    """A checkout as a reader has it; copies, because commands may write."""
    for name in ("deploy", "config", "docs"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "bin").mkdir()
    (folder / "bin/smartgate").symlink_to(binary)
    os.environ["PATH"] = f"{folder}/bin:{ROOT}/.tools/kubernetes:{os.environ['PATH']}"


def play(name, binary):
    text = (ROOT / f"docs/{name}.md").read_text()
    with tempfile.TemporaryDirectory(prefix="smartgate-docs-", ignore_cleanup_errors=True) as temporary:
        folder = pathlib.Path(temporary)
        lay_out(folder, binary)
        shell = Shell(folder)
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(COMMAND_SECONDS * 4)
        try:
            for command, expected in commands(text):
                run_one(shell, command, expected)
        finally:
            shell.close()


def run_one(shell, command, expected):
    if command.endswith(" &"):
        shell.run(command)
        wait_until("the gateway", lambda: listening(ADMIN))
        return
    for left in reversed(range(TRIES)):  # the gateway learns its tools shortly after its start
        output = shell.run(command)
        if matches(output, expected):
            return
        check(left, f"$ {command}\n--- documented\n{expected}\n--- real\n{output}")
        time.sleep(TRY_SECONDS)


def demonstration(bench, name):
    def test():
        for command, _ in commands((ROOT / f"docs/{name}.md").read_text()):
            if command.split()[0] in ("kubectl", "helm", "systemd-analyze"):
                tool(command.split()[0])
        apart = ["unshare", "--map-root-user", "--net"]
        isolated = harness.run([*apart, "true"])[0] == 0
        if not isolated and listening(ADMIN):
            raise Skipped(f"port {ADMIN} is in use, and this machine allows no network of our own")
        command = [
            *(apart if isolated else []),
            sys.executable,
            __file__,
            name,
            bench.binary,
            "apart" if isolated else "here",
        ]
        status, out, err = harness.run(command, seconds=200)
        check(status == 0, lambda: (out + err).strip())

    return test


def reasons(_bench):
    def of(page, column):
        rows = re.findall(r"^\|(.*)\|$", (ROOT / f"docs/{page}.md").read_text(), re.M)
        cells = [[cell.strip() for cell in row.split("|")] for row in rows]
        return {
            cell[column].strip("`") for cell in cells if len(cell) > column and re.fullmatch(r"`[a-z_]+`", cell[column])
        } - {"reason"}

    known, explained = of("errors", 2), of("troubleshooting", 0)
    check(len(known) > 15 and known == explained, f"reasons on one page only: {known ^ explained}")


def links(_bench):
    """Files and sections that the documents point to exist."""
    for name in NAMES:
        text = (ROOT / f"docs/{name}.md").read_text()
        for target in re.findall(r"\]\(([^)]+)\)", text):
            if target.startswith("https://"):
                continue
            page, _, section = target.partition("#")
            file = ROOT / "docs" / (page or f"{name}.md")
            check(file.exists(), f"{name}.md points to {target}")
            titles = {
                re.sub(r"[^a-z0-9 -]", "", t.lower()).replace(" ", "-")
                for t in re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            }
            check(not section or section in titles, f"{name}.md points to {target}")
        for path in re.findall(r"`((?:deploy|tests|config)/[\w./-]+)`", text):
            check((ROOT / path).exists(), f"{name}.md names {path}")


def configurations(bench):
    """Every TOML block of the documents is a configuration that loads."""
    for name in NAMES:
        for number, block in enumerate(
            re.findall(r"^```toml\n(.*?)^```", (ROOT / f"docs/{name}.md").read_text(), re.S | re.M)
        ):
            tomllib.loads(block)
            file = bench.stack.work / f"{name}-{number}.toml"
            file.write_text(block)
            status, out, err = harness.run([bench.binary, "check", file])
            check(status == 0, f"{name}.md: {out}{err}")


def tests(bench):
    for name in NAMES:
        yield f"docs/{name}", demonstration(bench, name)
    yield "docs/reasons-are-those-of-the-error-table", lambda: reasons(bench)
    yield "docs/links", lambda: links(bench)
    yield "docs/configurations", lambda: configurations(bench)


if __name__ == "__main__":
    if sys.argv[3] == "apart":
        loopback_up()
    try:
        play(sys.argv[1], sys.argv[2])
    except Failed as failure:
        sys.exit(str(failure))
