"""The image's final stage, built and run by a real engine (podman with runc): size, contents, user, read-only root, health,
memory limit, a call, SIGTERM. Only the compile stage, whose base must be pulled, is left out: the program under test stands
in for its product, with the libraries it needs where it is not static (`SMARTGATE_IMAGE_BIN` names one that is).

Invariant: the engine's storage lies in the run's folder, and no container outlives the test."""

import collections
import functools
import json
import os
import pathlib
import re
import shutil
import time

from calls import modern_call
from harness import Skipped, check, free_ports, run, wait_until
from image import DOCKERFILE
from sandbox import libraries
from tools import DEPLOY, TOOLS, output, tool

ENGINE = TOOLS / "engine/usr"
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
LARGEST = 30_000_000
USER = 65532
SHELLS = ("/bin/sh", "/bin/busybox", "/usr/bin/env")
Image = collections.namedtuple("Image", "podman folder libraries")


class Podman:
    """The engine of this machine, or the one that `scripts/test` has unpacked, with files in a folder of its own."""

    def __init__(self, folder):
        if os.geteuid() != 0:
            raise Skipped("podman is only tried as root")
        found = shutil.which("podman") or ENGINE / "bin/podman"
        if not pathlib.Path(found).exists():
            raise Skipped("podman is not to be had here")
        libs = ":".join(map(str, (ENGINE / "lib").glob("*-linux-gnu")))
        folder.mkdir(exist_ok=True)
        (folder / "containers.conf").write_text(
            f'[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nlock_type = "file"\n'
            f'conmon_path = {json.dumps([shutil.which("conmon") or str(ENGINE / "bin/conmon")])}\n'
            f'[engine.runtimes]\nrunc = {json.dumps([shutil.which("runc") or str(ENGINE / "sbin/runc")])}\n'
            f'[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        )
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n'
        )
        (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        self.folder, self._words = folder, [found, "--tmpdir", folder / "tmp"]
        self._environment = {
            "LD_LIBRARY_PATH": libs,
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }
        status, _, err = self.try_("info")
        if status != 0:
            raise Skipped(f"podman does not work here: {err.strip()[-300:]}")

    def try_(self, *words):
        return run([*self._words, *words], env=self._environment, seconds=300)

    def __call__(self, *words):
        return output([*self._words, *words], env=self._environment, seconds=300)


def build(bench):
    """The final stage as it is, with files of this machine where the compile stage would give them."""
    podman, context = Podman(bench.stack.work / "podman"), bench.stack.work / "image"
    out = context / "build/out"
    (out / "state").mkdir(parents=True)
    program = pathlib.Path(os.environ.get("SMARTGATE_IMAGE_BIN", bench.binary))
    output([tool("strip"), "-o", out / "smartgate", program])
    if not AUTHORITIES.exists():
        raise Skipped(f"{AUTHORITIES} does not exist here")
    (context / "build/etc/ssl/certs").mkdir(parents=True)
    shutil.copy(AUTHORITIES, context / f"build{AUTHORITIES}")
    shutil.copytree(DEPLOY / "docker/etc", context / "deploy/docker/etc")
    stage = "FROM " + re.split(r"^FROM ", DOCKERFILE.read_text(), flags=re.M)[-1]
    stage = re.sub(r"--from=build (--chown=\S+ )?/", r"\1build/", stage)
    needed = libraries(out / "smartgate")
    for library in needed:
        place = context / f"libraries{library}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library.resolve(), place)
    (context / "Dockerfile").write_text(stage + ("COPY libraries /\n" if needed else ""))
    podman("build", "--quiet", "--format=docker", "--isolation=chroot", "--signature-policy", podman.folder / "policy.json",
           "--tag=smartgate", context)  # fmt: skip
    return Image(podman, context, needed)


def contents(image):
    """Nothing is in it but what the Dockerfile says."""
    podman, _, needed = image()
    about = json.loads(podman("image", "inspect", "smartgate"))[0]
    extra = sum(library.stat().st_size for library in needed)
    size = about["Size"] - extra
    check(size < LARGEST, f"the image has {size} bytes")
    config = about["Config"]
    check(config["User"] == "65532:65532", f"the user is {config['User']}")
    check("smartgate" in about["HealthCheck" if "HealthCheck" in about else "Healthcheck"]["Test"][1], "no health check")
    check(config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0", f"labels: {config['Labels']}")
    place = pathlib.Path(podman("image", "mount", "smartgate").strip())
    try:
        files = {f"/{file.relative_to(place)}" for file in place.rglob("*") if not file.is_dir()} - set(map(str, needed))
    finally:
        podman("image", "unmount", "smartgate")
    expected = {"/usr/local/bin/smartgate", "/etc/passwd", "/etc/group", str(AUTHORITIES)}
    check(files == expected, f"in the image: {sorted(files)}")
    for shell in SHELLS:
        status = podman.try_("run", "--rm", "--network=none", f"--entrypoint={shell}", "smartgate")[0]
        check(status == 127, f"{shell} ended with {status}")
    libs = f", without {extra:,} bytes of libraries that a static program does not need" if needed else ""
    return f"{size:,} bytes{libs}"


def life(bench, image):
    """Started as compose starts it, asked, looked at from outside, and stopped."""
    podman = image().podman
    port, admin = free_ports(2)
    config = bench.stack.work / "engine-config"
    config.mkdir()
    (config / "smartgate.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:{port}"\n[admin]\nlisten = "127.0.0.1:{admin}"\n[upstreams.smart]\nbuiltin = true\n'
        '[storage]\npath = "/var/lib/smartgate/smartgate.db"\n[audit]\njournal = { path = "/var/lib/smartgate/audit.jsonl" }\n'
    )
    limit = re.search(r"mem_limit: (\w+)", (DEPLOY / "compose.yaml").read_text())[1]
    start = ["run", "--detach", "--name=gate", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]
    rest = ["--health-interval=disable", "--network=host", f"--volume={config}:/etc/smartgate:ro", "smartgate"]
    limited = podman.try_(*start, f"--memory={limit}", *rest)[0] == 0
    if not limited:  # without a cgroup to write to
        podman.try_("rm", "--force", "--time=0", "gate")
        podman(*start, *rest)
    try:
        wait_until("the health check", lambda: podman.try_("healthcheck", "run", "gate")[0] == 0, seconds=60)
        told = modern_call(f"http://127.0.0.1:{port}/mcp", 1, {"action": "list"}, tool="smart_memory")
        check(told[0] == 200, f"a call: {told}")
        about = json.loads(podman("inspect", "gate"))[0]
        judge_process(about["State"]["Pid"])
        journal = pathlib.Path(next(m["Source"] for m in about["Mounts"] if m["Destination"] == "/var/lib/smartgate"))
        started = time.monotonic()
        podman("stop", "--time=25", "gate")
        took = time.monotonic() - started
        code = json.loads(podman("inspect", "gate"))[0]["State"]["ExitCode"]
        check(code == 0, f"it exited with {code} after {took:.1f} s")
        check(podman.try_("healthcheck", "run", "gate")[0] != 0, "it is healthy without running")
        output([bench.binary, "audit", "verify", journal / "audit.jsonl"])
    except BaseException:
        (bench.stack.work / "engine.log").write_text("".join(podman.try_("logs", "gate")[1:]))
        raise
    finally:
        podman.try_("rm", "--force", "--time=0", "--volumes", "gate")
    return f"under {limit} of memory" if limited else "without a memory limit, which this machine does not allow"


def judge_process(pid):
    """The process as the kernel sees it."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    for line in (f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"):
        check(f"{line}\n" in status, f"{line} is not so: {status}")
    root = next(line for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines() if line.split()[4] == "/")
    check(root.split()[5].split(",")[0] == "ro", f"the root can be written: {root}")


def tests(bench):
    image = functools.cache(lambda: build(bench))
    yield "image/built-by-an-engine", lambda: contents(image)
    yield "image/life-in-an-engine", lambda: life(bench, image)
