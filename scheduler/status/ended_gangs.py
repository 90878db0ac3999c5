"""Gangs of which all pods have ended: they are in no list, and `explain` says how they ended.

Lives here: which gangs these are, and what is told of one. Never here: when their pods are forgotten (`ledger`).
"""

from collections import Counter
from typing import Final

from scheduler.engine import Engine
from scheduler.ledger import gang_spec
from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import Phase

STATE: Final = "over"


def is_over(engine: Engine, record: GangRecord) -> bool:
    """Its pods have all ended, and no owner that is known makes more of them."""
    if not all(member.pod.phase.ended for member in record.members.values()):
        return False
    uids = {member.pod.owner.uid for member in record.members.values() if member.pod.owner is not None}
    return not any(traits is not None and not traits.ended for traits in map(engine.ledger.owners.get, uids))


def sentence(record: GangRecord) -> str:
    """How many of its pods succeeded, and how many failed."""
    ends = Counter(member.pod.phase for member in record.members.values())
    said = [f"{ends[phase]} {phase.lower()}" for phase in (Phase.SUCCEEDED, Phase.FAILED) if ends[phase]]
    return f"{TEXT[Reason.ENDED]}: {', '.join(said)}"


def needed(engine: Engine, record: GangRecord) -> int | None:
    """The quorum of a gang of which no pod lives, as its pods said it; None: they did not."""
    if gang_spec.is_gang_of_one(record.key):
        return 1
    for member in record.members.values():
        if (own := member.pod.membership) is None:
            continue
        group = engine.ledger.groups.get((own.format, record.key))
        minimums = own.quorum if group is None else group.quorum
        if minimums is not None:
            return sum(minimums.values())
    return None
