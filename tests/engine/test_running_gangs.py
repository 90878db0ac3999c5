"""Ends of running gangs: what is read again after an event, and that no trace of ended gangs is left."""

from dataclasses import replace

import pytest

from scheduler.engine import Engine
from scheduler.engine.running_gangs import RunningGangs
from scheduler.ledger import observed_runs
from scheduler.model import events as ev
from scheduler.model.policy import Policy
from scheduler.model.workload import Phase, Pod
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.untrue import untrue_ends
from tests.support.builders import a_node, keys_of

NOW = 100.0
NODES = [a_node(f"n{number}", gpu=8) for number in range(4)]


def gang(number: int, namespace: str = "red", **more) -> list[Pod]:
    pods = a_gang_of_pods(f"g{number}", 2, gpu=1, namespace=namespace, **more)
    return [
        replace(pod, gated=False, node=f"n{number % 4}", phase=Phase.RUNNING, bound_at=50.0 + number)
        for pod in pods
    ]


@pytest.fixture
def engine() -> Engine:
    own = Engine(Policy())
    pods = [pod for number in range(6) for pod in gang(number, ["red", "blue"][number % 2])]
    own.observe([*map(ev.NodeSeen, NODES), *map(ev.PodSeen, pods), ev.Synced(), ev.TookOver()], NOW)
    own.cycle.candidates.stays(NOW)
    return own


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The gangs that are read, by name."""
    found: list[str] = []
    before = RunningGangs._read

    def counted(self, key, record):
        found.append(key.name)
        before(self, key, record)

    monkeypatch.setattr(RunningGangs, "_read", counted)
    return found


def ends(engine: Engine, now: float = NOW) -> dict[str, float]:
    return {stay.key.name: stay.ends.middle for stay in engine.cycle.candidates.stays(now)}


def test_only_what_was_reconciled_is_read_again(engine, read):
    """A pod ends, a node gets a label: one gang is read, and then none."""
    first, _ = gang(2)
    engine.observe([ev.PodSeen(replace(first, phase=Phase.SUCCEEDED))], NOW)
    ends(engine)
    assert read == ["g2"]

    read.clear()
    engine.observe([ev.NodeSeen(replace(NODES[0], labels={**NODES[0].labels, "pool": "x"}))], NOW)
    assert len(ends(engine)) == 6
    assert read == []
    assert untrue_ends(engine, NOW) == []


def test_another_node_is_another_row_of_what_is_kept(engine, read):
    """Nodes come and go: rows are others, and none but the gangs on a deleted node is read again."""
    engine.observe([ev.NodeSeen(a_node("a-first", gpu=8))], NOW)
    assert len(ends(engine)) == 6
    assert read == []
    assert untrue_ends(engine, NOW) == []

    engine.observe([ev.NodeGone("n1")], NOW)
    assert sorted(ends(engine)) == ["g0", "g2", "g3", "g4"]
    assert sorted(read) == ["g1", "g5"]
    engine.observe([ev.NodeGone("a-first"), ev.NodeSeen(NODES[1])], NOW)
    assert len(ends(engine)) == 6
    assert sorted(read) == ["g1", "g1", "g5", "g5"]
    assert untrue_ends(engine, NOW) == []


def test_pods_of_a_deleted_node_have_no_row_before_their_gang_is_reconciled(engine):
    """The node is deleted, and nothing followed from it yet: its pods are left out, and those of other nodes stay."""
    engine.ledger.take([ev.NodeGone("n1")], NOW)
    found = {s.key.name: s for s in engine.cycle.candidates.stays(NOW)}
    assert sorted(found) == ["g0", "g2", "g3", "g4"]
    assert [engine.snapshot().names[row] for row in found["g2"].rows] == ["n2", "n2"]


def test_another_resource_is_another_column(engine, read):
    """Resources come and go: uses have other columns, and none but the gangs on a deleted node is read again."""
    engine.observe([ev.NodeSeen(a_node("n1", gpu=8, more={"example.com/thing": 1}))], NOW)
    assert len(ends(engine)) == 6
    assert untrue_ends(engine, NOW) == []
    engine.observe([ev.NodeSeen(NODES[1])], NOW)
    assert len(ends(engine)) == 6
    assert untrue_ends(engine, NOW) == []
    assert read == []


def test_places_of_ended_gangs_are_forgotten_with_the_numbers_of_nodes(engine):
    """All gangs end, and the nodes are numbered from 0 again. New gangs behind pods that leave have their own nodes."""
    engine.observe(
        [
            ev.PodGone(m.pod.uid, m.pod.key)
            for g in engine.ledger.registry.gangs.values()
            for m in g.members.values()
        ],
        NOW,
    )
    assert ends(engine) == {}
    engine.observe([ev.NodeGone(name) for name in engine.snapshot().names[1:]], NOW)
    engine.observe([ev.NodeSeen(a_node("n0", gpu=8, more={"example.com/thing": 1}))], NOW)
    engine.observe([*map(ev.PodSeen, gang(0))], NOW)
    leaving = engine.cycle.candidates.stays(NOW)

    found = engine.cycle.candidates.running(engine.snapshot(), NOW).behind(leaving)

    assert [found.uses(at)[0].tolist() for at in range(2)] == [[0, 0], [0, 0]]


def test_an_error_while_ends_are_read_loses_no_effect(engine, faults, monkeypatch):
    """The effects of other gangs are carried out, the error is told, and all is read the next time."""
    effects = ["an effect"]
    engine.ledger.registry.note_change(gang(0)[0].membership.gang)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(engine.ledger, "settle", lambda *_: effects)
        meanwhile.setattr(observed_runs, "terms", lambda *_: 1 / 0)
        assert engine.review(NOW, 256) is effects
    assert [type(fault.error) for fault in faults] == [ZeroDivisionError]
    faults.clear()

    assert len(ends(engine)) == 6
    assert untrue_ends(engine, NOW) == []


def test_running_gangs_of_a_pass_keep_their_rows(engine):
    """A planner on another thread reads what it was given, whatever happens to the nodes meanwhile."""
    given = engine.cycle.candidates.running(engine.snapshot(), NOW)
    rows = {key.name: given.uses(at)[0].tolist() for at, key in enumerate(keys_of(given)) if key.name != "g3"}
    engine.observe([ev.NodeSeen(a_node("a-first", gpu=8)), *map(ev.PodSeen, gang(9))], NOW)
    later = engine.cycle.candidates.running(engine.snapshot(), NOW)

    assert {key.name: given.uses(at)[0].tolist() for at, key in enumerate(keys_of(given))} == {
        **rows,
        "g3": [3, 3],
    }
    assert {key.name: later.uses(at)[0].tolist() for at, key in enumerate(keys_of(later))} == {
        **{name: [row + 1 for row in own] for name, own in rows.items()},
        "g3": [4, 4],
        "g9": [2, 2],
    }


def test_what_a_gang_teaches_changes_the_ends_of_its_namespace(engine):
    """One of red took half a minute, so the others of red are expected to end sooner, and those of blue as before."""
    before = ends(engine)
    engine.observe([ev.PodSeen(replace(pod, phase=Phase.SUCCEEDED)) for pod in gang(0)], NOW)
    after = ends(engine)

    assert "g0" not in after
    assert {name for name in after if after[name] != before[name]} == {"g2", "g4"}
    assert untrue_ends(engine, NOW) == []


def test_places_of_ended_gangs_are_used_again(engine):
    """However many gangs of however many kinds come and go, no more is kept than for those that run."""
    for number in range(10, 400):
        pods = gang(number, f"of-{number}", wish={"runtime": 1000.0 + number})
        engine.observe(map(ev.PodSeen, pods), NOW)
        assert f"g{number}" in ends(engine)
        engine.observe([ev.PodGone(pod.uid, pod.key) for pod in pods], NOW)
    own = engine.cycle.candidates._running

    assert len(ends(engine)) == 6
    assert len(own._gangs) <= 8
    assert len(own._kinds) <= 2 * len(own._place) + 64
    assert untrue_ends(engine, NOW) == []


def test_what_nobody_reads_is_bounded(engine, read):
    """Thousands of gangs come and go without a pass: then all are read once, and nothing is missed."""
    for number in range(10, 200):
        pods = gang(number)
        engine.observe(map(ev.PodSeen, pods), NOW)
        engine.observe([ev.PodGone(pod.uid, pod.key) for pod in pods], NOW)

    assert engine.ledger.registry._changed is None
    assert sorted(ends(engine)) == sorted(set(read)) == [f"g{number}" for number in range(6)]
