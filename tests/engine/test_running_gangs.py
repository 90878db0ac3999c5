"""Ends of running gangs: what is read again after an event, and that no trace of ended gangs is left."""

from dataclasses import replace

import pytest

from scheduler.engine import Engine
from scheduler.engine.running_gangs import RunningGangs
from scheduler.model import events as ev
from scheduler.model.policy import Policy
from scheduler.model.workload import Phase, Pod
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.untrue import untrue_ends
from tests.support.builders import a_node

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
    own.cycle.candidates.stays(own.snapshot(), NOW)
    return own


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The gangs that are read, by name."""
    found: list[str] = []
    before = RunningGangs._read

    def counted(self, key, record, snapshot):
        found.append(key.name)
        before(self, key, record, snapshot)

    monkeypatch.setattr(RunningGangs, "_read", counted)
    return found


def ends(engine: Engine, now: float = NOW) -> dict[str, float]:
    return {stay.key.name: stay.ends.middle for stay in engine.cycle.candidates.stays(engine.snapshot(), now)}


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


def test_another_node_is_another_row(engine, read):
    """All are read again when rows are others."""
    engine.observe([ev.NodeSeen(a_node("a-first", gpu=8))], NOW)
    assert len(ends(engine)) == 6
    assert sorted(read) == [f"g{number}" for number in range(6)]
    assert untrue_ends(engine, NOW) == []


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
    assert len(own._stays) <= 8
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
