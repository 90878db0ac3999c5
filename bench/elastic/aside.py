"""The control plane gives way while trainings beside it are measured.

In a cluster API server, etcd, schedulers and masters are on other machines. Here they take 57 ms a second of two cores
that a training uses up, and 9 ms more while it is an elastic job's than while it is of bare processes: half a percent of
a step that is neither agent nor shim, and more than twice what two agents take. Under the kernel's idle policy (sched(7)) they run
where nobody else wants a core.
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

CAP_SYS_NICE = 23
"""Its bit, capabilities(7)."""


@contextlib.contextmanager
def aside(jobs: Collection[int]) -> Iterator[None]:
    """Every process that descends from this one gives way, but those of `jobs`. Without CAP_SYS_NICE, which root in a
    container may lack, there is no way back (RLIMIT_NICE), so nothing is changed then.
    """
    if not able():
        yield
        return
    others = descendants(os.getpid()) - set(jobs)
    _policy(os.SCHED_IDLE, others)
    try:
        yield
    finally:
        _policy(os.SCHED_OTHER, others | descendants(os.getpid()) - set(jobs))


def able() -> bool:
    """Whether this process has CAP_SYS_NICE."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> CAP_SYS_NICE & 1)


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
