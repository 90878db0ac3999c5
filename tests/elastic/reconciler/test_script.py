"""What is said of the training script: what it takes over of the spec, and what it has not told."""

from typing import Any

import pytest

from scheduler.elastic.job.spec import Batch, LearningRate, Stage
from scheduler.elastic.job.status import BatchSeen, Condition
from scheduler.elastic.reconciler import Reconciler, job_effects, job_events
from scheduler.elastic.sizing.policy_parameters import Utility
from tests.elastic.reconciler.test_ranks import Talk

GIVEN = Batch(per_worker=32, limit=1024)


def talk(**fields: Any) -> Talk:
    """Two workers in round 1, of which nobody has taken a step."""
    made = Talk("", least=2, trained=False)
    made.change(workers=2, **fields)
    made.come("ab", 1, cores=2)
    assert made.ring == "ab"
    return made


def train(made: Talk, uses: tuple[str, ...] | None, *, step: int = 1, **told: Any) -> None:
    """Rank 0 trains, and the rules look."""
    made.now += 1.0
    made.say(job_events.Beat("a", "Training", made.round.number, step, step, uses=uses, **told))
    made.say(job_events.Elapsed())


def conditions(made: Talk) -> dict[str, Condition]:
    return {one.type: one for one in made.job.status(made.now).conditions}


def said(made: Talk, name: str) -> tuple[bool, str]:
    found = conditions(made)[name]
    return found.status, found.reason


def events(made: Talk) -> list[str]:
    """What people were told of the script."""
    told = (one for one in made.said if isinstance(one, job_effects.Tell))
    return [one.message for one in told if one.reason == "BatchNotApplied"]


@pytest.mark.parametrize(
    ("uses", "batch", "seen"),
    [
        ((), GIVEN, (None, None, None)),
        ((), Batch(), (None, None, None)),
        (("batch", "rate"), GIVEN, (64, 32, 1.0)),
        (("batch",), GIVEN, (64, 32, None)),
        (("rate",), GIVEN, (None, None, 1.0)),
        (("batch", "rate"), Batch(), (None, None, 1.0)),
        (("rate",), Batch(learning_rate=LearningRate.NONE), (None, None, 1.0)),
    ],
)
def test_the_status_shows_what_the_script_takes_over(
    uses: tuple[str, ...], batch: Batch, seen: tuple[int | None, int | None, float | None]
) -> None:
    """What it did not ask for is not shown as effective."""
    made = talk(batch=batch)
    train(made, uses)

    assert made.job.status(made.now).batch == BatchSeen("capped", *seen)


@pytest.mark.parametrize(
    ("uses", "batch", "calls"),
    [
        ((), GIVEN, "gangwright.batch() or gangwright.shard() nor gangwright.lr_scale()"),
        (("batch",), GIVEN, "gangwright.lr_scale()"),
        (("rate",), GIVEN, "gangwright.batch() or gangwright.shard()"),
        (("batch", "rate"), GIVEN, ""),
        ((), Batch(), ""),
    ],
)
def test_what_the_script_leaves_aside_is_told_once(uses: tuple[str, ...], batch: Batch, calls: str) -> None:
    """Where the spec states a batch, one event after the first step names the calls that the script does not make."""
    made = talk(batch=batch)
    train(made, uses)
    train(made, uses, step=2)

    said = f"The script does not call {calls}, so it keeps its own and spec.batch is not applied"
    assert events(made) == ([said] if calls else [])


@pytest.mark.parametrize("uses", [(), None])
def test_before_the_first_step_nothing_is_claimed(uses: tuple[str, ...] | None) -> None:
    """Neither of a script that has not come to its first step, nor ever of one whose agent does not say what it asks
    for.
    """
    made = talk(batch=GIVEN, schedule=(Stage(epoch=5, batch=16),))
    train(made, uses, step=0)
    if uses is None:
        train(made, None, step=5)

    assert "EpochReported" not in conditions(made)
    assert not events(made)
    assert made.job.status(made.now).batch == BatchSeen("capped")
    assert made.job.status(made.now).uses is None


def test_the_event_of_a_round_claims_what_is_taken_over() -> None:
    """Of the first round nothing is known; from then on the event has the numbers that the script takes."""
    made = talk(batch=GIVEN)
    train(made, ("batch",))
    made.train("ab", 2)
    made.grow("c")
    for name in "ab":
        made.say(job_events.Arrived(name, 1, 20, 20, "announced"))

    first, second = (
        one.message for one in made.said if isinstance(one, job_effects.Tell) and one.reason == "Round"
    )
    assert "batch" not in first
    assert "global batch 96" in second
    assert "learning rate" not in second


def test_another_master_says_the_same() -> None:
    """What was seen stands in the status, so a restart tells nothing again, and changes no condition."""
    made = talk(batch=GIVEN, schedule=(Stage(epoch=0), Stage(epoch=5, batch=16)))
    train(made, ("batch",))
    before, status = conditions(made), made.job.status(made.now)

    made.job = Reconciler("team/job")
    made.now += 60
    for event in (job_events.Restored(status), job_events.SpecSeen(made.spec), job_events.Listed()):
        made.job.handle(event, made.now)

    assert conditions(made)["EpochReported"] == before["EpochReported"]
    assert len(events(made)) == 1


def test_a_schedule_without_epochs_is_told() -> None:
    """Steps are made and no epoch is told, so the later phase never begins: the condition says what to call, until
    it is.
    """
    made = talk(schedule=(Stage(epoch=0), Stage(epoch=5, batch=16)))
    train(made, ("batch",))

    told = conditions(made)["EpochReported"]
    assert (told.status, told.reason) == (False, "NoEpochReported")
    assert "schedule[1] begins at epoch 5" in told.message
    assert "gangwright.epoch(done)" in told.message
    train(made, ("batch", "epoch"), step=2)
    assert said(made, "EpochReported") == (True, "EpochsReported")
    made.change(schedule=())
    assert "EpochReported" not in conditions(made)


def test_a_schedule_that_waits_for_no_epoch_needs_none() -> None:
    """With entries at epoch 0 alone there is nothing to tell of."""
    made = talk(schedule=(Stage(epoch=0, batch=16),))
    train(made, ())

    assert "EpochReported" not in conditions(made)


@pytest.mark.parametrize(("uses", "epoch"), [((), None), (("epoch",), 0.0), (None, 0.0)])
def test_the_policy_hears_of_an_epoch_that_was_told(
    uses: tuple[str, ...] | None, epoch: float | None
) -> None:
    """Without one the policy knows that it has none, and does not take it for epoch 0."""
    made = talk()
    made.change(workers=None)
    train(made, uses)

    view = made.job.wishes(made.now)
    assert view is not None
    assert view.epoch == epoch


@pytest.mark.parametrize(
    ("uses", "batch", "limit"), [(("rate",), None, None), (("batch",), 32, 1024), (None, 32, 1024)]
)
def test_a_batch_that_nobody_takes_bounds_no_size(
    uses: tuple[str, ...] | None, batch: int | None, limit: int | None
) -> None:
    """Of a script that keeps its own batch the policy hears none, of no phase either; of any other the spec's."""
    made = talk(batch=GIVEN, schedule=(Stage(epoch=0, workers=4), Stage(epoch=1, workers=6, batch=64)))
    made.change(workers=None)
    train(made, uses)

    view = made.job.wishes(made.now)
    assert view is not None
    assert (view.per_worker, view.batch_limit) == (batch, limit)
    assert [one.per_worker for one in view.schedule] == ([32, 64] if batch else [None, None])
    assert [one.batch_limit for one in view.schedule] == [limit, limit]


@pytest.mark.parametrize(
    ("total", "samples", "remaining"),
    [(1000.0, 640.0, 360.0), (600.0, 640.0, 0.0), (None, 640.0, None), (1000.0, 0.0, None), (float("inf"), 640.0, None)],
)  # fmt: skip
def test_what_is_left_is_the_total_less_what_was_taken(
    total: float | None, samples: float, remaining: float | None
) -> None:
    """Known where the script reports its total and tells of its samples; steps without samples say nothing of what
    is left.
    """
    made = talk()
    made.change(workers=None, policy="utility", parameters=Utility())
    train(made, (), step=10, samples=samples, values={} if total is None else {"total_samples": total})

    view = made.job.wishes(made.now)
    assert view is not None
    assert view.remaining == remaining


def test_nothing_taken_yet_leaves_the_whole() -> None:
    """Before the first step all of the total is left."""
    made = talk()
    made.change(workers=None)
    train(made, (), step=0, values={"total_samples": 1000.0})

    view = made.job.wishes(made.now)
    assert view is not None
    assert view.remaining == 1000.0
