"""What a child says of itself: believed field by field, and turned into beats."""

from typing import Any

import pytest

from scheduler.elastic.agent.progress_report import VALUES_LIMIT, Progress, Wrong
from scheduler.elastic.agent.training_run import TrainingRun
from scheduler.elastic.runtime.round_assignment import Assignment


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_times_are_means_since_the_last_beat() -> None:
    """Each beat has the mean of what was reported since the one before, or nothing."""
    progress = Progress(0.0)
    progress.take({"step_s": 0.2, "compute_s": 0.1}, 1.0)
    progress.take({"step_s": 0.4, "compute_s": None}, 2.0)

    first, second = progress.beat(2.0), progress.beat(3.0)

    assert first["step_s"] == pytest.approx(0.3)
    assert first["compute_s"] == 0.1
    assert (second["step_s"], second["compute_s"]) == (None, None)
    assert progress.usual_step == pytest.approx(0.3)


def test_a_mean_is_of_steps_and_not_of_reports() -> None:
    """A slow step in a report of its own weighs as one step: the mean times the steps is the time that they took."""
    progress = Progress(0.0)
    progress.take({"step": 9, "step_s": 0.05, "compute_s": 0.01}, 1.0)
    progress.take({"step": 10, "step_s": 0.55, "compute_s": 0.11}, 2.0)
    beat = progress.beat(2.0)

    assert 10 * beat["step_s"] == pytest.approx(9 * 0.05 + 0.55)
    assert 10 * beat["compute_s"] == pytest.approx(9 * 0.01 + 0.11)


def test_only_what_changes_shows_that_it_goes_on() -> None:
    """The same report again, from a thread that lives on, does not hide a main thread that hangs."""
    progress = Progress(0.0)
    progress.take({"phase": "Training", "step": 1}, 10.0)
    progress.take({"phase": "Training", "step": 1, "collective": True, "values": {"a": 1}}, 20.0)

    assert progress.silent(25.0) == 15.0
    progress.take({"step": 2}, 30.0)
    assert progress.silent(31.0) == 1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("phase", "Sleeping"),
        ("phase", 1),
        ("step", -1),
        ("step", 1.5),
        ("step", True),
        ("committed", "3"),
        ("samples", float("inf")),
        ("epoch", float("nan")),
        ("step_s", -0.1),
        ("compute_s", [1]),
        ("collective", 1),
        ("values", [1]),
        ("uses", "batch"),
        ("uses", [1]),
    ],
)
def test_a_field_that_makes_no_sense_is_named_and_the_others_are_believed(name: str, value: Any) -> None:
    """A training that goes on shows it, whatever else it says."""
    progress = Progress(0.0)
    before = progress.beat(1.0)

    with pytest.raises(Wrong, match=f"^{name}: must be "):
        progress.take({"step": 5, "epoch": 1.0, "phase": "Training", name: value}, 1.0)

    told = {"step": 5, "epoch": 1.0, "phase": "Training"}
    assert progress.beat(1.0) == {**before, **told, name: before[name], "silent_s": 0.0}


def test_values_beyond_the_limit_are_left_out() -> None:
    """A script with a hundred classes loses some of its values, and nothing else of its report."""
    progress = Progress(0.0)
    many = {"": 1, "broken": float("nan"), **{f"class_{number}": number for number in range(100)}}
    progress.take({"phase": "Training", "step": 5, "values": many}, 1.0)

    told = progress.beat(1.0)
    assert (told["phase"], told["step"]) == ("Training", 5)
    assert told["values"] == {f"class_{number}": float(number) for number in range(VALUES_LIMIT)}


def test_values_that_are_no_numbers_are_left_out() -> None:
    """A loss that is not finite stops neither the beat nor the other values."""
    progress = Progress(0.0)
    progress.take(
        {"values": {"loss": float("nan"), "big": 10**400, "acc": 0.5, "name": "x", "flag": True}}, 1.0
    )

    assert progress.beat(1.0)["values"] == {"acc": 0.5}


def test_what_the_script_uses_is_passed_on() -> None:
    """The beat has the words that the child said last, and none at all of a child that has not spoken."""
    progress = Progress(0.0)
    assert progress.beat(1.0)["uses"] is None

    progress.take({"uses": ["batch", "rate"]}, 1.0)
    progress.take({"step": 1}, 2.0)
    assert progress.beat(2.0)["uses"] == ["batch", "rate"]


def test_at_the_barrier_nobody_is_silent() -> None:
    """A child that waits for its place is Ready, and its silence begins when it leaves the barrier."""
    clock = Clock()
    child = TrainingRun(1, clock)
    child.take({"phase": "WarmingUp"})
    with child.at_barrier():
        clock.now += 1000
        beat = child.beat()
        assert (beat["phase"], beat["silent_s"]) == ("Ready", 0.0)
        assert not child.newcomer
    clock.now += 5

    assert child.beat()["silent_s"] == 5.0
    assert child.newcomer


def test_only_a_training_child_that_listened_is_missed() -> None:
    """Silence of all threads counts from the last call on, never while a call is answered or after the good-bye."""
    clock = Clock()
    child = TrainingRun(1, clock)
    child.take({"phase": "Training"})
    clock.now += 50
    assert child.sight(stopped=False).unheard == 0.0

    with child.asks():
        child.listens()
        clock.now += 50
        assert child.sight(stopped=False).unheard == 0.0
    clock.now += 50
    assert child.sight(stopped=False).unheard == 50.0

    child.goes("finished", well=True)
    assert child.sight(stopped=False).unheard == 0.0


def test_what_a_script_does_after_its_training_is_no_silence() -> None:
    """A last evaluation or an export may take its hour; beyond it silence counts again, and after a bad end at once."""
    clock = Clock()
    child = TrainingRun(1, clock, finish=3600.0)
    child.take({"phase": "Training", "step": 9})
    child.goes("the training function returned", well=True)
    clock.now += 3600
    sight = child.sight(stopped=False)
    assert (child.beat()["silent_s"], sight.silent, sight.training) == (0.0, 0.0, False)
    clock.now += 700
    assert child.beat()["silent_s"] == 700.0

    child.goes("RuntimeError: no such layer", well=False)
    assert child.beat()["silent_s"] == 4300.0


def test_who_trains_again_is_watched_again() -> None:
    """A script's second training reports, and what hangs in it is silent from its last sign of life on."""
    clock = Clock()
    child = TrainingRun(1, clock)
    child.take({"phase": "Training", "step": 9})
    child.goes("the training function returned", well=True)
    clock.now += 100
    child.take({"phase": "WarmingUp", "step": 9})
    clock.now += 100

    assert child.gone is None
    assert child.beat()["silent_s"] == 100.0


def test_steps_that_nobody_commits_show_that_it_goes_on() -> None:
    """Their marks are looked at here, and are nothing to the master."""
    progress = Progress(0.0)
    progress.take({"phase": "WarmingUp", "mark": 17.5}, 10.0)
    progress.take({"phase": "WarmingUp", "mark": 18.5}, 20.0)
    progress.take({"phase": "WarmingUp", "mark": 18.5}, 30.0)

    assert progress.silent(35.0) == 15.0
    assert "mark" not in progress.beat(35.0)


def test_values_are_kept_for_one_round() -> None:
    """What was read in a round is forgotten in the next, and what comes late from the one before is not kept."""
    child = TrainingRun(1)
    child.assign(Assignment(3, 0, 2))
    child.keep(3, "global", "1", b"address")
    child.keep(2, "global", "0", b"late")

    assert child.kept(3, "global", "1") == b"address"
    assert child.kept(3, "global", "0") is None
    child.assign(Assignment(4, 0, 2))
    assert child.kept(4, "global", "1") is None
