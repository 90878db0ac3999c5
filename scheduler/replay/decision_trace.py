"""The live code, deciding on a document: where every gang stands, and what the planner answers each that waits.

Lives here: a run of the same Engine that serves kube-scheduler, over the facts of a document, with every effect
thrown away. Never here: a rule of its own. The trace holds question and answer in the model's words.
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
"""What the planner answers when a gang asks for seats. Asked for room, it names victims or a time."""

SHOWN: Final = 64
"""Numbers of an array that a trace holds; a larger one is told by its shape and a digest."""


class Step(msgspec.Struct, frozen=True):
    """One question and its answer.

    place: the gang's place in the queue when the pass began, from 1; 0: it was not in it.  nodes: how many there were.
    answer: the name of the decision's type, in small letters.
    """

    place: int
    gang: Gang
    nodes: int
    answer: str
    decision: Any


@dataclass(frozen=True, slots=True)
class DecisionTrace:
    """A document, judged: all gangs that wait was asked about, and who could be seated is."""

    engine: Engine
    steps: tuple[Step, ...]
    _seats: dict[GangKey, Seat] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        own = ((step.gang.key, step.decision) for step in self.steps)
        self._seats.update((key, decision) for key, decision in own if isinstance(decision, Seat))

    def decision(self, key: GangKey) -> Seat | None:
        """The last answer to this gang when it asked for seats; None: it did not."""
        return self._seats.get(key)

    def seats(self, key: GangKey) -> Place | None:
        """The seats that the gang would be given at once."""
        found = self.decision(key)
        return found if isinstance(found, Place) else None

    def room(self, key: GangKey) -> Preempt | None:
        """Who would have to leave, and where the gang would sit then."""
        found = (step.decision for step in reversed(self.steps) if step.gang.key == key)
        return next((own for own in found if isinstance(own, Preempt)), None)

    def trace(self) -> bytes:
        """All steps as JSON, one a line; equal judgements are equal bytes."""
        lines = (msgspec.json.encode(step, order="deterministic", enc_hook=_plain) for step in self.steps)
        return b"".join(line + b"\n" for line in lines)


def stand(document: Document, more: Iterable[ev.Event] = ()) -> Engine:
    """The cluster as it is: taken over by an engine that has read all of it and decided nothing yet.

    more: facts that are not so, such as the pods of a gang that a person thinks of submitting.
    """
    engine, now = Engine(document.policy), document.taken
    engine.observe([*document.events(), *more, ev.Synced(), ev.TookOver()], now)
    engine.observe(_asked(engine), now)
    for record in engine.ledger.registry.gangs.values():
        # Its quorum is there since the last of its pods came, not since we look.
        if record.waiting_since is not None:
            record.waiting_since = min(now, max((m.pod.created for m in record.live()), default=now))
    return engine


def judge(document: Document, more: Iterable[ev.Event] = ()) -> DecisionTrace:
    """Ask about all gangs that wait, in the order of the queue, in a copy that nothing acts upon."""
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
    """Pods without our gate that have no seat: kube-scheduler asks about them, and offers every node."""
    ledger = engine.ledger
    every = np.ones(len(engine.snapshot().names), dtype=np.bool_)
    return [
        ev.Asked(uid, every, ledger.nodes.version)
        for record in list(ledger.registry.gangs.values())
        for uid, member in record.members.items()
        if _is_tried(member)
    ]


def _is_tried(member: Member) -> bool:
    """kube-scheduler tries this pod now, and asks us."""
    pod = member.pod
    kept = pod.gated or pod.held_back
    return member.live and pod.node is None and not kept and member.hold is None and member.tied is None


def _plain(value: object) -> object:
    """An array as JSON: its numbers, or what tells it from others."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    if value.size <= SHOWN:
        return value.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return {"shape": list(value.shape), "sha256": digest}
