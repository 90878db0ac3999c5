"""How many workers the job should have now, and who says so.

Lives here: the order of those who may say. Never here: a policy (`scheduler.elastic.sizing`).
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from scheduler.elastic.job.spec import Spec
from scheduler.elastic.membership import ceiling, roll
from scheduler.elastic.membership.effects import Tell
from scheduler.elastic.membership.state import State

Said: TypeAlias = tuple[int, str, str]
"""Size, by whom, why."""


def _paused(s: State) -> Said | None:
    if s.over:
        return 0, "gangwright", s.over[2]
    if s.finishing_at is not None:
        return len(s.record.ring), "gangwright", "a member has ended well; the others are about to"
    return (0, "user", "suspended") if s.spec and s.spec.suspend else None


def _user(s: State) -> Said | None:
    if s.spec is None or s.spec.workers is None:
        return None
    return s.spec.workers, "user", f"spec.workers is {s.spec.workers}"


def _policy(s: State) -> Said | None:
    return (s.sized.want, s.sized.by, s.sized.reason) if s.sized else None


def _schedule(s: State) -> Said | None:
    if s.spec is None:
        return None
    place = s.spec.stage(roll.epoch(s))
    workers = s.spec.schedule[place].workers if place >= 0 else None
    return (workers, "schedule", f"schedule[{place}].workers") if workers else None


def _quorum(s: State) -> Said | None:
    return (s.spec.min_workers, "quorum", "minWorkers, until the policy speaks") if s.spec else None


TABLE: Final[tuple[Callable[[State], Said | None], ...]] = (_paused, _user, _policy, _schedule, _quorum)
"""Who says something decides, the first of them."""


def said(s: State) -> Said:
    """The size in force, between minimum and maximum unless the job pauses, with its author and reason."""
    for ask in TABLE:
        answer = ask(s)
        if answer is not None:
            return answer if ask is _paused or s.spec is None else _allowed(s, s.spec, answer)
    return 0, "", "nothing is known of the job yet"


def _allowed(s: State, spec: Spec, answer: Said) -> Said:
    size, by, why = spec.clamp(answer[0]), *answer[1:]
    short = ceiling.why(spec, s.asked, size, s.limits)
    return size, by, "; ".join(part for part in (why, short) if part)


def staff(s: State) -> int:
    """How many workers there may be: those that are wanted, and newcomers whom the policy has start ahead of that."""
    if s.sized is None or s.spec is None or s.spec.workers is not None:
        return s.want
    return max(s.want, min(s.sized.ahead, s.spec.max_workers))


def look(s: State, now: float) -> None:
    """Note a change. Members are not interrupted for it before others had a moment to join it, nor is surplus started
    before it has stood for a moment.
    """
    want, by, why = said(s)
    if want != s.want:
        if s.want:
            s.do(Tell("Normal", "Wanted", f"{want} workers instead of {s.want}: {why}"))
        s.want_at = now
    first = s.want == 0
    s.want, s.wanted_by = want, by
    count = staff(s)
    if count != s.staff:
        s.staff, s.staff_at = count, float("-inf") if first else now
