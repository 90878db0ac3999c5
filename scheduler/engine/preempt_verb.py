"""kube-scheduler's preempt verb: which pods it may delete for one.

Room for a gang is made by its plan, so of a preemptor that is a member of one no candidate is left.  For any other pod the
candidates remain whose victims take no gang below its quorum, and of these the ones that the pod would be given then:
kube-scheduler knows nothing of the room that is held and of the nodes that are barred, and would otherwise go on deleting
pods in vain.  A victim that is not known is a sign that the picture here is late: its node is left out.  An empty list of
victims, legal from 1.38 on, breaks nothing.
Never here: other victims than kube-scheduler proposes.  It also knows reasons that are not room, as a host port.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from scheduler.ledger import Ledger, gang_spec, quorum
from scheduler.ledger.gang import GangRecord, Member, Spec
from scheduler.model.decision import Reason
from scheduler.model.queueing import Backfill
from scheduler.model.verbs import PreemptCall, Victims
from scheduler.model.workload import GangKey, Uid
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache

Offers = Mapping[str, Victims]


class PreemptVerb:
    """Reads the ledger; changes nothing."""

    def __init__(self, ledger: Ledger, masks: FeasibilityCache) -> None:
        self._ledger = ledger
        self._masks = masks

    def answer(self, call: PreemptCall) -> Offers:
        """The candidates that remain, with their victims."""
        registry, policy = self._ledger.registry, self._ledger.policy
        member = registry.member(call.uid)
        ours = call.scheduler in policy.scheduler_names and not call.native_group
        if ours and (member is None or self._in_vain(registry.gangs[registry.gang_of[call.uid]], member)):
            return {}
        offers = {node: own for node, own in call.candidates.items() if self._spares(own.uids)}
        if member is None:
            return offers
        given = self._given(member, offers)
        empty = {node for node, own in offers.items() if not own.uids and node in self._ledger.nodes}
        return {node: own for node, own in offers.items() if node in given | empty}

    def _in_vain(self, record: GangRecord, member: Member) -> bool:
        """It would not get the room of those who left: its gang makes its own, it has a seat or waits for one, or for
        something else than room.
        """
        if not gang_spec.is_gang_of_one(record.key) or member.tied is not None or member.pod.gated:
            return True
        if member.hold is not None or not isinstance(record.spec, Spec):
            return True
        ledger = self._ledger
        gang = quorum.alone(record, record.spec, ledger.policy, member)
        if ledger.share_usage.over_ceiling(gang) is not None:
            return True
        queue = ledger.pending.queue()
        strict = ledger.policy.backfill is Backfill.NONE
        out_of_turn = strict and bool(queue) and queue[0] is not record
        return out_of_turn or (
            record.verdict.decision is not None and record.verdict.decision.reason is Reason.CAPACITY_RESERVED
        )

    def _given(self, member: Member, offers: Offers) -> frozenset[str]:
        """The nodes that a gang of one would be given, were the victims gone that are named on each."""
        registry = self._ledger.registry
        record = registry.gangs[registry.gang_of[member.pod.uid]]
        if not isinstance(record.spec, Spec):
            return frozenset()
        gang = quorum.alone(record, record.spec, self._ledger.policy, member)
        picture = self._ledger.snapshot(but=record.members)
        leaving = [
            (np.array([picture.index[node]]), self._ledger.nodes.used_by(node, own.uids))
            for node, own in offers.items()
            if node in picture.index
        ]
        then, offered = picture.freed(*leaving), picture.named(offers)
        fits, _ = planner.rank(then, gang, self._ledger.policy, offered, self._masks)
        return frozenset(picture.names[row] for row in np.flatnonzero(fits))

    def _spares(self, uids: Iterable[Uid]) -> bool:
        """Every gang keeps its quorum without these pods, all of them are known, and none is off limits."""
        registry = self._ledger.registry
        lost: dict[GangKey, set[Uid]] = {}
        for uid in uids:
            pod = registry.pod(uid)
            if pod is None or pod.key.off_limits:
                return False
            key = registry.gang_of.get(uid)
            if key is not None and not gang_spec.is_gang_of_one(key):
                lost.setdefault(key, set()).add(uid)
        return all(quorum.survives(registry.gangs[key], gone) for key, gone in lost.items())
