"""Gangs that have no pods because their Job is suspended: what is known of them, and how they go on.

Lives here: what such a Job tells of its gang. Never here: gangs that have pods (`gang_views`), or Jobs whose pods would be
of another scheduler.
"""

from typing import Final

from scheduler.engine import Engine
from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import Asleep, GangKey
from scheduler.status import response_schemas
from scheduler.status.authorization import Sight

STATE: Final = "suspended"


def is_bare(engine: Engine, key: GangKey) -> bool:
    """There is no pod of it."""
    return key not in engine.ledger.registry.gangs and bool(jobs(engine, key))


def jobs(engine: Engine, key: GangKey) -> list[Asleep]:
    """The Jobs of this gang that are suspended, by name."""
    return [
        own for own in engine.ledger.registry.asleep.of(key) if own.scheduler in engine.policy.scheduler_names
    ]


def is_asleep(engine: Engine, record: GangRecord) -> bool:
    """All its pods have ended, and those that are missing are not made."""
    return bool(jobs(engine, record.key)) and all(m.pod.phase.ended for m in record.members.values())


def sentence(engine: Engine, key: GangKey) -> str:
    """Which Job is suspended, and how it goes on."""
    found = jobs(engine, key)
    onward = (
        "Gangwright resumes it"
        if all(own.paused for own in found)
        else f"to go on: gangwright resume {key.namespace}/{key.name}"
    )
    return f"{TEXT[Reason.SUSPENDED]}: {', '.join(own.job for own in found)}; {onward}"


def row(engine: Engine, key: GangKey, sight: Sight) -> response_schemas.GangRow:
    """One such gang in a list."""
    judged, sees = engine.ledger.acting, sight.sees(key)
    return response_schemas.GangRow(
        id=sight.alias(key),
        namespace=key.namespace if sees else None,
        name=key.name if sees else None,
        key=None,
        alone=False,
        state=STATE,
        reason=Reason.SUSPENDED if judged else None,
        message=sentence(engine, key) if judged and sees else None,
        position=None,
        priority=None,
        wait_seconds=None,
        members=response_schemas.Members(present=0, needed=_needed(engine, key), held=0, bound=0, running=0),
        forecast=None,
    )


def _needed(engine: Engine, key: GangKey) -> int | None:
    """The quorum, as the first that says one has it."""
    for own in jobs(engine, key):
        group = engine.ledger.groups.get((own.membership.format, key))
        quorum = group.quorum if group is not None else own.membership.quorum
        if quorum is not None:
            return sum(quorum.values())
    return None
