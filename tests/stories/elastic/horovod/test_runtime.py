"""Real Horovod, two or three processes, and a master in this one: joins, leaves, losses, and what a warm-up leaves
behind.

Idle times are printed, not asserted: how long a step takes on this machine says nothing about the code.
"""

import itertools
import signal
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from bench.elastic.jobs import SCRIPT, SCRIPTS
from scheduler.elastic.job import spec as specs
from scheduler.elastic.runtime import checkpoint_file
from tests.stories.elastic.horovod.support.ring import joined_and_left, trains

FOREVER = 1_000_000
PACE = 0.08
"""Seconds that a step sleeps: whoever trains leaves the processor to those that start meanwhile."""

pytestmark = [pytest.mark.plane, pytest.mark.timeout(500)]


@pytest.fixture
def job(horovod_python, rings):
    """`job(script, *options)` gives a ring whose processes end with the test."""
    return partial(rings, horovod_python)


def at(worker, step):
    """The last thing the worker said about one step."""
    return next(one for one in reversed(worker.steps()) if one["step"] == step)


def common(one, other, size):
    """Steps that both did together."""
    first, second = (
        {line["step"] for line in worker.steps() if line["size"] == size} for worker in (one, other)
    )
    return sorted(first & second)


@pytest.mark.parametrize("state", ["keras", "variables"])
def test_an_unmodified_script_joins_leaves_and_recovers(job, state):
    """Stock API only: a join and a leave lose no step, a killed rank 0 at most the one that was under way."""
    ring = job(SCRIPTS / "stock.py", "--steps", FOREVER, "--state", state, "--sleep", PACE)
    first, second, third = joined_and_left(ring)
    assert second.gone == {"code": 0, "why": "removed"}
    ring.kill(first)
    ring.until(lambda: trains(third, size=1))
    for one, other, size in ((first, second, 2), (first, third, 3), (first, third, 2)):
        shared = common(one, other, size)
        assert shared, (size, ring.story())
        assert all(at(one, step)["sum"] == at(other, step)["sum"] for step in shared if step > shared[0] + 1)
    assert third.steps()[-1]["rank"] == 0
    steps = [one["step"] for one in first.steps()]
    assert steps == list(range(len(steps))), "an announced change loses and repeats no step"
    after = [one["step"] for one in third.steps() if one["size"] == 1]
    assert after[0] >= steps[-1] - 1
    assert [len(one.said("idle for")) for one in (first, third)] == [3, 2]


def test_an_unmodified_keras_fit_joins_and_recovers(job):
    """`model.fit` with Horovod's own callbacks: a newcomer has the same weights, and goes on when rank 0 is killed."""
    ring = job(SCRIPTS / "fit.py", "--sleep", PACE)
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    second = ring.start("w-1")
    ring.until(lambda: trains(first, 20, size=2) and trains(second, 20, size=2))
    ring.kill(first)
    ring.until(lambda: trains(second, size=1))
    sums = [
        {one["step"]: one["sum"] for one in worker.steps() if one["size"] == 2} for worker in (first, second)
    ]
    shared = sorted(sums[0].keys() & sums[1].keys())
    assert len(shared) > 10
    assert all(sums[0][step] == sums[1][step] for step in shared)
    assert second.steps()[-1]["step"] > shared[-1]


def test_a_newcomer_joins_a_script_that_trains_twice(job):
    """It falls through the first training, which is over, and meets the others in the second, with their weights; the
    steps that they had done stand.
    """
    ring = job(SCRIPTS / "twice.py", "--sleep", PACE)
    first = ring.start("w-0")
    ring.until(lambda: trains(first) and first.lines[-1]["training"] == "second")
    second = ring.start("w-1")
    ring.until(lambda: trains(first, 20, size=2) and trains(second, 20, size=2))
    assert [one["why"] for one in first.readies] == ["newcomer", "another", "announced", "failure"]
    assert [one["why"] for one in second.readies] == ["newcomer", "another"]
    together = {
        one["step"]: one["sum"]
        for one in second.lines
        if one["size"] == 2 and one["step"] > 21 and one["training"] == "second"
    }
    same = [one for one in first.lines if one["size"] == 2 and one["step"] in together]
    assert len(same) >= 15, "each was seen to take twenty, which begin and end a step apart"
    assert all(one["sum"] == together[one["step"]] for one in same)
    steps = list(dict.fromkeys(one["step"] for one in first.lines[1:]))
    assert steps == list(range(1, len(steps) + 1))


def test_a_warm_up_leaves_nothing_behind(job):
    """After the rehearsal every variable, slot, plain value and source of chance is what it was, bit by bit; and so is what
    the script counts itself.
    """
    ring = job(SCRIPTS / "probe.py")
    worker = ring.start("w-0")
    ring.until(lambda: worker.dead)
    assert worker.process.poll() == 0, ring.story()
    before, rehearsal, real, after = worker.lines
    assert [one.pop("pass") for one in (before, rehearsal, real, after)] == [0, 1, 1, -1]
    for one in (before, rehearsal):  # the forgotten optimizer has made its slots since, and they are zero
        one.pop("forgotten")
    changed = real.pop("forgotten")
    assert real == before == rehearsal
    assert real["kept"] == 0.0
    assert after["model"] != real["model"]
    assert after["forgotten"] != changed
    assert after["attributes"] == [3, [1, 2, 3]]
    assert len(worker.readies) == 1


def test_a_state_that_does_not_fit_is_told_and_nobody_hangs(job):
    """A worker with another model ends with an error that names both states; the others train on."""
    ring = job(SCRIPT, "--epochs", FOREVER, "--width", 8, "--step-time", PACE)
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    other = ring.start("w-1", options=["--width", 6])
    ring.until(lambda: other.dead)
    steps = len(first.steps())
    ring.until(lambda: len(first.steps()) > steps + 5 and trains(first, size=1))
    assert other.process.poll() == 1, ring.story()
    assert "StateMismatch" in other.gone["why"]
    (told,) = other.said("errors.StateMismatch:")
    assert "w-0" in told
    assert "float32[3,3,1,8]" in told
    assert "float32[3,3,1,6]" in told
    assert [one["step"] for one in first.steps()] == list(range(1, len(first.steps()) + 1))


def test_a_newcomer_that_dies_at_the_door_costs_nothing(job):
    """Stopped after READY and killed later: members wait before `init`, in Python, and go on with what they had."""
    ring = job(SCRIPTS / "stock.py", "--steps", FOREVER, "--sleep", PACE)
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    ring.hold = True
    second = ring.start("w-1")
    ring.until(lambda: second.waiting)
    ring.kill(second, signal.SIGSTOP)
    ring.release()
    ring.until(lambda: first.round == 2)
    ring.kill(second)
    ring.until(lambda: first.round == 3 and trains(first, size=1) and first.said("round 3"))
    steps = [one["step"] for one in first.steps()]
    assert steps == list(range(len(steps)))
    assert [one["why"] for one in first.readies] == ["newcomer", "announced", "failure"]


def test_a_frozen_worker_is_left_behind(job):
    """No reset comes from a stopped process: the collective's time-out ends the round, the last commit stands."""
    ring = job(SCRIPTS / "stock.py", "--steps", FOREVER, "--sleep", PACE, GANGWRIGHT_GLOO_TIMEOUT="2")
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    second = ring.start("w-1")
    ring.until(lambda: trains(first, size=2))
    ring.kill(second, signal.SIGSTOP)
    ring.until(lambda: first.waiting)
    ring.bury(second)
    ring.until(lambda: trains(first, size=1))
    steps = [one["step"] for one in first.steps()]
    assert sorted(set(steps)) == list(range(steps[-1] + 1))
    assert first.readies[-1]["why"] == "failure"
    assert first.readies[-1]["committed"] == first.readies[-1]["step"] > 0


def test_every_sample_is_taken_once_through_all_changes(job):
    """Through joins, a loss and a leave, the committed steps of each epoch hold every sample exactly once.

    The collective's time-out is longer than the test may last: survivors of a loss hear of it from each other.
    """
    ring = job(
        SCRIPT,
        *("--epochs", FOREVER, "--batch", 16, "--width", 4, "--indices", "--step-time", PACE / 4),
        GANGWRIGHT_GLOO_TIMEOUT="300",
    )
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    second = ring.start("w-1")
    ring.until(lambda: trains(second, size=2))
    third = ring.start("w-2")
    ring.until(lambda: trains(third, size=3))
    ring.kill(second)
    ring.until(lambda: trains(third, size=2))
    ring.remove(third)
    ring.until(lambda: third.dead and trains(first, size=1))
    epochs = int(first.steps()[-1]["epoch"]) + 1
    ring.until(lambda: first.steps()[-1]["epoch"] > epochs + 0.1)
    taken = {}
    for step in range(1, first.steps()[-1]["step"] + 1):
        lines = [one for worker in ring.workers.values() for one in worker.steps() if one["step"] == step]
        # A step that was lost is done again later, by whoever is there then.
        mine = max(lines, key=lambda one: one["at"])
        ranks = {one["rank"]: one["indices"] for one in lines if one["size"] == mine["size"]}
        epoch = taken.setdefault(round(mine["epoch"] * 1500 - 1) // 1500, [])
        for rank in range(mine["size"]):
            # Who was interrupted by the loss had no time to say what it took.
            epoch.extend(ranks.get(rank, [None]))
    whole = [epoch for epoch in range(epochs) if None not in taken[epoch]]
    assert len(whole) >= epochs - 1 > 0
    for epoch in whole:
        assert sorted(taken[epoch]) == list(range(1500)), epoch
    assert max(one["rate"] for one in first.steps()) > 0.02


@dataclass(frozen=True)
class Run:
    """What a job says of its batch, and what that comes to at one, two and three workers: samples of a whole step,
    passes of a worker, the rate's factor. every: steps of which one is committed.
    """

    batch: specs.Batch
    totals: tuple[int, ...]
    passes: tuple[set[int], ...]
    factors: tuple[float, ...]
    every: int = 1

    def check(self, steps):
        """Every step is as large as it is meant to be, but for an epoch's last one, and so are its parts."""
        for size, (total, passes) in enumerate(zip(self.totals, self.passes, strict=True), start=1):
            full = [one for one in steps if one["size"] == size and len(one["samples"]) >= total]
            assert {len(one["samples"]) for one in full} == {total}
            assert {one["passes"] for one in full} == passes

    def rates(self, steps):
        """The factor at each step: after growth it goes up along a line, after a loss or a leave down at once."""
        before = self.factors[0]
        for size, same in itertools.groupby(one["size"] for one in steps):
            after = self.factors[size - 1]
            length = self.batch.ramp_steps if after > before else 0
            for place, _ in enumerate(same):
                yield before + (after - before) * (min(1.0, place / length) if length else 1.0)
            before = after


RUNS = {
    "its own batch": Run(specs.Batch(), totals=(8, 16, 24), passes=({1}, {1}, {1}), factors=(1, 2, 3)),
    "fixed, in passes, and seldom committed": Run(
        specs.Batch(mode=specs.BatchMode.FIXED, per_worker=8, limit=24),
        totals=(24, 24, 24), passes=({3}, {2, 1}, {1}), factors=(1, 1, 1), every=40,
    ),
    "capped, and the rate ramped up": Run(
        specs.Batch(per_worker=8, limit=20, ramp_steps=10),
        totals=(8, 16, 20), passes=({1}, {1}, {1}), factors=(1, 2, 2.5),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=name, marks=() if run.every > 1 else pytest.mark.extended)
        for name, run in RUNS.items()
    ],
)
def test_an_elastic_run_is_the_run_of_one_process(job, run):
    """Through joins, a loss and a leave, every step ends with the weights that one process finds which takes the same
    samples at the same rates: no weight, no momentum and no sample's share is lost or counted twice, whatever the mode
    of the batch; the loss undoes what came after the last commit and no more, and what was announced undoes nothing.
    """
    every = run.every
    ring = job(SCRIPTS / "line.py", "--commit-every", every, "--sleep", PACE / 2)
    ring.batch = run.batch
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    second = ring.start("w-1")
    ring.until(lambda: trains(second, 20, size=2))
    third = ring.start("w-2")
    ring.until(lambda: trains(third, 20, size=3) and between_commits(third, every))
    ring.kill(first)  # rank 0; who joined last has the state that all had
    ring.until(lambda: trains(third, 20, size=2))
    ring.remove(second)
    ring.until(lambda: second.dead and trains(third, 20, size=1))

    newest = max(one["step"] for worker in (second, third) for one in worker.steps() if one["size"] == 3)
    after = [one["step"] for one in third.steps() if one["size"] < 3]
    lost = newest - (after[0] - 1)
    assert lost == newest % every
    assert bool(lost) == (every > 1)
    assert [one["step"] for one in first.steps()] == list(range(1, len(first.steps()) + 1))
    assert after == list(range(after[0], after[0] + len(after)))
    assert every == 1 or any(step % every for step in (*resized(first), *resized(third)[1:]))

    found = {}
    for worker in (first, second, third):  # a step that a loss undid was taken again by those that are left
        found |= {one["step"]: one for one in worker.steps()}
    assert sorted(found) == list(range(1, max(found) + 1))
    steps = [found[step] for step in sorted(found)]
    assert {one["size"] for one in steps} == {1, 2, 3}
    for step, weights in zip(steps, alone(steps), strict=True):
        assert step["weights"] == pytest.approx(weights.tolist(), rel=1e-9, abs=1e-12), step["step"]
    run.check([one for worker in (first, second, third) for one in worker.steps()])
    assert [one["rate"] / 0.004 for one in steps] == pytest.approx([*run.rates(steps)], rel=1e-6)


def between_commits(worker, every):
    """Its last step is some steps after a commit of the present round."""
    steps = [one["step"] for one in worker.steps()]
    return every // 4 <= steps[-1] % every <= every // 2 and any(step % every == 0 for step in steps)


def resized(worker):
    """The last step of each size, but for the last size."""
    return [one["step"] for one, other in itertools.pairwise(worker.steps()) if one["size"] != other["size"]]


def alone(steps):
    """The weights after each step, found without Horovod and without TensorFlow: the line of `line.py`."""
    points = np.random.default_rng(11).normal(size=(90, 5))
    heights = np.sin(3 * points).sum(1)
    weights, speed = np.zeros(5), np.zeros(5)
    for step in steps:
        x, y = points[step["samples"]], heights[step["samples"]]
        speed = 0.875 * speed - step["rate"] * 2 * x.T @ (x @ weights - y) / len(y)
        weights = weights + speed
        yield weights


def test_a_suspended_job_goes_on_from_its_checkpoint(job, tmp_path):
    """Asked to leave with a checkpoint, rank 0 writes it; another worker begins there and trains to the end."""
    ring = job(SCRIPT, "--epochs", FOREVER, "--width", 4, GANGWRIGHT_CHECKPOINT=str(tmp_path / "kept"))
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    ring.remove(first, checkpoint=True)
    ring.until(lambda: first.dead)
    assert first.process.poll() == 0, ring.story()
    last = first.steps()[-1]
    path = checkpoint_file.newest(str(tmp_path / "kept" / "run"))
    assert path.step == last["step"]
    assert first.progress[-1]["values"]["checkpoint_step"] == last["step"]
    ring.extra = {"restore": str(tmp_path / "kept")}
    second = ring.start("w-1", options=["--steps", last["step"] + 30])
    ring.until(lambda: second.dead)
    assert second.process.poll() == 0, ring.story()
    assert second.gone == {"code": 0, "why": "the training function returned"}
    assert [one["step"] for one in second.steps()] == list(range(last["step"] + 1, last["step"] + 31))
    assert second.steps()[0]["epoch"] == pytest.approx(last["epoch"] + 32 / 1500)
    assert second.lines[-1]["finished"] == last["step"] + 30


def test_reports_tell_steps_times_and_values(job):
    """The agent hears the position, times with and without the collective, and what the script reports."""
    ring = job(SCRIPT, "--epochs", FOREVER, "--width", 4, "--step-time", 0.05)
    first = ring.start("w-0")
    ring.until(lambda: trains(first))  # alone: who begins in a round of two has not stood still for it
    second = ring.start("w-1", options=["--slow", 4])  # a busy machine may hold up the first alone by a half
    ring.until(lambda: trains(first, 25, size=2))
    # While the second starts, it may hold up the first by more than that.
    joined = next(one["step"] for one in first.steps() if one["size"] == 2)
    mine, theirs = (
        [one["compute_s"] for one in worker.progress if one["compute_s"] and one["step"] > joined + 1]
        for worker in (first, second)
    )
    last = next(one for one in reversed(first.progress) if one["step_s"])
    assert last["phase"] == "Training"
    assert last["samples"] >= last["step"] * 32
    assert last["epoch"] == pytest.approx(last["samples"] / 1500)
    assert last["values"]["loss"] > 0
    assert {"idle_s", "idle_without_step_s"} <= set(last["values"])
    assert sorted(theirs)[len(theirs) // 2] > 1.5 * sorted(mine)[len(mine) // 2]
