"""A ledger alone: facts are told to it, verdicts are handed to it, and what it wants is looked at.

There is no planner here and no cluster: who seats whom is written in the test.
"""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import settings

from scheduler.ledger import Ledger
from scheduler.ledger.gang import GangRecord, Member
from scheduler.ledger.node_table import NodeTable
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.decision import Decision, Place, Reason, Wait
from scheduler.model.effects import Announce, Effect, Evict, Nominate, SetCondition, Ungate, WritePlan
from scheduler.model.policy import Policy
from scheduler.model.workload import Gang, GangKey, OwnerTraits, Pending, Phase, PlanNote, Pod, SeatNote
from tests.engine.support.api import pin
from tests.support.builders import a_node

POLICY = Policy()

QUICK = settings(deadline=None, derandomize=True, database=None)
"""For properties: the same cases every time, on a slow machine too."""


def overdrawn(table: NodeTable) -> list[str]:
    """Names of nodes on which more is used than there is, in any resource."""
    picture = table.snapshot([])
    return [name for name, free in zip(picture.names, picture.free, strict=True) if (free < 0).any()]


class Desk:
    """A ledger that knows its nodes and acts, and a clock that stands still unless told otherwise."""

    def __init__(self, *nodes: Node, policy: Policy = POLICY, acting: bool = True) -> None:
        self.now = 0.0
        self.ledger = Ledger(policy)
        self.pods: dict[str, Pod] = {}
        start: list[ev.Event] = [
            ev.NodeSeen(node) for node in nodes or (a_node("n1", gpu=8), a_node("n2", gpu=8))
        ]
        self.ledger.handle([*start, *([ev.Synced(), ev.TookOver()] if acting else [])], self.now)

    # ── telling ─────────────────────────────────────────────────────────────────────────────────────────

    def tell(self, *events: ev.Event) -> list[Effect]:
        return self.ledger.handle(events, self.now)

    def see(self, *pods: Pod) -> list[Effect]:
        """The watch tells of these pods as they are now."""
        self.pods.update({pod.key.name: pod for pod in pods})
        return self.tell(*(ev.PodSeen(pod) for pod in pods))

    def change(self, name: str, **changes: object) -> list[Effect]:
        """The watch tells of one pod that has changed."""
        return self.see(replace(self.pods[name], **changes))

    def lose(self, *names: str) -> list[Effect]:
        """The watch tells that these pods are gone."""
        return self.tell(*(ev.PodGone(self.pods[name].uid, self.pods[name].key) for name in names))

    def own(self, pod: Pod, *, freely: bool = True) -> list[Effect]:
        """The watch tells of the pod's owner."""
        assert pod.owner is not None
        return self.tell(ev.OwnerSeen(OwnerTraits(pod.owner.uid, remakes_freely=freely)))

    def wait(self, seconds: float) -> list[Effect]:
        """Time goes by; the ledger is woken when it asked to be."""
        effects: list[Effect] = []
        end = self.now + seconds
        while (due := self.ledger.next_deadline()) <= end:
            self.now = max(self.now, due)
            effects += self.tell(ev.Tick())
            assert self.ledger.next_deadline() > due, "a deadline that does not pass"
        self.now = end
        return effects

    def done(self, *effects: Effect) -> list[Effect]:
        return self.tell(*(ev.EffectDone(effect) for effect in effects))

    def failed(self, effect: Effect, kind: ev.FailureKind, message: str = "") -> list[Effect]:
        return self.tell(ev.EffectFailed(effect, kind, message))

    def decide(self, gang: str, decision: Decision) -> list[Effect]:
        wanted = self.record(gang).wanted
        assert wanted is not None, f"{gang} wants nothing"
        return self.tell(
            ev.Decided(wanted, decision, self.ledger.nodes.generation, self.ledger.nodes.room_version)
        )

    def place(self, gang: str, **seats: str) -> list[Effect]:
        """The planner's verdict: these pods go to these nodes. Names of pods are written with _ for -."""
        named = {self.pods[name.replace("_", "-")].uid: node for name, node in seats.items()}
        return self.decide(gang, Place(named))

    def refuse(self, gang: str, reason: Reason = Reason.INSUFFICIENT_RESOURCES) -> list[Effect]:
        return self.decide(gang, Wait(reason))

    def bring_on_its_way(self, gang: str, **seats: str) -> None:
        """The gang is placed, and all effects come true."""
        effects = self.place(gang, **seats)
        while effects := told(effects, WritePlan, Nominate, Ungate):
            self.carry_out(*effects)
            effects = self.done(*effects)

    def carry_out(self, *effects: Effect) -> list[Effect]:
        """What the effects make of the pods is seen."""
        said: list[Effect] = []
        for effect in effects:
            name = effect.key.name
            pod = self.pods[name]
            match effect:
                case WritePlan():
                    note = PlanNote(effect.plan, effect.seats, effect.victims) if effect.seats else None
                    said += self.change(name, plan=note)
                case Nominate():
                    said += self.change(name, nominated=effect.node or None)
                case Ungate():
                    seated = replace(pod, gated=False, seat=SeatNote(effect.node, effect.plan, effect.pin))
                    said += self.see(pin(seated, effect.node) if effect.pin else seated)
                case _:
                    pass
        return said

    def bind(self, *names: str) -> list[Effect]:
        """The watch tells that these pods were bound to their seats, and run."""
        effects: list[Effect] = []
        for name in names:
            node = self.member(name).hold
            assert node is not None, f"{name} has no seat"
            effects += self.change(
                name, node=node.node, gated=False, nominated=None, pending=None, phase=Phase.RUNNING
            )
        return effects

    def fail_to_bind(self, *names: str) -> list[Effect]:
        """kube-scheduler says that it cannot bind these pods."""
        effects: list[Effect] = []
        for name in names:
            effects += self.change(name, pending=Pending("Unschedulable", self.now), nominated=None)
        return effects

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────

    def record(self, gang: str, namespace: str = "default") -> GangRecord:
        return self.ledger.registry.gangs[GangKey(namespace, gang)]

    def member(self, name: str) -> Member:
        member = self.ledger.registry.member(self.pods[name].uid)
        assert member is not None, f"{name} is not known"
        return member

    def seat(self, name: str) -> str | None:
        hold = self.member(name).hold
        return hold.node if hold else None

    def wanted(self, gang: str) -> Gang | None:
        return self.record(gang).wanted


def told(effects: Iterable[Effect], *kinds: type) -> list[Effect]:
    """The effects of these kinds; announcements are left out when no kind is named."""
    return [
        e for e in effects if (isinstance(e, kinds) if kinds else not isinstance(e, Announce | SetCondition))
    ]


def names(effects: Iterable[Effect], kind: type = Evict) -> list[str]:
    """Names of the pods that effects of one kind are about."""
    return [effect.key.name for effect in effects if isinstance(effect, kind)]
