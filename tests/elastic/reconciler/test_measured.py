"""What policies are given to go by: throughput, step times, and what a resize costs."""

import msgspec
import pytest

from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.support import world as membership_world
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import STEP_S, Pod, World


def grown() -> World:
    """A job that trained with two workers and then with four."""
    world = a_job(2)
    world.run(10)
    world.size(4)
    assert world.run(20, lambda: world.trains(4))
    world.run(5)
    return world


def test_the_policies_get_a_true_picture() -> None:
    """Size, throughput by size, epochs and what the last resize cost."""
    world = grown()
    view = world.membership.wishes(world.now)

    assert view is not None
    assert (view.name, view.min, view.max, view.size, view.want, view.in_flight) == (
        "ns/job",
        2,
        6,
        4,
        4,
        False,
    )
    assert view.measured[2].mean == pytest.approx(40, rel=0.2)
    assert view.idle is not None
    assert view.idle < 1.5
    assert view.warm == pytest.approx(3.0, abs=0.5)
    assert msgspec.json.encode(view.measured)


@pytest.mark.parametrize("step_s", [1.3, 2.6])
def test_throughput_is_as_the_worker_times_its_steps(step_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of 1.3 s takes one beat or two: measured by beats alone it would scatter by half."""
    monkeypatch.setattr(membership_world, "STEP_S", step_s)
    world = a_job(2)
    world.run(60)
    view = world.membership.wishes(world.now)

    assert view is not None
    assert view.measured[2].mean == pytest.approx(8 / step_s, rel=0.001)
    assert view.measured[2].error < 0.001


def test_a_resize_costs_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause lasts to the end of a first step, which would have been made all the same."""
    world = a_job(2)
    for pod in world.members():
        pod.says = {"idle_s": 0.75}
    world.size(4)
    assert world.run(20, lambda: world.trains(4))
    world.run(5)
    view = world.membership.wishes(world.now)

    assert world.status.last_resize is not None
    assert world.status.last_resize.idle_seconds == 0.75
    assert view is not None
    assert view.idle == pytest.approx(0.75 - STEP_S)


def test_what_a_resize_costs_does_not_change_from_beat_to_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of steps of three seconds two beats in three say nothing: the last that did counts."""
    monkeypatch.setattr(membership_world, "STEP_S", 3.0)
    world = a_job(2)
    for pod in world.members():
        pod.says = {"idle_s": 3.5}
    world.run(10)
    world.size(4)
    assert world.run(60, lambda: world.trains(4))
    costs = []
    for _ in range(6):
        world.run(1)
        view = world.membership.wishes(world.now)
        costs.append(view.idle if view else None)

    assert costs == pytest.approx([0.5] * 6)


def test_who_tells_of_steps_in_no_time_is_timed_by_its_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker says of itself may be wrong; a window of a second holds steps of more than a millisecond."""
    send = World.send

    def in_no_time(self: World, event: job_events.Event) -> None:
        told = isinstance(event, job_events.Beat)
        send(self, msgspec.structs.replace(event, step_s=1e-200) if told else event)

    monkeypatch.setattr(World, "send", in_no_time)
    world = a_job(2)
    world.run(20)
    view = world.membership.wishes(world.now)

    assert view is not None
    assert view.measured[2].mean == pytest.approx(8 / STEP_S, rel=0.2)


def test_what_a_resize_cost_is_not_what_the_one_before_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 says what the last change cost from its first step of the round on; others may have told of that step
    before.
    """
    world = a_job(2)
    first, number = world.members()[0], world.status.round
    first.says = {"idle_s": 9.9}
    beat = World._beat
    behind: list[int] = []

    def a_step_later(self: World, pod: Pod) -> None:
        begins = pod is first and pod.round > number and len(behind) < 3
        made = pod.step
        if begins and world.members() and self.status.assignment is not None:
            behind.append(made)
            pod.step = min(made, self.status.assignment.step)
        elif pod is first and pod.round > number:
            pod.says = {"idle_s": 0.6}
        beat(self, pod)
        pod.step = made

    monkeypatch.setattr(World, "_beat", a_step_later)
    world.size(4)
    assert world.run(20, lambda: world.trains(4))
    world.run(5)

    assert behind
    assert world.status.last_resize is not None
    assert world.status.last_resize.idle_seconds == 0.6
    assert [one.idle_s for one in world.sentences(job_effects.Resized)][-1] == 0.6


def test_a_script_that_tells_of_no_samples_is_measured_in_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each worker takes one in a step: at four workers twice as many as at two, and status claims no samples per
    second.
    """
    monkeypatch.setattr(World, "counts", 0.0)
    world = grown()
    view = world.membership.wishes(world.now)

    assert view is not None
    assert view.unit == "batches"
    assert view.measured[2].mean == pytest.approx(2 / STEP_S, rel=0.2)
    assert view.measured[4].mean == pytest.approx(2 * view.measured[2].mean, rel=0.2)
    assert world.membership.status(world.now).samples_per_second is None


def test_throughput_is_told_with_four_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """People read it as it stands in status."""
    monkeypatch.setattr(World, "counts", 8 / 3)

    assert grown().status.samples_per_second == 13.33
