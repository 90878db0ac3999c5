"""A job that asks for more members than one round can hold.

Lives here: what becomes of its bounds: a maximum beyond that is lowered to it, a minimum beyond it is wrong. Never
here: how many they are (`timeouts`), or why. Why before anybody starts: members of a round that is too large all die in
Horovod's `init`, again and again.
"""

from msgspec.structs import replace

from scheduler.elastic.job.spec import Problem, Spec
from scheduler.elastic.reconciler.timeouts import Timeouts


def problems(spec: Spec, limits: Timeouts) -> tuple[Problem, ...]:
    """What keeps this job from ever having a round."""
    if spec.min_workers <= limits.ring:
        return ()
    remedy = f"at most {limits.ring}: the rendezvous holds no larger ring ({limits.ring_bound})"
    return (Problem("spec.minWorkers", str(spec.min_workers), remedy),)


def lowered(spec: Spec, limits: Timeouts) -> Spec:
    """The spec with a maximum that a round can hold."""
    most = max(spec.min_workers, min(spec.max_workers, limits.ring))
    return spec if most == spec.max_workers else replace(spec, max_workers=most)


def why(spec: Spec, asked: int, size: int, limits: Timeouts) -> str:
    """Why a job that asked for so many has this size, where that is for want of a larger round; else empty."""
    if not spec.max_workers == size < asked:
        return ""
    return f"maxWorkers is {asked}, but the rendezvous holds no larger ring ({limits.ring_bound})"
