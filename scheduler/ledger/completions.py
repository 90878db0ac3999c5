"""What the Jobs of a gang completed, also where the pods that did it are gone.

Lives here: how many completions count beside the succeeded pods that are seen. Never here: what the quorum lacks (quorum).
"""

from collections import Counter
from collections.abc import Mapping

from scheduler.ledger import quorum
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.model.workload import OwnerTraits, Phase


def done(record: GangRecord, spec: Spec, owners: Mapping[str, OwnerTraits]) -> dict[str, int]:
    """By role: what the Jobs of its members completed beyond the succeeded pods that are seen.

    A succeeded pod may go while its gang runs: its node is removed, or its place is cleaned up.  Its Job remembers it.
    """
    seen: Counter[str] = Counter()
    for member in record.members.values():
        if (owner := quorum.owner_of(member)) and member.aside is None and not quorum.is_surplus(member):
            record.jobs[owner] = quorum.role_of(member, spec)
            seen[owner] += member.pod.phase is Phase.SUCCEEDED
    record.jobs = {owner: role for owner, role in record.jobs.items() if owner in owners}
    living = {quorum.owner_of(member) for member in record.live()} - {""}
    if living and not spec.of_several:  # another run's: what it completed counts for it alone
        record.jobs = {owner: role for owner, role in record.jobs.items() if owner in living}
    there = {quorum.role_of(member, spec) for member in record.members.values()}
    record.finished = {role: n for role, n in record.finished.items() if role not in there}
    found: Counter[str] = Counter(record.finished)
    for owner, role in record.jobs.items():
        found[role] += max(0, owners[owner].succeeded - seen[owner])
    return dict(+found)


def adopt(record: GangRecord, spec: Spec) -> None:
    """After a restart: the gang was whole once, so a role of which no pod is left has done its part.

    Which Job it was cannot be told: a Job without pods says nothing of its gang.
    """
    there = {quorum.role_of(member, spec) for member in record.members.values()}
    record.finished = {role: least for role, least in spec.quorum.items() if role not in there}


def forget(record: GangRecord) -> None:
    """The gang begins again."""
    record.jobs.clear()
    record.finished = {}
