"""The live code's decisions on a document: the state of every gang, and the planner's answer for each waiting gang.

Lives here: a run of the same Engine that serves kube-scheduler, over the facts of a document. All effects are discarded.
Never here: rules of its own. The trace holds questions and answers as values of the model.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from scheduler.engine import Engine
from scheduler.ledger.gang import Member
from scheduler.model import events as ev
from scheduler.model.decision import Place, Refuse, Wait
from scheduler.model.preemption_units import Preempt
from scheduler.model.workload import Gang, GangKey
from scheduler.replay.snapshot import Document

Seat: TypeAlias = Place | Wait | Refuse
"""The planner's answer to a question about seats. For a question about room it is victims or a time."""

SHOWN: Final = 64
"""The largest array in a trace. A larger one is replaced by its shape and a digest."""


class Step(msgspec.Struct, frozen=True):
    """One question and its answer.

    place: the gang's place in the queue at the start of the pass, from 1; 0: not in the queue.  nodes: their number.
    answer: the name of the decision's type, in lowercase.
    """

    place: int
    gang: Gang
    nodes: int
    answer: str
    decision: Any


@dataclass(frozen=True, slots=True)
class DecisionTrace:
    """A replayed document: all waiting gangs have been planned, and those that fit are seated."""

    engine: Engine
    steps: tuple[Step, ...]
    _seats: dict[GangKey, Seat] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        own = ((step.gang.key, step.decision) for step in self.steps)
        self._seats.update((key, decision) for key, decision in own if isinstance(decision, Seat))

    def decision(self, key: GangKey) -> Seat | None:
        """The last answer to a question about seats for this gang. None: no such question was asked."""
        return self._seats.get(key)

    def seats(self, key: GangKey) -> Place | None:
        """The seats that the gang would get immediately."""
        found = self.decision(key)
        return found if isinstance(found, Place) else None

    def room(self, key: GangKey) -> Preempt | None:
        """The pods to preempt, and the seats of the gang after that."""
        found = (step.decision for step in reversed(self.steps) if step.gang.key == key)
        return next((own for own in found if isinstance(own, Preempt)), None)

    def trace(self) -> bytes:
        """All steps as JSON, one per line. Equal results are equal bytes."""
        lines = (msgspec.json.encode(step, order="deterministic", enc_hook=_plain) for step in self.steps)
        return b"".join(line + b"\n" for line in lines)


def stand(document: Document, more: Iterable[ev.Event] = ()) -> Engine:
    """An engine that has read and taken over the whole cluster, and has decided nothing yet.

    more: hypothetical facts, such as the pods of a gang that is not submitted yet.
    """
    engine, now = Engine(document.policy), document.taken
    engine.observe([*document.events(), *more, ev.Synced(), ev.TookOver()], now)
    engine.observe(_asked(engine), now)
    for record in engine.ledger.registry.gangs.values():
        # The quorum exists since the last of its pods was created, not since the replay began.
        if record.waiting_since is not None:
            record.waiting_since = min(now, max((m.pod.created for m in record.live()), default=now))
    return engine


def judge(document: Document, more: Iterable[ev.Event] = ()) -> DecisionTrace:
    """Plan all waiting gangs, in the order of the queue, without any effect on the cluster."""
    engine = stand(document, more)
    return DecisionTrace(engine, tuple(_ask(engine, document.taken)))


def _ask(engine: Engine, now: float) -> Iterator[Step]:
    places = {record.key: number for number, record in enumerate(engine.ledger.pending.queue(), start=1)}
    for question in engine.questions(now):
        decision = engine.answer(question)
        engine.settle(question, decision, now)
        key, nodes = question.gang.key, len(question.snapshot.names)
        yield Step(places.get(key, 0), question.gang, nodes, type(decision).__name__.lower(), decision)


def _asked(engine: Engine) -> list[ev.Event]:
    """Events for ungated pods without a seat, as if kube-scheduler asked about them and offered every node."""
    ledger = engine.ledger
    every = np.ones(len(engine.snapshot().names), dtype=np.bool_)
    return [
        ev.Asked(uid, every, ledger.nodes.version)
        for record in list(ledger.registry.gangs.values())
        for uid, member in record.members.items()
        if _is_tried(member)
    ]


def _is_tried(member: Member) -> bool:
    """kube-scheduler tries this pod now, and calls the extender."""
    pod = member.pod
    kept = pod.gated or pod.held_back
    return member.live and pod.node is None and not kept and member.hold is None and member.tied is None


def _plain(value: object) -> object:
    """An array as JSON: its numbers, or its shape and digest."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    if value.size <= SHOWN:
        return value.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return {"shape": list(value.shape), "sha256": digest}
