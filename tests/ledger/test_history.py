"""What a gang that ended teaches about the next one of its owner."""

import pytest

from scheduler.ledger.runtimes import KEPT
from scheduler.model.workload import Phase
from tests.engine.cast import a_gang_of_pods, an_owner
from tests.ledger.desk import Desk

JOB = an_owner("Job", "train")
DECLARED = 1000.0


def run(
    desk: Desk, gang: str, seconds: float, *, ends: Phase = Phase.SUCCEEDED, deletes: bool = False
) -> None:
    """A gang of two of the same owner comes, runs for so long, and ends: one member after the other."""
    own = [f"{gang}-0", f"{gang}-1"]
    desk.see(*a_gang_of_pods(gang, 2, owner=JOB, gpu=1, wish={"runtime": DECLARED}))
    desk.bring_on_its_way(gang, **{name.replace("-", "_"): "n1" for name in own})
    desk.bind(*own)
    desk.wait(seconds)
    for name in own:
        if deletes:
            desk.lose(name)
        else:
            desk.change(name, phase=ends)
    desk.lose(*own)


def expected(desk: Desk) -> float:
    """How long the next gang of this owner is expected to run: seconds."""
    desk.see(*a_gang_of_pods("next", 2, owner=JOB, gpu=1, wish={"runtime": DECLARED}))
    return desk.ledger.expect(desk.record("next")).middle


def test_gangs_that_end_teach_what_their_owners_declarations_are_worth() -> None:
    """An owner whose gangs always end after three fifths of what it declared is believed so much."""
    desk = Desk()
    for number in range(KEPT):
        run(desk, f"train{number}", 0.6 * DECLARED)
    assert expected(desk) == pytest.approx(0.6 * DECLARED)


def test_a_declaration_is_remembered_when_nobody_is_left_to_tell_it() -> None:
    """The gang is read off its live members, and at its end there are none: what it said while it ran counts."""
    desk = Desk()
    desk.ledger.runtimes.ended = lambda *told: ended.append(told)  # type: ignore[method-assign]
    ended: list[tuple[object, ...]] = []
    run(desk, "train", 500.0)
    assert ended == [("default", "Job", 2, DECLARED, 500.0)]


@pytest.mark.parametrize("how", [{"ends": Phase.FAILED}, {"deletes": True}])
def test_who_did_not_succeed_teaches_nothing(how: dict[str, object]) -> None:
    """A gang that failed or was deleted would have run for longer, or for nothing."""
    desk = Desk()
    for number in range(KEPT):
        run(desk, f"train{number}", 0.6 * DECLARED, **how)
    assert expected(desk) == expected(Desk())


def test_what_a_gang_declares_while_it_runs_counts() -> None:
    """An owner that corrects its declaration is measured by the last one."""
    desk = Desk()
    told: list[float | None] = []
    desk.ledger.runtimes.ended = lambda *run: told.append(run[3])  # type: ignore[method-assign]
    pods = a_gang_of_pods("train", 2, owner=JOB, gpu=1, wish={"runtime": DECLARED})
    desk.see(*pods)
    desk.bring_on_its_way("train", train_0="n1", train_1="n1")
    desk.bind("train-0", "train-1")
    desk.wait(10.0)
    for other in a_gang_of_pods("train", 2, owner=JOB, gpu=1, wish={"runtime": 2 * DECLARED}):
        desk.change(other.key.name, membership=other.membership)
    desk.wait(10.0)
    desk.change("train-0", phase=Phase.SUCCEEDED)
    desk.change("train-1", phase=Phase.SUCCEEDED)
    assert told == [2 * DECLARED]
