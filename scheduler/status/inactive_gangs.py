"""Gangs that do not run: gangs that are over, and suspended gangs. Pure.

Lives here: which gangs these are, how they ended, and how they resume. Never here: gangs with live pods (`gang_views`),
or when ended pods are dropped (`ledger`).

A gang that is over is in no list, and `explain` tells how it ended. A gang without pods is known by its suspended Jobs.
Jobs whose pods would use another scheduler do not count.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from scheduler.engine import Engine
from scheduler.ledger import gang_history, gang_spec
from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import Asleep, GangKey, Membership, Phase
from scheduler.status import schemas
from scheduler.status.authorization import Sight

OVER: Final = "over"
SUSPENDED: Final = "suspended"


def is_over(engine: Engine, record: GangRecord) -> bool:
    """Whether all of its pods have ended, and no known owner creates more."""
    return gang_history.is_over(record, engine.ledger.owners)


def is_suspended(engine: Engine, record: GangRecord) -> bool:
    """Whether a Job of it is suspended and all of its pods have ended."""
    return bool(suspended_jobs(engine, record.key)) and _has_ended(record)


def is_without_pods(engine: Engine, key: GangKey) -> bool:
    """Whether this is a suspended gang without pods."""
    return key not in engine.ledger.registry.gangs and bool(suspended_jobs(engine, key))


def suspended_jobs(engine: Engine, key: GangKey) -> list[Asleep]:
    """The suspended Jobs of this gang, by name."""
    return [
        own for own in engine.ledger.registry.asleep.of(key) if own.scheduler in engine.policy.scheduler_names
    ]


def how_it_ended(record: GangRecord) -> str:
    """A text with the number of pods that succeeded and failed."""
    ends = Counter(member.pod.phase for member in record.members.values())
    said = [f"{ends[phase]} {phase.lower()}" for phase in (Phase.SUCCEEDED, Phase.FAILED) if ends[phase]]
    return f"{TEXT[Reason.FINISHED]}: {', '.join(said)}"


def why_asleep(engine: Engine, key: GangKey) -> Reason:
    """The reason of its suspension: its max-runtime, if all of its Jobs state that."""
    exceeded = all(own.exceeded for own in suspended_jobs(engine, key))
    return Reason.RUNTIME_EXCEEDED if exceeded else Reason.SUSPENDED


def how_it_resumes(engine: Engine, key: GangKey) -> str:
    """A text with the suspended Jobs, and how they resume."""
    found = suspended_jobs(engine, key)
    onward = (
        "Gangwright resumes it automatically"
        if all(own.paused for own in found)
        else f"to resume it, run: gangwright resume {key.namespace}/{key.name}"
    )
    return f"{TEXT[why_asleep(engine, key)]}: {', '.join(own.job for own in found)}; {onward}"


def needed(engine: Engine, record: GangRecord) -> int | None:
    """The quorum of a gang without live pods, as its pods specify it; None if they do not."""
    if gang_spec.is_gang_of_one(record.key):
        return 1
    said = (member.pod.membership for member in record.members.values())
    return _quorum(engine, record.key, (own for own in said if own is not None))


def row_without_pods(engine: Engine, key: GangKey, sight: Sight) -> schemas.GangRow:
    """A suspended gang without pods, in a list."""
    judged, sees, jobs = engine.ledger.acting, sight.sees(key), suspended_jobs(engine, key)
    quorum = _quorum(engine, key, (own.membership for own in jobs))
    return schemas.GangRow(
        id=sight.alias(key),
        namespace=key.namespace if sees else None,
        name=key.name if sees else None,
        key=None,
        alone=False,
        state=SUSPENDED,
        reason=why_asleep(engine, key) if judged else None,
        message=how_it_resumes(engine, key) if judged and sees else None,
        position=None,
        priority=None,
        wait_seconds=None,
        members=schemas.Members(present=0, needed=quorum, held=0, bound=0, running=0),
        forecast=None,
        owner=f"Job/{jobs[0].job}" if jobs and sees else None,
        created=None,
        started=None,
        devices_wanted={},
        devices_held={},
    )


def _has_ended(record: GangRecord) -> bool:
    return all(member.pod.phase.ended for member in record.members.values())


def _quorum(engine: Engine, key: GangKey, said: Iterable[Membership]) -> int | None:
    """The first quorum that is specified."""
    for own in said:
        group = engine.ledger.groups.get((own.format, key))
        minimums = own.quorum if group is None else group.quorum
        if minimums is not None:
            return sum(minimums.values())
    return None
