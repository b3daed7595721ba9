"""deploy/docker: the Dockerfile as far as it can be checked without an engine. Its base images and the build itself are
not checked here; that the program runs in an image like this one is what pod.py shows."""

import re
import shutil

from harness import ROOT, check, run
from tools import DEPLOY, output, tool

DOCKERFILE = DEPLOY / "docker/Dockerfile"
CONTEXT = DEPLOY / "docker/Dockerfile.dockerignore"


def lint(_bench):
    output([tool("hadolint"), DOCKERFILE])


def final_stage(_bench):
    last = re.split(r"^FROM ", DOCKERFILE.read_text(), flags=re.M)[-1]
    check(re.search(r"^USER 65532:65532$", last, re.M), "the image does not run as user 65532")
    check("RUN" not in last, "the final image has no shell to run anything")
    check(re.search(r"^ENTRYPOINT \[", last, re.M) and re.search(r"^CMD \[", last, re.M), "a shell form needs a shell")
    check(f'image.version="{version()}"' in last, f"the label is not of version {version()}")
    toolchain = re.search(r'^rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    check(f"FROM rust:{toolchain}-" in DOCKERFILE.read_text(), f"the build does not use Rust {toolchain}")


def version():
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def one_version(_bench):
    """Everything that names a version of the gateway names the one of Cargo.toml."""
    named = {
        "kubernetes/component/sidecar.yaml": f"image: smartgate:{version()}",
        "compose.yaml": f"image: smartgate:{version()}",
        "helm/smartgate/Chart.yaml": f'appVersion: "{version()}"',
    }
    for file, words in named.items():
        check(words in (DEPLOY / file).read_text(), f"{file} does not say {words}")


def context(bench):
    """What .dockerignore lets through is a package that cargo understands: every target's source is there."""
    folder = bench.stack.work / "context"
    folder.mkdir()
    for line in CONTEXT.read_text().splitlines():
        if line.startswith("!"):
            copy = shutil.copytree if (ROOT / line[1:]).is_dir() else shutil.copy
            copy(ROOT / line[1:], folder / line[1:])
    status, _, err = run(
        ["cargo", "metadata", "--no-deps", "--locked", "--offline", "--format-version", "1"], cwd=folder
    )
    check(status == 0, err)
    sources = (s for s in (folder / "src").rglob("*.rs") if "tests" not in s.with_suffix("").parts)
    for source in sources:  # tests are not built there
        for name in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', source.read_text()):
            check((source.parent / name).exists(), f"{name} is not in the context")


def size(bench):
    """The program as the image has it, in bytes; the base adds 2 MB (certificates, time zones, users)."""
    small = bench.stack.work / "stripped"
    output([tool("strip"), "-o", small, bench.binary])
    check(small.stat().st_size < 28_000_000, f"the stripped program has {small.stat().st_size} bytes")


def encoders(bench):
    """The encoders of the image count as the reference encoder (PyPI tiktoken 0.14.0)."""
    text = "敏捷的棕色狐狸跳过懒狗。日本語の文章には漢字とひらがなとカタカナがあります。한국어 문장도 있습니다. 〇々〆ヵヶ\n" * 30
    for model, tokens in (("gpt-4o", 1_440), ("gpt-4", 2_160)):
        command = [bench.binary, "call", "smart_budget_guard", "action=count", f"model={model}", f"text={text}", "--json"]
        out = output(command, env={"XDG_STATE_HOME": str(bench.stack.work)})
        check(f'"counted_tokens":{tokens},' in out, f"{model}: {out[:300]}")


def tests(bench):
    yield "image/lint", lambda: lint(bench)
    yield "image/final-stage", lambda: final_stage(bench)
    yield "image/one-version", lambda: one_version(bench)
    yield "image/size", lambda: size(bench)
    yield "image/encoders", lambda: encoders(bench)
    yield "image/context-is-a-package", lambda: context(bench)
