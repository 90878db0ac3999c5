"""What the Jobs of a gang completed, also where the pods that did it are gone.

Lives here: how many completions count beside the succeeded pods that are seen. Never here: what the quorum lacks (roster).
"""

from collections import Counter
from collections.abc import Mapping

from scheduler.ledger import roster
from scheduler.ledger.records import GangRecord, Spec
from scheduler.model.workload import OwnerTraits, Phase


def done(record: GangRecord, spec: Spec, owners: Mapping[str, OwnerTraits]) -> dict[str, int]:
    """By role: what the Jobs of its members completed beyond the succeeded pods that are seen.

    A succeeded pod may go while its gang runs: its node is removed, or its place is cleaned up.  Its Job remembers it.
    """
    seen: Counter[str] = Counter()
    for member in record.members.values():
        if (owner := roster.owner_of(member)) and member.aside is None and not roster.is_surplus(member):
            record.jobs[owner] = roster.role_of(member, spec)
            seen[owner] += member.pod.phase is Phase.SUCCEEDED
    record.jobs = {owner: role for owner, role in record.jobs.items() if owner in owners}
    found: Counter[str] = Counter()
    for owner, role in record.jobs.items():
        found[role] += max(0, owners[owner].succeeded - seen[owner])
    return dict(+found)
