"""The control plane gives way while trainings beside it are measured.

In a cluster API server, etcd, schedulers and masters are on other machines. Here they take 57 ms a second of two cores
that a training uses up, and 9 ms more while it is an elastic job's than while it is of bare processes: half a percent
of a step that is neither agent nor shim, and more than twice what two agents take. Under the kernel's idle policy
(sched(7)) they run where nobody else wants a core. Where the kernel groups processes by session ("autogroup",
likewise), it shares cores between sessions whatever the policies within them; so sessions that give way get the least
weight as well.
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

CAP_SYS_ADMIN, CAP_SYS_NICE = 21, 23
"""Their bits, capabilities(7)."""

LEAST = 19
"""The nice value of a session that gives way: 15 of the 1024 parts of an ordinary one."""


@contextlib.contextmanager
def aside(jobs: Collection[int]) -> Iterator[None]:
    """Every process that descends from this one gives way, but those of `jobs`. Without CAP_SYS_NICE, which root in a
    container may lack, there is no way back (RLIMIT_NICE), so nothing is changed then. Without CAP_SYS_ADMIN the kernel
    takes ten weights of sessions a second and refuses the others, so these are left as they are.
    """
    if not able(CAP_SYS_NICE):
        yield
        return
    others = descendants(os.getpid()) - set(jobs)
    sessions = _sessions(others, {os.getpid(), *jobs}) if able(CAP_SYS_ADMIN) else {}
    try:
        _policy(os.SCHED_IDLE, others)
        _weigh(dict.fromkeys(sessions, LEAST))
        yield
    finally:
        _policy(os.SCHED_OTHER, others | descendants(os.getpid()) - set(jobs))
        _weigh(sessions)


def able(capability: int) -> bool:
    """Whether this process has it, told by its bit."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> capability & 1)


def descendants(pid: int) -> set[int]:
    """The children of a process that live, theirs, and so on."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((place / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(place.name))
    found: set[int] = set()
    ahead = [pid]
    while ahead:
        new = children.get(ahead.pop(), [])
        found.update(new)
        ahead.extend(new)
    return found


def _policy(policy: int, pids: Iterable[int]) -> None:
    """Of all their threads; those that these start later have it from them. Who has ended is passed over."""
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setscheduler(int(thread.name), policy, os.sched_param(0))


def _sessions(pids: Iterable[int], kept: Iterable[int]) -> dict[int, int]:
    """The nice value of each session of these, by one of its processes; of none that one of `kept` is in. Empty where
    the kernel does not group by session.
    """
    own = {session for pid in kept for session, _ in _session(pid)}
    found = {session: (pid, nice) for pid in pids for session, nice in _session(pid)}
    return dict(at for session, at in found.items() if session not in own)


def _session(pid: int) -> Iterator[tuple[str, int]]:
    """Its group, such as "/autogroup-33", and the nice value of it; nothing if it has ended or has none."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        group, _, nice = Path(f"/proc/{pid}/autogroup").read_text(encoding="ascii").partition(" nice ")
        if nice:
            yield group, int(nice)


def _weigh(sessions: Mapping[int, int]) -> None:
    """Gives the session of each of these processes its nice value."""
    for pid, nice in sessions.items():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")
