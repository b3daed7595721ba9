"""What a container runtime does to a process, as far as this machine lets us: a network of its own, a read-only root
with nothing but what is mounted there, a user without rights, a memory limit. Linux only, standard library only.

Must run in a mount namespace of its own (`unshare --mount`), so that every mount made here ends with the process.
"""

import ctypes
import os
import pathlib
import re
import subprocess
import threading

from readme_demo import loopback_up

CLONE_NEWNET = 0x40000000
PR_SET_NO_NEW_PRIVS = 38
NOBODY = 65532
_libc = ctypes.CDLL(None, use_errno=True)


def sys_call(name, *arguments):
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


class Network:
    """A network namespace with nothing but a loopback device."""

    def __init__(self):
        made = threading.Thread(target=self._make)  # the namespace of a thread, not of this process
        made.start()
        made.join()

    def _make(self):
        sys_call("unshare", CLONE_NEWNET)
        loopback_up()
        self.handle = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)

    def enter(self):
        """Moves the calling thread (or a child before its exec) into this network."""
        sys_call("setns", self.handle, CLONE_NEWNET)


class Root:
    """A folder that is the whole world of a process: read-only, apart from the volumes mounted as writable."""

    def __init__(self, folder, binary, mounts):
        """`mounts`: (folder outside, path inside, writable)."""
        self.folder = pathlib.Path(folder)
        wanted = [(binary, "/usr/local/bin/smartgate"), *((lib, lib) for lib in libraries(binary))]
        for _, inside in wanted:
            place = self._inside(inside)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
        for _, inside, _ in mounts:
            self._inside(inside).mkdir(parents=True)
        mount("--bind", self.folder, self.folder)
        for outside, inside in wanted:
            self._bind(outside, inside, writable=False)
        for outside, inside, writable in mounts:
            self._bind(outside, inside, writable)
        mount("-o", "remount,bind,ro", self.folder)

    def _inside(self, path):
        return self.folder / str(path).lstrip("/")

    def _bind(self, outside, inside, writable):
        mount("--bind", outside, self._inside(inside))
        if not writable:
            mount("-o", "remount,bind,ro", self._inside(inside))

    def enter(self):
        os.chroot(self.folder)
        os.chdir("/")


def libraries(binary):
    """The shared libraries of `binary`; none of a static one."""
    listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True).stdout
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", listed)]


def drop_rights(user):
    """As `runAsUser` with `allowPrivilegeEscalation: false` and all capabilities dropped."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    sys_call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def use(pid):
    """(MiB of a process in memory, seconds of processor time it has had)."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) >> 10, (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


class MemoryLimit:
    """A cgroup of version 1 or 2 with a limit. `folder` is None where the machine does not allow one."""

    V1, V2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")

    def __init__(self, name, limit):
        self.limit, self.folder, self.file = limit, None, None
        for parent, file in ((self.V1, "memory.limit_in_bytes"), (self.V2, "memory.max")):
            folder = parent / name
            try:
                folder.mkdir()
                (folder / file).write_text(str(limit))
                self.folder, self.file = folder, file
                return
            except OSError:
                if folder.is_dir():
                    folder.rmdir()

    def set(self, limit):
        """Another limit for the processes that are in it."""
        if self.folder:
            (self.folder / self.file).write_text(str(limit))
            self.limit = limit

    def enter(self):
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        """Most bytes that were in use at once, page cache included; None where the kernel does not tell."""
        for file in ("memory.max_usage_in_bytes", "memory.peak"):
            if self.folder and (self.folder / file).exists():
                return int((self.folder / file).read_text())
        return None

    def kills(self):
        """Processes that the limit has killed."""
        for file in ("memory.oom_control", "memory.events"):
            if self.folder and (self.folder / file).exists():
                return int(re.search(r"^oom_kill (\d+)", (self.folder / file).read_text(), re.M)[1])
        return 0

    def close(self):
        if self.folder:
            self.folder.rmdir()
