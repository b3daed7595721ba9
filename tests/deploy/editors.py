"""`smartgate schema` in editors: taplo, which is the language server of Even Better TOML too, takes every configuration of
the repository and finds what is wrong in others, by each of the ways that docs/how-to.md shows."""

import json
import re
import shutil

from harness import ROOT, check, run
from tools import DEPLOY, output, tool

WRONG = {  # file: what must be named
    "[server]\nlistne = '127.0.0.1:8787'\n": "listne",
    "[upstreams.files]\nurl = 'http://127.0.0.1:3001/mcp'\nprotocol = '2025-11-24'\n": "2025-11-24",
    "[[keys]]\nname = 5\nenv = 'KEY'\n": "5",
}
BLOCK = re.compile(r"<!-- editors:begin -->\n(.*?)<!-- editors:end -->", re.S)


def shown(language):
    """The blocks of the page's section about editors in one language."""
    section = BLOCK.search((ROOT / "docs/how-to.md").read_text())[1]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.S | re.M)


def folder(bench, name):
    made = bench.stack.work / name
    made.mkdir()
    (made / "smartgate.schema.json").write_text(output([bench.binary, "schema"]))
    return made


def taplo(where, *words):
    """Exit code and what was said; `--no-auto-config` unless the folder has a configuration for taplo."""
    auto = [] if (where / ".taplo.toml").exists() else ["--no-auto-config"]
    status, out, err = run([tool("taplo"), "check", *auto, *words], cwd=where)
    return status, out + err


def by_schema(bench):
    where = folder(bench, "editors")
    schema = f"file://{where}/smartgate.schema.json"
    good = [*(ROOT / "config").glob("*.toml"), DEPLOY / "kubernetes/component/smartgate.toml", DEPLOY / "compose/smartgate.toml"]
    status, said = taplo(where, "--schema", schema, *good)
    check(status == 0, said)
    for text, named in WRONG.items():
        (where / "wrong.toml").write_text(text)
        status, said = taplo(where, "--schema", schema, "wrong.toml")
        check(status != 0 and named in said, f"{text}: {said}")
        status, out, err = run([bench.binary, "check", where / "wrong.toml"])
        check(status == 64, f"check takes what the schema refuses: {text}")
    return f"{len(good)} files taken, {len(WRONG)} refused"


def judged(where, name):
    """A file of this name is checked by the schema."""
    good = (ROOT / "config/minimal.toml").read_text()
    wrong, named = next(iter(WRONG.items()))
    head = "#:schema ./smartgate.schema.json\n" if name == "directive.toml" else ""
    for text, expected in ((good, 0), (wrong, 1)):
        (where / name).write_text(head + text)
        status, said = taplo(where, name)
        check(status == expected and (expected == 0 or named in said), f"{name}: {said}")


def as_documented(bench):
    where = folder(bench, "editors-documented")
    check("#:schema ./smartgate.schema.json" in "".join(shown("text")), "the directive is not shown")
    judged(where, "directive.toml")
    script = "".join(line[2:] + "\n" for line in shown("console")[0].splitlines() if line[:2] in ("$ ", "> "))
    (where / "bin").mkdir()
    (where / "bin/smartgate").symlink_to(bench.binary)
    output(["sh", "-euc", f"PATH=$PWD/bin:$PATH\n{script}"], cwd=where)
    check((where / ".taplo.toml").exists(), script)
    judged(where, "smartgate.toml")
    shutil.rmtree(where / "bin")


def vs_code(_bench):
    """The association is a regular expression over the file's URI, and its value a URI."""
    for block in shown("json"):
        for pattern, schema in json.loads(block)["evenBetterToml.schema.associations"].items():
            check(re.search(pattern, "file:///home/ada/gate/smartgate.toml"), f"{pattern} misses the file")
            check(not re.search(pattern, "file:///home/ada/gate/Cargo.toml"), f"{pattern} takes other files")
            check(schema.startswith("file:///"), f"{schema} is no absolute URI")


def tests(bench):
    yield "editors/schema", lambda: by_schema(bench)
    yield "editors/as-documented", lambda: as_documented(bench)
    yield "editors/vs-code", lambda: vs_code(bench)
