"""The Debian package: `scripts/deb` makes it of the program under test, and dpkg installs, upgrades and purges it on a
throw-away view of this machine.

`cargo deb` is the one on PATH, else the one of PyPI, which is older than edition 2024 and is told of 2021 in a copy of the
checkout. Invariant: nothing of it stays on the machine."""

import functools
import os
import pathlib
import re
import shutil

from harness import ROOT, Skipped, check, run
from tools import TOOLS, output, tool

CONTEXT = ("Cargo.toml", "Cargo.lock", "build.rs", "src", "benches", "scripts", "deploy", "docs", "README.md", "CHANGELOG.md")
PATHS = (
    "usr/bin/smartgate",
    "etc/smartgate/smartgate.toml",
    "usr/share/man/man1/smartgate.1.gz",
    "usr/share/man/man1/smartgate-audit-verify.1.gz",
    "usr/share/bash-completion/completions/smartgate",
    "usr/share/zsh/vendor-completions/_smartgate",
    "usr/share/fish/vendor_completions.d/smartgate.fish",
    "usr/share/doc/smartgate/copyright",
    "usr/share/doc/smartgate/changelog.Debian.gz",
    "usr/share/doc/smartgate/configuration.md",
)
BIGGEST = 15_000_000  # bytes; the release program is 11 MB in it
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build(bench):
    """Makes the package in a copy of the checkout; its path."""
    for name in ("dpkg-shlibdeps", "strip"):
        tool(name)
    path = f"{os.environ['PATH']}:{TOOLS}/deploy/bin"
    packer = shutil.which("cargo-deb", path=path)
    if not packer:
        raise Skipped("cargo-deb is not to be had here")
    copy, target = bench.stack.work / "package/checkout", bench.stack.work / "package/target"
    copy.mkdir(parents=True)
    (target / "release").mkdir(parents=True)
    shutil.copy(bench.binary, target / "release/smartgate")
    for name in CONTEXT:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
    if output([packer, "--version"]).split()[-1].startswith("2."):
        manifest = copy / "Cargo.toml"
        manifest.write_text(manifest.read_text().replace('edition = "2024"', 'edition = "2021"'))
    environment = {"PATH": path, "CARGO_TARGET_DIR": str(target)}
    told = output([copy / "scripts/deb", "--no-build", "--fast"], env=environment, cwd=copy)
    return pathlib.Path(told.splitlines()[-1])


def contents(package):
    deb = package()
    check(deb.stat().st_size < BIGGEST, f"the package has {deb.stat().st_size} bytes")
    listed = {}
    for line in output(["dpkg-deb", "-c", deb]).splitlines():
        mode, owner, _, _, _, name = line.split()[:6]
        listed[name.removeprefix("./")] = mode
        check(owner in ("0/0", "root/root"), f"{name} belongs to {owner}")
    missing = set(PATHS) - set(listed)
    check(not missing, f"not in the package: {sorted(missing)}")
    check(any(name.endswith("lib/systemd/system/smartgate.service") for name in listed), "no unit")
    for name, mode in listed.items():
        right = "-rwxr-xr-x" if name == "usr/bin/smartgate" else "drwxr-xr-x" if name.endswith("/") else "-rw-r--r--"
        check(mode == right, f"{name} has mode {mode}")
    field = lambda name: output(["dpkg-deb", "-f", deb, name]).strip()  # noqa: E731
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    check(field("Version") == f"{version}-1", field("Version"))
    check("libc6" in field("Depends"), "the package does not say which libc it needs")
    first = (ROOT / "deploy/debian/changelog").read_text().splitlines()[0]
    check(first.startswith(f"smartgate ({version}-1) "), f"deploy/debian/changelog begins with {first}")
    return f"{deb.stat().st_size:,} bytes, {len(listed)} paths; depends on {field('Depends')}"


STEPS = r"""
set -e
fail() { echo "$*" >&2; exit 1; }
export PATH=%(path)s DEBIAN_FRONTEND=noninteractive
files() { find /etc /usr /var/lib -xdev -name '*smartgate*' | sort; }
before=$(files)
dpkg --no-triggers -i "$1" >/dev/null
smartgate --version | grep -q '^smartgate %(version)s '
smartgate check /etc/smartgate/smartgate.toml >/dev/null || fail 'the configuration does not load'
systemd-analyze verify --man=no smartgate.service 2>&1 | grep . && fail 'systemd does not take the unit'
[ ! -e /etc/systemd/system/multi-user.target.wants/smartgate.service ] || fail 'the service is enabled before it is configured'
bash -c '. /usr/share/bash-completion/completions/smartgate && complete -p smartgate' >/dev/null || fail 'bash completes nothing'
zcat /usr/share/man/man1/smartgate.1.gz | grep -q '^\.TH smartgate 1' || fail 'no manual'
echo '# mine' >>/etc/smartgate/smartgate.toml
dpkg --no-triggers -i "$1" >/dev/null
grep -q '^# mine' /etc/smartgate/smartgate.toml || fail 'an upgrade took an edit away'
dpkg --no-triggers --remove smartgate >/dev/null
[ ! -e /usr/bin/smartgate ] && [ -e /etc/smartgate/smartgate.toml ] || fail 'removal left the program or took the configuration'
dpkg --no-triggers --purge smartgate >/dev/null 2>&1
[ "$(files)" = "$before" ] || fail "left behind: $(files)"
"""
VIEW = r"""
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
mount --bind /proc "$1/root/proc"
mount --bind /dev "$1/root/dev"
cp "$2" "$1/root/smartgate.deb"
"""


def life(bench, package):
    """Installed, upgraded over an edited configuration, removed, purged: on an overlay of this machine's files."""
    if os.geteuid() != 0 or not shutil.which("dpkg"):
        raise Skipped("needs root on a Debian machine")
    deb, view = package(), bench.stack.work / "view"
    view.mkdir()
    apart = ["unshare", "--mount", "sh", "-c"]
    if run([*apart, VIEW, "sh", view, deb])[0] != 0:
        raise Skipped("this machine allows no overlay file system")
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    (bench.stack.work / "steps").write_text(STEPS % {"path": PATH, "version": version})
    inside = f'{VIEW}\ncp "$3" "$1/root/steps"\nexec chroot "$1/root" sh /steps /smartgate.deb'
    output([*apart, inside, "sh", view, deb, bench.stack.work / "steps"])


def tests(bench):
    package = functools.cache(lambda: build(bench))
    yield "package/contents", lambda: contents(package)
    yield "package/installed-upgraded-purged", lambda: life(bench, package)
