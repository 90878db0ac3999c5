"""kube-scheduler's preempt verb: which pods it may delete for one.

Room for a gang is made by its plan, so of a preemptor that is a member of one no candidate is left. For any other pod
the victims of each candidate node are made the cheapest that take no gang below its quorum, and of the nodes only those
remain that we would give the pod then: kube-scheduler knows nothing of the room that we hold and of the nodes that we
bar, and would otherwise go on deleting pods in vain. A victim that is not known is a sign that our picture is late: its
node is left out. An empty list of victims, legal from 1.38 on, breaks nothing.
Never here: which victims are the cheapest (placement.victim_rewriting).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from scheduler.ledger import Ledger, attained_service, gang_spec, quorum
from scheduler.ledger.gang import GangRecord, Member, Spec
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Reason
from scheduler.model.preemption_units import Kind, Unit
from scheduler.model.queueing import Backfill
from scheduler.model.verbs import PreemptCall, Victims
from scheduler.model.workload import GangKey, Pod, Uid, gang_of_one
from scheduler.placement import planner, victim_rewriting
from scheduler.placement.feasibility import FeasibilityCache, free_for

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
        if ours and (member is None or self._keeps_off(call.uid, member)):
            return {}
        if member is None:
            return {node: own for node, own in call.candidates.items() if self._spares(own.uids)}
        rewritten = self._rewritten(member, call.candidates)
        given = self._given(member, rewritten)
        return {node: own for node, own in rewritten.items() if not own.uids or node in given}

    def _keeps_off(self, uid: Uid, member: Member) -> bool:
        record = self._ledger.registry.gangs[self._ledger.registry.gang_of[uid]]
        alone = gang_spec.is_gang_of_one(record.key)
        return not alone or member.tied is not None or member.pod.gated or self._in_vain(record, member)

    def _in_vain(self, record: GangRecord, member: Member) -> bool:
        """It would not get the room of those who left: it has a seat or waits for one, or for something else than
        room.
        """
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
            record.verdict.decision is not None and record.verdict.decision.reason is Reason.RESERVED
        )

    def _rewritten(self, member: Member, offers: Offers) -> Offers:
        """The cheapest victims of each node. Whose budgets they touch kube-scheduler has counted for its own choice."""
        picture = self._ledger.snapshot(but=(member.pod.uid,))
        free = free_for(picture, member.pod.priority)
        here = defaultdict[str, list[Unit]](list)
        for node, unit in self._standing(picture, offers, member.pod.priority):
            here[node].append(unit)
        nodes = {
            node: victim_rewriting.Here(free[picture.index[node]], tuple(here[node]))
            for node in offers
            if node in picture.index
        }
        chosen = victim_rewriting.cheapest(
            {node: own.uids for node, own in offers.items()},
            nodes,
            self._ledger.nodes.vector(member.pod.demand),
            self._spares,
        )
        return {node: replace(offers[node], uids=uids) for node, uids in chosen.items()}

    def _standing(self, picture: Snapshot, offers: Offers, below: int) -> Iterator[tuple[str, Unit]]:
        """Bound pods on these nodes of lower priority, each alone, by what it is to its gang.

        Where any member of a role may be spared, it is the one that kube-scheduler named.
        """
        registry, wanted = self._ledger.registry, offers.keys()
        named = frozenset(uid for own in offers.values() for uid in own.uids)
        cores: dict[GangKey, frozenset[Uid]] = {}
        for uid, node, _ in self._ledger.nodes.places():
            pod = registry.pod(uid) if node in wanted and node in picture.index else None
            if pod is None or pod.node is None or pod.deleting or pod.priority >= below:
                continue
            yield node, self._unit(picture, pod, self._kind(uid, named, cores))

    def _kind(self, uid: Uid, named: frozenset[Uid], cores: dict[GangKey, frozenset[Uid]]) -> Kind:
        key = self._ledger.registry.gang_of.get(uid)
        if key is None or gang_spec.is_gang_of_one(key):
            return Kind.POD
        if key not in cores:
            cores[key] = self._core(key, named)
        return Kind.GANG if uid in cores[key] else Kind.SURPLUS

    def _core(self, key: GangKey, named: frozenset[Uid]) -> frozenset[Uid]:
        record = self._ledger.registry.gangs[key]
        bound = [own for own in record.live() if own.bound]
        if not isinstance(record.spec, Spec):
            return frozenset(own.pod.uid for own in bound)
        kept, _ = quorum.core(record, record.spec, bound, named)
        return frozenset(own.pod.uid for own in kept)

    def _unit(self, picture: Snapshot, pod: Pod, kind: Kind) -> Unit:
        row = picture.index[pod.node or ""]
        uses = self._ledger.nodes.vector(pod.demand)[None, :]
        key = self._ledger.registry.gang_of.get(pod.uid, gang_of_one(pod.key.namespace, pod.uid))
        lost = 0.0 if kind is Kind.SURPLUS else attained_service.devices(pod.demand)
        return Unit(key, kind, (pod.uid,), np.array([row]), uses, pod.priority, lost)

    def _given(self, member: Member, offers: Offers) -> frozenset[str]:
        """The nodes that a gang of one would be given, were the victims gone that are named on each."""
        registry = self._ledger.registry
        record = registry.gangs[registry.gang_of[member.pod.uid]]
        if not isinstance(record.spec, Spec):
            return frozenset()
        gang = quorum.alone(record, record.spec, self._ledger.policy, member)
        picture = self._ledger.snapshot(but=record.members)
        free, mask = picture.free.copy(), np.zeros(len(picture.names), dtype=np.bool_)
        for node, own in offers.items():
            row = picture.index[node]
            mask[row] = True
            free[row] += self._ledger.nodes.used_by(node, own.uids)
        fits, _ = planner.rank(replace(picture, free=free), gang, self._ledger.policy, mask, self._masks)
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
