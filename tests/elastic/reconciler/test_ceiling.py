"""A job that asks for more members than one round can hold."""

import msgspec
import pytest

from scheduler.elastic.job import Spec, Stage
from scheduler.elastic.job.spec import Batch
from scheduler.elastic.reconciler import Timeouts, job_effects, ring_limit
from scheduler.elastic.sizing.policy_parameters import Schedule
from tests.elastic.reconciler.world import TEMPLATE, World

LIMITS = msgspec.structs.replace(World.limits, ring=3, ring_bound="rendezvous.keys")
SHORT = "maxWorkers is 6, but the rendezvous holds no larger ring (rendezvous.keys)"


def a_world(monkeypatch: pytest.MonkeyPatch, **fields: object) -> World:
    """A job of two to six workers, of which a round holds three."""
    monkeypatch.setattr(World, "limits", LIMITS)
    return World(Spec(**{"min_workers": 2, "max_workers": 6, "template": TEMPLATE, **fields}))  # type: ignore[arg-type]


def rings(world: World) -> set[int]:
    """Sizes of all rounds so far."""
    rounds = world.sentences(job_effects.Publish)
    return {one.size for told in rounds for one in told.assignments.values()} - {0}


@pytest.mark.parametrize(
    "fields",
    [
        {"workers": 6},
        {"schedule": (Stage(epoch=0.0, workers=6),), "policy": "schedule", "parameters": Schedule()},
    ],
)
def test_no_round_is_larger_than_the_rendezvous_holds(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object]
) -> None:
    """Whoever asks for more, nobody is started for it, and the reason says why."""
    world = a_world(monkeypatch, **fields)

    assert world.run(60, lambda: world.trains(3)), world.status.reason
    world.run(30)
    assert rings(world) <= {2, 3}
    assert world.made == 3
    assert world.status.wanted == 3
    assert world.status.reason.endswith(SHORT)


def test_policies_know_no_larger_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the room that this job cannot use goes to others, and an old answer of a policy is cut all the same."""
    world = a_world(monkeypatch, batch=Batch(per_worker=32))
    world.size(6)
    assert world.run(60, lambda: world.trains(3)), world.status.reason
    view = world.membership.wishes(world.now)

    assert view is not None
    assert view.max == 3
    assert world.status.reason == f"3 wanted by test: the test says so; {SHORT}"


def test_who_asks_for_less_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size that the person or the policy wanted has its own reason."""
    world = a_world(monkeypatch, workers=2)
    assert world.run(60, lambda: world.trains(2))

    assert world.status.reason == "2 wanted by user: spec.workers is 2"


def test_a_ring_that_grew_under_larger_bounds_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator has lowered them: the next master takes the job back in order, and nobody begins anew."""
    world = World(Spec(min_workers=2, max_workers=6, workers=5, template=TEMPLATE))
    assert world.run(60, lambda: world.trains(5))
    monkeypatch.setattr(World, "limits", LIMITS)
    world.die(1.0)

    assert world.run(60, lambda: world.up and world.trains(3)), world.status.reason
    assert world.status.restarts == 0


def test_a_quorum_that_no_round_holds_is_a_problem() -> None:
    """Field, value, and what would be right, with the bound that an administrator may raise."""
    limits = Timeouts(ring=170, ring_bound="rendezvous.roundLimit")
    (found,) = ring_limit.problems(Spec(min_workers=171, max_workers=400), limits)

    assert str(found) == (
        "spec.minWorkers = 171: at most 170: the rendezvous holds no larger ring (rendezvous.roundLimit)"
    )
    assert ring_limit.problems(Spec(min_workers=170, max_workers=400), limits) == ()
