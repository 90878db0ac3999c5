"""What a gang that ended teaches about the next one of its owner."""

import pytest

from scheduler.ledger import observed_runs
from scheduler.ledger.runtimes import KEPT, LIE
from scheduler.model.workload import Phase
from tests.engine.support.cast import a_gang_of_pods, an_owner
from tests.ledger.support.desk import Desk

JOB = an_owner("Job", "train")
DECLARED = 1000.0

Told = tuple[str, str, int, float | None, float]
"""Namespace, kind of owner, members, what was declared, what it took."""


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    """What the memory of runtimes is told of gangs that ended."""
    heard: list[Told] = []
    teach = desk.ledger.runtimes.ended

    def ended(*said) -> None:
        heard.append(said)
        teach(*said)

    monkeypatch.setattr(desk.ledger.runtimes, "ended", ended)
    return heard


def begin(desk: Desk, gang: str = "train") -> None:
    """A gang of two of the same owner comes and is bound."""
    desk.see(*a_gang_of_pods(gang, 2, owner=JOB, gpu=1, wish={"runtime": DECLARED}))
    desk.bring_on_its_way(gang, **{f"{gang}_0": "n1", f"{gang}_1": "n1"})
    desk.bind(f"{gang}-0", f"{gang}-1")


def end(desk: Desk, *names: str, phase: Phase = Phase.SUCCEEDED) -> None:
    for name in names:
        desk.change(name, phase=phase)


def run(desk: Desk, gang: str, seconds: float) -> None:
    """A gang comes, runs for so long, and ends; its pods are deleted."""
    begin(desk, gang)
    desk.wait(seconds)
    end(desk, f"{gang}-0", f"{gang}-1")
    desk.lose(f"{gang}-0", f"{gang}-1")


@pytest.mark.parametrize(
    ("kinds", "believed"),
    [(("Made", "Invented"), False), (("Made", "Job"), True), (("Job", "StatefulSet"), True)],
)
def test_owners_of_unknown_kinds_share_one_memory(
    desk: Desk, kinds: tuple[str, str], *, believed: bool
) -> None:
    """A lie told under one made-up kind is not forgotten under the next; known kinds have a memory of their own."""
    for name, kind in zip(("lies", "next"), kinds, strict=True):
        owner = an_owner(kind, name)
        desk.see(*a_gang_of_pods(name, 2, owner=owner, gpu=1, wish={"runtime": DECLARED}))
        if name == "lies":
            desk.bring_on_its_way(name, lies_0="n1", lies_1="n1")
            desk.bind("lies-0", "lies-1")
            desk.wait(10 * LIE * DECLARED)
            end(desk, "lies-0", "lies-1")
    assert desk.ledger.runtimes.lies("default", observed_runs.creditor(desk.record("next"))) is not believed


def expected(desk: Desk) -> float:
    """How long the next gang of this owner is expected to run: seconds."""
    desk.see(*a_gang_of_pods("next", 2, owner=JOB, gpu=1, wish={"runtime": DECLARED}))
    return observed_runs.expect(desk.ledger, desk.record("next")).middle


def test_gangs_that_end_teach_what_their_owners_declarations_are_worth(desk: Desk) -> None:
    """An owner whose gangs always end after three fifths of what it declared is believed so much."""
    for number in range(KEPT):
        run(desk, f"train{number}", 0.6 * DECLARED)
    assert expected(desk) == pytest.approx(0.6 * DECLARED)


def test_a_declaration_is_remembered_when_nobody_is_left_to_tell_it(desk: Desk, told: list[Told]) -> None:
    """The gang is read off its live members, and at its end there are none: what it said when it began counts."""
    run(desk, "train", 500.0)
    assert told == [("default", "Job", 2, DECLARED, 500.0)]


def test_members_may_end_long_after_each_other(desk: Desk, told: list[Told]) -> None:
    """The gang has ended with its last member."""
    begin(desk)
    desk.wait(300.0)
    end(desk, "train-0")
    desk.wait(400.0)
    end(desk, "train-1")
    assert told == [("default", "Job", 2, DECLARED, 700.0)]


def test_a_gang_whose_only_speaker_has_ended_is_expected_to_run_on_as_declared(
    desk: Desk, told: list[Told]
) -> None:
    """The annotation is on the first member alone, which ends first: neither the estimate nor the lesson is lost
    with it.
    """
    begin(desk)
    silent = a_gang_of_pods("train", 2, owner=JOB, gpu=1)[1].membership
    desk.change("train-1", membership=silent)
    desk.wait(600.0)
    end(desk, "train-0")
    assert observed_runs.expect(desk.ledger, desk.record("train")).middle == DECLARED
    desk.wait(10.0)
    end(desk, "train-1")
    assert told == [("default", "Job", 2, DECLARED, 610.0)]


def test_a_gang_is_measured_by_what_it_had_its_turn_by(desk: Desk, told: list[Told]) -> None:
    """Who was let past others for a short runtime, and declares a long one later, has not kept its word."""
    begin(desk)
    desk.wait(10.0)
    for other in a_gang_of_pods("train", 2, owner=JOB, gpu=1, wish={"runtime": 2 * DECLARED}):
        desk.change(other.key.name, membership=other.membership)
    desk.wait(2 * DECLARED - 10.0)
    end(desk, "train-0", "train-1")
    assert told == [("default", "Job", 2, DECLARED, 2 * DECLARED)]


def test_a_lie_is_told_once(desk: Desk, told: list[Told]) -> None:
    """It was told when the gang overran; at its end only what it took is."""
    begin(desk)
    desk.wait((LIE + 1) * DECLARED)
    assert desk.ledger.runtimes.lies("default", "Job")
    end(desk, "train-0", "train-1")
    assert told == [("default", "Job", 2, None, (LIE + 1) * DECLARED)]


def test_part_of_a_run_says_nothing_of_the_whole(desk: Desk, told: list[Told]) -> None:
    """A member is lost and made again: what the gang runs from then on is not what was declared."""
    begin(desk)
    desk.wait(400.0)
    desk.lose("train-1")
    desk.see(a_gang_of_pods("train", 2, owner=JOB, gpu=1, wish={"runtime": DECLARED})[1])
    desk.bring_on_its_way("train", train_1="n1")
    desk.bind("train-1")
    desk.wait(300.0)
    end(desk, "train-0", "train-1")
    assert told == [("default", "Job", 2, None, 300.0)]


def test_who_comes_again_without_a_word_is_not_held_to_the_old_one(desk: Desk) -> None:
    """What it declared counts as long as it runs, and not for the time when it waits again."""
    begin(desk)
    silent = a_gang_of_pods("train", 2, owner=JOB, gpu=1)
    desk.lose("train-1")
    desk.change("train-0", membership=silent[0].membership)
    desk.see(silent[1])
    assert (
        observed_runs.expect(desk.ledger, desk.record("train")).middle == desk.ledger.policy.default_runtime
    )


def test_one_member_that_failed_teaches_nothing(desk: Desk, told: list[Told]) -> None:
    """The gang would have run for longer, or for nothing; whichever of them ends first."""
    for gang, phases in (("a", (Phase.SUCCEEDED, Phase.FAILED)), ("b", (Phase.FAILED, Phase.SUCCEEDED))):
        begin(desk, gang)
        desk.wait(600.0)
        for name, phase in zip((f"{gang}-0", f"{gang}-1"), phases, strict=True):
            end(desk, name, phase=phase)
    assert told == []


def test_who_was_deleted_teaches_nothing(desk: Desk, told: list[Told]) -> None:
    """Nobody knows for how long it would have run."""
    begin(desk)
    desk.wait(600.0)
    desk.lose("train-0", "train-1")
    assert told == []
