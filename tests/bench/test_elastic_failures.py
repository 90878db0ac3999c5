"""What the bench makes of the lines that workers printed when one of them was lost."""

import math

import pytest

from bench.elastic.failures import TARGETS, Loss, in_rounds, lost, summary, summed
from bench.elastic.following import Output, parsed

ENTERED = (
    "gangwright: {}: round {}: rank 0 of 3, learning rate × 1, step 1 (doorstep 1 ms, init 70 ms, sync 3 ms)"
)


def step(worker, at, number, round_=1, size=3):
    return {"worker": worker, "pod": worker, "at": at, "step": number, "round": round_, "size": size}


def story():
    """Three take two steps each; c is struck at 2.5; a and b go on in round 2; d makes them three in round 3."""
    for number in (1, 2):
        yield from (step(worker, float(number), number) for worker in "abc")
    yield from (step(worker, 3.0, 3, 2, 2) for worker in "ab")
    yield from (step(worker, 6.0, 4, 3) for worker in "abd")


def test_times_since_the_blow():
    """Recovered is the first step of somebody who was there before; nothing was taken twice."""
    found = summed("killed", list(story()), 1, 2.5, 6.0)

    assert (found.recovered_s, found.whole_s, found.lost_steps) == (0.5, 3.5, 0)


def test_a_newcomer_is_no_survivor():
    """Its first step says nothing of those that stood still."""
    seen = [*story(), step("e", 2.6, 3, 2, 2)]

    assert summed("killed", seen, 1, 2.5, 6.0).recovered_s == 0.5


def test_nobody_survives():
    """Then there is no figure."""
    with pytest.raises(LookupError, match="frozen: no survivor"):
        summed("frozen", [step("a", 1.0, 1)], 1, 2.5, 6.0)


def test_lost_steps():
    """One that a worker took twice, and one that nobody took."""
    assert lost(list(story())) == 0
    assert lost([*story(), step("a", 6.1, 4, 3)]) == 1
    assert lost([*story(), step("a", 6.2, 6, 3)]) == 1


def test_rounds_come_from_what_workers_say(tmp_path):
    """A step belongs to the round that its worker entered before."""
    place = tmp_path / "a" / "main-0.log"
    said = [
        ENTERED.format("a", 4),
        '{"step": 1, "at": 1.0, "size": 3}',
        ENTERED.format("a", 5),
        '{"step": 2, "at": 2.0, "size": 2}',
    ]
    output = Output(list)
    output.lines = [parsed(line, place) for line in said]

    assert [(own["step"], own["round"]) for own in in_rounds(output)] == [(1, 4), (2, 5)]


def test_the_worst_is_held_against_the_target():
    """One slow recovery of three is a miss, however good the median."""
    found = [Loss("killed", seconds, 5.0, 0) for seconds in (0.3, 0.4, 1.2)] + [
        Loss("master", 0.25, math.nan, 2, 1.5)
    ]
    said = summary(found)

    assert said["killed_recovered_s"] == {"median": 0.4, "range": [0.3, 1.2]}
    assert said["missed"] == ["killed_recovered_s", "lost_steps"]
    assert "master_whole_s" not in said
    assert said["targets"] == TARGETS
