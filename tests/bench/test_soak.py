"""The soak's own report, and in short what it is for: nothing of the engine grows with gangs that are gone."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from functools import lru_cache, partial

import pytest

from bench.load import cluster
from bench.load.work import GPU
from bench.plane.audit import Request
from bench.soak import census, churn, engine, memory, mix, plane
from scheduler.engine.preemption_candidates import SPARE
from tests.ledger.support.invariants import broken


@dataclass
class Keeps:
    """Something that remembers in every way there is."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    line: deque[int] = field(default_factory=deque)


class Slotted:
    __slots__ = ("own",)

    def __init__(self) -> None:
        self.own: set[int] = set()


def test_every_container_is_counted_by_its_path():
    """Attributes, slots, closures and generators are walked; entries of one container share its path."""
    keeps, slotted = Keeps({"a": [1, 2], "b": [3]}, deque([1])), Slotted()
    slotted.own.add(1)

    def told():
        kept = [1, 2, 3]
        yield len(kept)
        yield kept

    running = told()
    next(running)
    found = census.of(keeps=keeps, slotted=slotted, done=partial(print, keeps.line, [1, 2]), running=running)

    assert found["keeps.rows"] == 2
    assert found["keeps.rows[]"] == 3
    assert found["keeps.line"] == 1
    assert found["slotted.own"] == 1
    assert [size for path, size in found.items() if path.startswith("done") and size == 2]
    assert 3 in {size for path, size in found.items() if path.startswith("running")}


def test_what_leads_back_is_counted_once():
    """A graph with circles ends."""
    ring: dict[str, object] = {}
    ring["self"] = [ring]
    assert census.of(ring=ring)["ring[]"] == 1


def test_a_leak_is_named_and_a_bounded_memory_is_not():
    """What grows is told with both lengths; below a bounded path nothing is a leak, and a namesake is none of it."""
    before = {
        "engine.ledger.owners": 1,
        "engine.ledger.registry._scars": 1,
        "engine.ledger.preemption_cyclesbook": 0,
    }
    now = {
        "engine.ledger.owners": 9,
        "engine.ledger.registry._scars": 99,
        "engine.ledger.registry._scars[].barred": 5,
        "engine.ledger.preemption_cyclesbook": 7,
    }
    assert list(map(str, census.grown(before, now))) == [
        "engine.ledger.owners: 1 -> 9",
        "engine.ledger.preemption_cyclesbook: 0 -> 7",
    ]
    assert census.grown(before, now, slack=8) == []
    assert census.kept(now)["engine.ledger.registry._scars"] == "99 of 4096"


def test_caches_of_functions_are_counted():
    """Their current size is what they keep."""

    @lru_cache(maxsize=8)
    def asked(number: int) -> int:
        return number

    asked(1), asked(2)
    assert census.of(asked=asked)["asked"] == 2


def test_bounded_paths_lead_somewhere():
    """A path that was renamed would let its growth go unnoticed, or be told as a leak."""
    told = churn.Cluster(1).engine
    for path in census.BOUNDED:
        thing: object = told
        for word in path.split(".")[1:]:
            thing = getattr(thing, word)
        assert thing is not None or isinstance(thing, OrderedDict)


def test_the_warm_up_fills_what_would_fill_late():
    """What is kept by namespace, and of broken pins, is full before the first gang; no more is kept than its bound."""
    told = churn.Cluster(1)
    told.fill()
    kept = census.kept(engine.remembered(told))
    assert kept["engine.ledger.runtimes"] == "4096 of 4096"
    assert kept["engine.ledger.registry._scars"] == "4096 of 4096"


def test_growth_is_that_after_the_warm_up():
    """What was filled before counts as there."""
    assert memory.growth(memory.TENTHS, [10, 100, 100, 100, 100, 100, 100, 100, 100, 104]) == 4.0
    assert min(memory.of().values()) > 1


def test_the_mix_has_every_fate_and_is_told_again():
    """The number and the seed decide; names come again, and so do namespaces that none had before."""
    told = [mix.draft(number, 1) for number in range(400)]
    assert told == [mix.draft(number, 1) for number in range(400)]
    assert {one.fate for one in told} == set(mix.Fate)
    assert {one.size for one in told} >= {1, 2, 4, 8, 16}
    assert len({(one.namespace, one.name) for one in told}) < 400
    assert sum(mix.SHARES.values()) == 100


def test_what_never_fits_asks_for_more_than_a_node_has():
    """And of a gang that is taken back only half is made."""
    never = next(one for one in (mix.draft(n, 1) for n in range(400)) if one.fate is mix.Fate.NEVER)
    half = next(one for one in (mix.draft(n, 1) for n in range(400)) if one.fate is mix.Fate.HALF)
    (room,) = {pod["spec"]["containers"][0]["resources"]["limits"][GPU] for pod in plane.bodies(never, "uid")}
    assert int(room) > cluster.GPUS
    assert len(plane.bodies(half, "uid")) == half.size // 2


def a_request(verb: str, resource: str, code: int) -> Request:
    return Request("us", "", verb, resource, "default", "x", "/", code)


def test_what_was_written_is_told_by_call_and_by_gang():
    """Calls about events, objects of ours and of others, and conditions that were refused."""
    requests = [
        a_request("patch", "events.events.k8s.io", 201),
        a_request("patch", "events.events.k8s.io", 200),
        a_request("patch", "pods/status", 404),
        a_request("patch", "pods/status", 200),
    ]
    events = [{"reportingController": plane.REPORTER}, {"reportingController": "default-scheduler"}]
    assert plane.written(requests, events, 2) == {
        "objects": 1,
        "others": 1,
        "calls": {"patch 200": 1, "patch 201": 1},
        "a_gang": 1.0,
        "refused_conditions": {"patch 404": 1},
    }


def test_effects_that_failed_are_told_by_kind():
    """Those that came true are none of them, nor is a kind that did not occur."""
    samples = [
        ({"effect": "Announce", "result": "done"}, 5.0),
        ({"effect": "Announce", "result": "not-found"}, 2.0),
        ({"effect": "Nominate", "result": "invalid"}, 0.0),
    ]
    assert plane.failed(samples) == {"Announce/not-found": 2}


def grown_in_a_round(gangs: int, slack: int) -> list[str]:
    """What is longer after the second and the third round of gangs than after the round before."""
    told = churn.Cluster(7)
    counts = []
    for number in range(1, 4):
        told.churn(gangs * number)
        told.rest()
        counts.append(engine.remembered(told))
    assert broken(told.engine.ledger) == []
    assert {"Evict", "SetCondition", "Announce", "Ungate", "Nominate", "WritePlan"} <= told.told.keys()
    assert told.engine.ledger.counters.pins_broken.total() > 0
    first, second, third = counts
    twice = {growth.path for growth in census.grown(first, second)}
    return [str(growth) for growth in census.grown(second, third, slack) if growth.path in twice]


@pytest.mark.slow
def test_no_container_grows_with_gangs_that_are_gone():
    """What is longer after each of two more rounds is a leak; a picture of one moment is not longer twice."""
    assert grown_in_a_round(150, SPARE) == []


@pytest.mark.slow
@pytest.mark.extended
def test_no_container_grows_with_thousands_of_gangs():
    """The same, for what only rare gangs leave behind."""
    assert grown_in_a_round(1700, SPARE) == []
