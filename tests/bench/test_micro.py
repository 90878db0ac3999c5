"""The pure parts of the micro bench: what is planned for, what is read, and what is made of times."""

import json
from contextlib import nullcontext

import pytest

from bench.micro import asking, canned, ended_pod, filtering, loading, plan, relabeling, sizing, world
from bench.micro.children import child
from scheduler.engine.preemption_candidates import BLOCKED
from scheduler.model.decision import Place, Reason
from scheduler.model.workload import Strategy
from scheduler.placement import planner


def test_p99_is_what_99_of_100_do_not_exceed():
    """Of 1,000 figures ten are above it; of very few it is the largest."""
    assert asking.p99([float(n) for n in range(1000, 0, -1)]) == 990.0
    assert asking.p99([3.0, 1.0, 2.0]) == 3.0


def test_p99_counts_the_worst_try_too():
    """One try of five that was slow from end to end is a fifth of all calls, so it makes the figure."""
    quick, slow = [1.0] * 100, [9.0] * 100

    assert filtering.p99_of_all([quick, quick, slow, quick, quick]) == 9.0
    assert filtering.p99_of_all([quick, [*quick[1:], 9.0], quick]) == 1.0


def test_calls_that_warm_up_are_left_out(monkeypatch):
    """The first calls to a service that has just started are in no figure; every call of every try is."""
    told = iter([[99.0], [1.0], [2.0], [5.0], [4.0], [3.0]])
    service = {"pod": {}, "node": "a", "url": "http://nowhere"}
    monkeypatch.setattr(filtering, "child", lambda *_: nullcontext(service))
    monkeypatch.setattr(asking, "times", lambda *_, **__: next(told))

    assert filtering.busy_p99() == 5.0
    assert next(told, None) is None


def test_bare_server_is_asked_in_turns(monkeypatch):
    """Each try of ours is followed by one of the server that looks at nothing; each has a p99 of its own calls."""
    asked = []

    def times(url, *_, **__):
        asked.append(url)
        return [2.0 if url == "extender" else 1.0]

    monkeypatch.setattr(
        filtering, "child", lambda module, *_: nullcontext({"pod": {}, "node": "a", "url": module[12:]})
    )
    monkeypatch.setattr(asking, "times", times)

    assert filtering.held_p99() == (2.0, 1.0)
    assert asked == ["extender", "bare"] * (1 + filtering.TRIES)


def test_bare_server_answers_what_it_was_asked():
    """The floor is a real server behind a real connection, which gives the node back."""
    with child("bench.micro.bare") as server:
        assert len(asking.times(server["url"], asking.body({}, ["n1"]), count=3)) == 3


def test_cluster_is_half_full():
    """On average half of the devices are used, some nodes being empty and some full."""
    picture = world.half_full(900)
    column = picture.axis.index["nvidia.com/gpu"]
    free = picture.free[:, column]

    assert free.sum() / picture.capacity[:, column].sum() == pytest.approx(0.5, abs=0.01)
    assert {free.min(), free.max()} == {0.0, float(world.GPUS)}


@pytest.mark.parametrize("strategy", Strategy)
def test_preferred_cases_are_placed(strategy):
    """What is measured is a placement, not a quick refusal; nobody is sent to a tainted or a foreign node."""
    picture = world.half_full(400)
    gang = world.gang(64, strategy, "rack", required=False)
    decision = planner.decide(picture, gang, world.POLICY)

    assert isinstance(decision, Place)
    assert len(decision.seats) == 64
    assert not {int(node[1:]) % 10 for node in decision.seats.values()} & {3, 7}


def test_pod_ends_in_a_full_cluster_and_every_shape_waits():
    """What is measured is a pass that seats no gang, over as many shapes as gangs, each of which waits for capacity."""
    engine = ended_pod.full(40, 30)
    free = engine.snapshot().free[:, engine.snapshot().axis.index["nvidia.com/gpu"]]
    waiting = [record for record in engine.ledger.registry.gangs.values() if record.wanted is not None]

    assert free.sum() == 0
    assert len({record.wanted.shape for record in waiting}) == len(waiting) == 30
    assert {record.verdict.decision.reason for record in waiting} <= BLOCKED
    assert ended_pod.best(40, 30, tries=1) > 0


def test_sizes_are_decided_of_jobs_that_grow():
    """What is measured is a division of free seats, not a quick refusal."""
    assert sizing.decision(4, 12, tries=1) > 0
    with pytest.raises(RuntimeError, match="grow"):
        sizing.decision(80, 2, tries=1)


def test_all_gangs_wait_while_nodes_are_relabeled():
    """What is measured is a pass over gangs that all wait for room, each with a shape of its own, not one without any."""
    engine, table = relabeling.crowd(40, 8)
    assert min(relabeling.once(engine, table, 0)) > 0
    waiting = engine.ledger.pending.queue()

    assert len(waiting) == 8
    assert {record.verdict.decision.reason for record in waiting} == {Reason.INSUFFICIENT_RESOURCES}
    assert len({record.verdict.shape for record in waiting}) == 8


def test_every_pod_is_known_when_it_is_loaded():
    """What is measured is a whole load; it raises when a gang is missing."""
    assert loading.single(100, tries=1) > 0
    assert loading.gangs(100, tries=1) > 0


@pytest.mark.extended
def test_worst_case_is_named():
    """The slowest of all cases is told together with its time."""
    took, case = plan.worst(16, 60, tries=1)
    strategy, level, kind = case.split()

    assert took > 0
    assert strategy in set(Strategy)
    assert level in world.LEVELS
    assert kind in {"required", "preferred"}


@pytest.mark.extended
def test_pages_hold_every_object_once():
    """Following the continue token from page to page gives every node, once, and then ends."""
    names, token = [], "0"
    while token is not None:
        page = json.loads(canned.page("/api/v1/nodes", int(token), 1500))
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")

    assert len(names) == len(set(names)) == canned.NODES


def test_unknown_collections_are_empty():
    """A kind that the cluster does not have is listed as nothing."""
    assert json.loads(canned.page("/apis/batch/v1/jobs", 0, 500))["items"] == []


def test_steps_of_the_event_loop_are_timed_by_kind():
    """The whole life of a service in small: every list, the takeover, a call meanwhile, and single events."""
    with child("bench.micro.steps", "40") as found:
        assert set(found) >= {
            *("page_of_nodes", "page_of_pods", "synced", "takeover", "filter_in_takeover", "first_pass"),
            *("node_added", "node_changed", "node_deleted", "pod_ended", "settings_changed", "forecast"),
        }
    assert all(figure > 0 for figure in found.values())
