"""Becomes the first process of a container: namespaces, mounts and a root of its own, then the container's command.

Run as `python -I -S enter.py PARENT` by `container.py` alone, with the order as JSON on standard input; standard output
is for answers, a line of JSON each: `{"pid": 7}` once the command runs or `{"error": "…"}`, then `{"code": 143}`.
A separate program of the standard library, because namespaces are entered by a process that has one thread.

Three ways, tried in this order by whoever starts us (`Order.isolation`):

root    mount, process and host-name namespaces. Every container sees the machine's own files, but for its mounts: the
root
        is a tmpfs into which the machine's folders are bound, and a folder that lacks a mount point becomes such a
        tmpfs in turn, so nothing is ever made on the machine. The command is process 1: a signal that it has no handler
        for passes it by, and nothing outlives it.
user    the same inside a user namespace, for who is not root, where the kernel permits it.
none    no namespaces: mount paths do not exist, `container.py` has put the folders themselves into the words. We are
        the reaper of the command's descendants and end them after it.

When the program that started us dies, even by SIGKILL, everything here dies.
"""

import ctypes
import json
import os
import select
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
NEWNS, NEWUTS, NEWUSER, NEWPID = 0x00020000, 0x04000000, 0x10000000, 0x20000000  # linux/sched.h
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18  # linux/mount.h

NAMESPACES = {"root": NEWNS | NEWPID | NEWUTS, "user": NEWUSER | NEWNS | NEWPID | NEWUTS, "none": 0}
JOINED = {"root": ("mnt", "pid", "uts"), "user": ("user", "mnt", "pid", "uts"), "none": ()}

libc = ctypes.CDLL(None, use_errno=True)


def main(parent: int) -> int:
    order = json.load(sys.stdin.buffer)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _unshare(order)
    except OSError as error:
        return _say(error=f"namespaces: {error.strerror}")
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # not earlier: a user namespace forgets it
    if os.getppid() != parent:
        return 1
    way = order["isolation"]
    told, tells = os.pipe()
    child = os.fork()
    if not child:
        os.close(told)
        _become(order, log, tells)
    os.close(tells)
    signal.signal(signal.SIGTERM, lambda *_: _orphaned(way))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    with os.fdopen(told) as pipe:
        failed = pipe.read()
    if failed:
        os.waitpid(child, 0)
        return _say(error=failed)
    _say(pid=child)
    code = _ended(child)
    _sweep(way)
    return _say(code=code)


# ── before the fork ─────────────────────────────────────────────────────────────────────────────────────────


def _unshare(order: dict[str, Any]) -> None:
    way = order["isolation"]
    if order.get("join"):
        _join(order["join"], JOINED[way])
        return
    if way == "none":
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return
    user, group = os.getuid(), os.getgid()
    _checked(libc.unshare(NAMESPACES[way]))
    if way == "user":
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {user} 1")
        _write("/proc/self/gid_map", f"0 {group} 1")


def _join(pid: int, kinds: tuple[str, ...]) -> None:
    """Enters the container whose first process is `pid`."""
    if not kinds:
        return
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    for space in [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in kinds]:
        _checked(libc.setns(space, 0))
        os.close(space)
    os.fchdir(root)
    os.chroot(".")
    os.close(root)


# ── the child ───────────────────────────────────────────────────────────────────────────────────────────────


def _become(order: dict[str, Any], log: int, tells: int) -> NoReturn:
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if _unheard(tells):
            os._exit(1)
        os.setsid()
        if order["isolation"] != "none" and not order.get("join"):
            _furnish(order)
        os.chdir(order["folder"])
        _settle(log)
        _execute(order["command"], order["env"])
    except OSError as error:
        os.write(tells, f"{error.filename}: {error.strerror}".encode())
    finally:
        os._exit(1)


def _unheard(tells: int) -> bool:
    """Whether our parent is gone already."""
    poll = select.poll()
    poll.register(tells, 0)
    return bool(poll.poll(0))


def _execute(command: list[str], env: dict[str, str]) -> NoReturn:
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), command[0]) from None


def _furnish(order: dict[str, Any]) -> None:
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _checked(libc.sethostname(order["hostname"].encode(), len(order["hostname"].encode())))
    root = Root(order["root"])
    for source, target, read_only in sorted(order["mounts"], key=lambda own: str(own[1])):
        root.bind(source, os.path.realpath(target), read_only)
    _mount("proc", order["root"] + "/proc", "proc", 0)
    os.chroot(order["root"])


def _settle(log: int) -> None:
    """Standard streams, and signals as a fresh program has them, whatever we were told to ignore: a shell cannot trap
    what is ignored when it begins, as SIGHUP is under nohup.
    """
    for stream, source in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(source, stream)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


class Root:
    """The files of one container: the machine's, with folders of ours bound into them."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._ours: dict[str, bool] = {}
        """Path → whether what is made beneath it stays in the container (or in the pod's volume)."""
        self._mirror("/")

    def bind(self, source: str, target: str, read_only: bool) -> None:
        folder = os.path.isdir(source)
        self._ensure(target, folder=folder)
        _bind(source, self._place + target)
        if read_only:
            _mount(source, self._place + target, None, MS_BIND | MS_REMOUNT | MS_RDONLY)
        self._ours[target] = True

    def _ensure(self, path: str, *, folder: bool) -> None:
        walked = ""
        for part in path.strip("/").split("/"):
            parent, walked = walked or "/", f"{walked}/{part}"
            if os.path.lexists(self._place + walked):
                continue
            if not self._stays(parent):
                self._mirror(parent)
            _make(self._place + walked, folder=folder or walked != path)

    def _stays(self, path: str) -> bool:
        while path not in self._ours:
            path = os.path.dirname(path)
        return self._ours[path]

    def _mirror(self, folder: str) -> None:
        """Puts a tmpfs where the folder is, with everything in it that the folder has."""
        within = self._place + folder.rstrip("/")
        _mount("tmpfs", within, "tmpfs", 0, "mode=755")
        self._ours[folder] = True
        for entry in os.scandir(folder):
            own = f"{within}/{entry.name}"
            self._ours[entry.path] = False
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), own)
            elif entry.path == "/proc":
                os.mkdir(own)
            else:
                with suppress(FileNotFoundError):  # gone meanwhile
                    _make(own, folder=entry.is_dir())
                    _bind(entry.path, own)


def _make(path: str, *, folder: bool) -> None:
    if folder:
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))


def _bind(source: str, target: str) -> None:
    _mount(source, target, None, MS_BIND | MS_REC)


def _mount(source: str, target: str, kind: str | None, flags: int, words: str | None = None) -> None:
    spoken = [None if word is None else word.encode() for word in (source, target, kind, words)]
    _checked(libc.mount(spoken[0], spoken[1], spoken[2], ctypes.c_ulong(flags), spoken[3]), target)


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────


def _ended(child: int) -> int:
    """Waits for the command, and buries whoever of its descendants comes to us; its code as a container's."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _orphaned(way: str) -> NoReturn:
    _sweep(way)
    os._exit(1)  # the kernel kills our child with us


def _sweep(way: str) -> None:
    """SIGKILL to all that are left. A process namespace ends with its first process; without one they are our
    children.
    """
    while way == "none" and (left := _children()):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.wait()


def _children() -> list[int]:
    me = os.getpid()
    with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def _checked(result: int, path: str = "") -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _say(**words: object) -> int:
    print(json.dumps(words), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
