"""What the engine keeps from pass to pass, compared with what it would find now: answers, and the ends of gangs."""

from collections.abc import Iterator

from scheduler.engine import Engine
from scheduler.engine.planning import Question, decide
from scheduler.engine.running_gangs import SEATED
from scheduler.ledger import observed_runs
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.model.decision import Wait
from scheduler.model.workload import Gang, Pod
from scheduler.placement import reservation


def untrue_answers(engine: Engine) -> list[tuple[Gang, Wait, object]]:
    """Each gang with the answer that is known for its shape, and the planner's, where they differ."""
    return [(gang, known, true) for gang, known, true in _answers(engine) if known != true]


def _answers(engine: Engine) -> Iterator[tuple[Gang, Wait, object]]:
    standing, snapshot = engine.cycle.standing.kept, engine.snapshot()
    if standing is None or not standing.follow(snapshot):
        return
    for number, known in standing.free(snapshot).items():
        gang = standing._shapes[number].gang
        if not engine.ledger.neighbors.concerns(gang):
            yield gang, known, decide(Question(gang, snapshot, {}, None, 0), engine.policy)
    fence, reserved = engine.cycle.head.fence()[0], engine.cycle.head.reserved
    if not fence or reserved is None:
        return
    left = reservation.beside(snapshot, reserved, None)
    for number, known in standing.behind(snapshot, left.free, reserved.key).items():
        gang = standing._shapes[number].gang
        question = Question(gang, left, {}, None, 0, kept=snapshot.free, held_for=reserved.key)
        if not engine.ledger.neighbors.concerns(gang):
            yield gang, known, decide(question, engine.policy)


def untrue_ends(engine: Engine, now: float) -> list[object]:
    """The ends of running gangs that are kept and those that follow from their pods, where they differ."""
    ledger, snapshot = engine.ledger, engine.snapshot()
    if ledger._dirty:
        return []  # what has happened to these gangs is not looked at yet
    kept = {stay.key: stay for stay in engine.cycle.candidates.stays(now)}
    true = {}
    for key, record in ledger.registry.gangs.items():
        pods = _seated(record) if record.state in SEATED else []
        found = [(snapshot.index.get(ledger.nodes.place(pod.uid) or ""), pod) for pod in pods]
        seats = [
            (row, pod.uid, ledger.nodes.vector(pod.demand).tolist()) for row, pod in found if row is not None
        ]
        if seats:
            since = now if record.observed.since is None else record.observed.since
            limit = observed_runs.limit(record)
            ends = observed_runs.expect(ledger, record).after(since)
            likely = observed_runs.expect(ledger, record, forecast=True).after(since)
            true[key] = (seats, ends, likely, since + limit if limit is not None else float("inf"))
    told = {
        key: (list(zip(s.rows.tolist(), s.uids, s.uses.tolist(), strict=True)), s.ends, s.likely, s.latest)
        for key, s in kept.items()
    }
    return [(key, told.get(key), true.get(key)) for key in {*told, *true} if told.get(key) != true.get(key)]


def _seated(record: GangRecord) -> list[Pod]:
    declares = isinstance(record.spec, Spec) and record.spec.wish.expected_runtime is not None
    limited = observed_runs.limit(record) is not None
    if not (declares or limited or observed_runs.kind(record) not in observed_runs.FOREVER):
        return []
    return [m.pod for m in record.live() if m.bound or (m.hold is not None and m.hold.until is None)]
