"""The order `fit`: the best fit first, as capacity comes and goes. That no gang starves: tests/bench/test_tetris.py."""

from dataclasses import replace

from scheduler.engine import Engine
from scheduler.engine.queue_order import SORTED_AT_ONCE
from scheduler.ledger.pending_queue import REORDER
from scheduler.model import events as ev
from scheduler.model.policy import Policy
from scheduler.model.queueing import Order
from scheduler.model.workload import Phase, Pod, PodKey, Uid
from tests.engine.support.cast import a_gang_of_pods
from tests.support.builders import a_node

GPUS = 8


def running(number: int) -> Pod:
    (pod,) = a_gang_of_pods(f"runs-{number}", 1, gpu=1)
    return replace(pod, gated=False, node=f"n{number // GPUS}", phase=Phase.RUNNING, bound_at=1.0)


def full(*waiting: Pod, nodes: int = 1, policy: Policy | None = None) -> Engine:
    """A full cluster, and these pods that wait."""
    engine = Engine(policy or Policy(order=Order.FIT))
    seen = [ev.NodeSeen(a_node(f"n{number}", gpu=GPUS)) for number in range(nodes)]
    pods = [*map(running, range(nodes * GPUS)), *waiting]
    engine.observe([*seen, *map(ev.PodSeen, pods), ev.Synced(), ev.TookOver()], 2_000.0)
    engine.plan(2_000.0)
    return engine


def ends(engine: Engine, *numbers: int, now: float) -> None:
    engine.observe([ev.PodSeen(replace(running(n), phase=Phase.SUCCEEDED)) for n in numbers], now)
    engine.plan(now)


def planned(engine: Engine) -> list[str]:
    """The gangs with a plan."""
    return sorted(key.name for key, record in engine.ledger.registry.gangs.items() if record.plan is not None)


def line(engine: Engine) -> list[str]:
    return [record.key.name for record in engine.ledger.pending.queue()]


def gang(name: str, gpu: int, created: float, count: int = 1, **more) -> list[Pod]:
    return a_gang_of_pods(name, count, gpu=gpu, created=created, **more)


def test_the_best_fit_of_the_moment_starts() -> None:
    """Of gangs that wait, the one that uses most of what came free; then what fits beside it."""
    small, large, huge = gang("small", 1, 1.0), gang("large", 3, 2.0), gang("huge", 8, 0.0)
    engine = full(*huge, *small, *large)

    ends(engine, 0, 1, 2, now=2_010.0)
    assert planned(engine) == ["large"]
    ends(engine, 3, now=2_020.0)
    assert planned(engine) == ["large", "small"]
    assert line(engine) == ["huge"]


def test_what_does_not_fit_waits_in_order_of_arrival() -> None:
    """Nothing is free: the oldest is the first of the queue."""
    engine = full(*gang("b", 8, 2.0), *gang("a", 1, 3.0), *gang("c", 4, 1.0))

    assert line(engine) == ["c", "b", "a"]


def test_the_whole_gang_counts() -> None:
    """A gang of two members goes before an older single pod of the same demand, once both have room."""
    engine = full(*gang("pod", 2, 1.0), *gang("pair", 2, 2.0, count=2))

    ends(engine, 0, 1, 2, 3, now=2_010.0)
    assert planned(engine) == ["pair"]


def test_priority_comes_before_fit() -> None:
    """Only gangs of one priority are compared by fit."""
    policy = Policy(order=Order.FIT, preemption=False)
    engine = full(*gang("large", 4, 1.0), *gang("urgent", 1, 2.0, priority=5), policy=policy)

    ends(engine, 0, 1, 2, 3, now=2_010.0)
    assert planned(engine) == ["urgent"]


def test_a_long_queue_is_sorted_within_seconds() -> None:
    """Above the length that is sorted at once, the best fit is found at the next sorting."""
    some = [pod for number in range(SORTED_AT_ONCE + 1) for pod in gang(f"g{number:03}", 1, float(number))]
    engine = full(*some, *gang("large", 4, 1_999.0))
    ends(engine, now=2_001.0)

    now = 2_001.0 + REORDER
    ends(engine, 0, 1, 2, 3, now=now)
    assert planned(engine) == ["large"]


def test_the_order_may_change_while_gangs_wait() -> None:
    """A queue in order of shares is in order of fit from then on, and follows the free capacity."""
    engine = full(*gang("small", 1, 1.0), *gang("large", 3, 2.0), policy=Policy(order=Order.FAIR))
    engine.observe([ev.PolicyChanged(Policy(order=Order.FIT))], 2_005.0)

    ends(engine, 0, 1, 2, now=2_010.0)
    assert planned(engine) == ["large"]


def test_a_dry_run_changes_no_place_in_the_queue() -> None:
    """Pods that are only tried out leave the gang that they would join where it is."""
    engine = full(*gang("pair", 1, 1.0, count=2), *gang("other", 2, 2.0))
    (more,) = gang("pair", 5, 3.0)
    engine.trial(engine.sketch([replace(more, uid=Uid("tried"), key=PodKey("default", "tried"))]), 2_005.0)

    ends(engine, 0, 1, now=2_010.0)
    assert planned(engine) == ["pair"]
