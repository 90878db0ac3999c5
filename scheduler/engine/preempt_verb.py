"""The preempt endpoint of the extender: which pods kube-scheduler may delete for another pod.

A gang's plan frees its capacity, so a preemptor that is a member of a gang keeps no candidate. Any other pod keeps the
candidates whose victims take no gang below its quorum, and that it could then use. kube-scheduler does not know about
held capacity and excluded nodes, and would otherwise keep deleting pods without effect. An unknown victim means that
the cache is stale, so its node is left out. An empty list of victims, allowed since 1.38, is handled.
Never here: victims that kube-scheduler does not propose. It also knows reasons other than capacity, such as host ports.
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
        """It would not get the freed capacity: its gang's plan frees its own, it has a seat or waits for one, or it waits
        for something other than capacity.
        """
        if not gang_spec.is_gang_of_one(record.key) or member.tied is not None or member.pod.gated:
            return True
        if member.hold is not None or not isinstance(record.spec, Spec):
            return True
        ledger = self._ledger
        gang = quorum.alone(
            record, record.spec, ledger.policy, member, ledger.neighbors.keys(record.key.namespace)
        )
        if ledger.share_usage.over_ceiling(gang) is not None:
            return True
        queue = ledger.pending.queue()
        strict = ledger.policy.backfill is Backfill.NONE
        out_of_turn = strict and bool(queue) and queue[0] is not record
        return out_of_turn or (
            record.verdict.decision is not None and record.verdict.decision.reason is Reason.CAPACITY_RESERVED
        )

    def _given(self, member: Member, offers: Offers) -> frozenset[str]:
        """The nodes that a gang of one could get if the proposed victims on each were deleted."""
        registry = self._ledger.registry
        record = registry.gangs[registry.gang_of[member.pod.uid]]
        if not isinstance(record.spec, Spec):
            return frozenset()
        keys = self._ledger.neighbors.keys(record.key.namespace)
        gang = quorum.alone(record, record.spec, self._ledger.policy, member, keys)
        neighbors = self._ledger.neighbors
        picture = neighbors.picture(self._ledger.snapshot(but=record.members), (gang,))
        leaving = []
        for node, own in offers.items():
            if node in picture.index and own.uids:
                uids = tuple(own.uids)
                uses = np.array([self._ledger.nodes.used_by(node, (uid,)) for uid in uids])
                rows = np.full(len(uids), picture.index[node])
                leaving.append((rows, neighbors.widened(picture, uids, uses)))
        then, offered = picture.freed(*leaving), picture.named(offers)
        fits, _ = planner.rank(then, gang, self._ledger.policy, offered, self._masks)
        return frozenset(picture.names[row] for row in np.flatnonzero(fits))

    def _spares(self, uids: Iterable[Uid]) -> bool:
        """Every gang keeps its quorum without these pods, all of them are known, and none is in an off-limits namespace."""
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
