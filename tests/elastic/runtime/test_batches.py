"""What the master decides and what the child makes of it fit: nothing is lost, and gradients are the mean over all
samples.
"""

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.elastic.job import spec as specs
from scheduler.elastic.reconciler import round_plan as master
from scheduler.elastic.runtime import data_position, round_assignment
from scheduler.elastic.runtime.agent_client import Shim
from scheduler.elastic.runtime.data_position import Batch
from scheduler.elastic.runtime.worker_context import Worker

CASES = st.tuples(
    st.sampled_from(data_position.MODES),
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(0, 200),
    st.integers(1, 12),
)


def dealt(mode, per_worker, size, limit, base):
    """What the master tells each rank, as the child decodes it."""
    spec = specs.Batch(mode=specs.BatchMode(mode), per_worker=per_worker, limit=limit)
    whole = master.step_samples(spec, per_worker, size, base)
    told = [
        {
            "round": 1,
            "rank": rank,
            "size": size,
            "batch": master.rank_batch(mode, whole, per_worker, size, rank),
        }
        for rank in range(size)
    ]
    return [round_assignment.decode(msgspec.json.encode(one)).batch for one in told]


@given(CASES)
def test_the_parts_make_up_the_total(case):
    """What the ranks take together is the total that each of them was told."""
    made = dealt(*case)
    assert {one.total for one in made} == {sum(one.local for one in made)}


@given(CASES, st.integers(1, 500), st.integers(0, 499))
def test_a_step_takes_every_sample_once(case, length, at):
    """The shares of all ranks are the next samples of the epoch, each exactly once."""
    at %= length
    made = dealt(*case)
    shares = [data_position.step(range(length), at, one, case[2], rank) for rank, one in enumerate(made)]
    taken = [index for share in shares for index in share.indices]
    assert taken == list(range(at, at + shares[0].total))
    assert {share.total for share in shares} == {min(made[0].total, length - at)}


@given(CASES, st.integers(1, 300))
def test_weighted_gradients_are_the_mean_over_all_samples(case, length):
    """The average over ranks of weighted mean gradients is the sum over all samples divided by their number."""
    size = case[2]
    gradients = np.random.default_rng(3).normal(size=length)
    shares = [data_position.step(gradients, 0, one, size, rank) for rank, one in enumerate(dealt(*case))]
    each = [
        sum(part.weight * np.mean(part.indices) for part in share.passes if len(part.indices))
        for share in shares
    ]
    assert np.mean(each) == pytest.approx(np.mean(gradients[: shares[0].total]))


@pytest.mark.slow
@given(CASES)
@example(("fixed", 1, 2, 3, 1))  # rank 0 takes two passes, rank 1 one
def test_no_pass_is_wider_than_the_width(case):
    """A script that pads every pass to the width never traces anew, at any size."""
    _, per_worker, size, _, _ = case
    for rank, one in enumerate(dealt(*case)):
        share = data_position.step(range(10_000), 0, one, size, rank, per_worker)
        assert all(len(part.indices) <= share.width for part in share.passes)
        assert share.width == per_worker


@pytest.mark.parametrize(
    ("mode", "size", "expected"),
    [
        ("per-worker", 3, [(96, 32, 1)] * 3),
        ("capped", 3, [(70, 24, 1), (70, 23, 1), (70, 23, 1)]),
        ("capped", 2, [(64, 32, 1)] * 2),
        ("fixed", 3, [(128, 64, 2), (128, 32, 1), (128, 32, 1)]),
        ("fixed", 1, [(128, 128, 4)]),
        ("fixed", 5, [(128, 26, 1), (128, 26, 1), (128, 26, 1), (128, 25, 1), (128, 25, 1)]),
    ],
)
def test_the_modes_deal_as_they_say(mode, size, expected):
    """Batches of 32 with a limit of 70, or the total of four workers kept."""
    made = dealt(mode, 32, size, 70 if mode == "capped" else 0, 4)
    assert [(one.total, one.local, one.accumulate) for one in made] == expected


def test_the_rate_goes_up_along_a_line_and_down_at_once():
    """Growth is ramped, shrinking is not."""
    assert [data_position.ramp(1.0, 3.0, step, 4) for step in range(6)] == [1.0, 1.5, 2.0, 2.5, 3.0, 3.0]
    assert data_position.ramp(3.0, 1.0, 0, 4) == 1.0
    assert data_position.ramp(1.0, 3.0, 0, 0) == 3.0


def test_a_worker_ramps_over_the_steps_that_its_round_says(monkeypatch):
    """Neither its environment nor a round that it was told of and never entered counts: the factor is the same on
    every rank.
    """
    monkeypatch.setenv("GANGWRIGHT_RAMP_STEPS", "999")
    mine = Worker(Shim("http://127.0.0.1:1", ""))
    mine.progress.step = 10
    mine.entered(round_assignment.Assignment(2, 0, 3, lr_scale=3.0, ramp_steps=4), 1.0)
    mine.progress.step = 12
    mine.assignment = round_assignment.Assignment(3, 0, 4, lr_scale=4.0)

    assert mine.lr_scale() == 2.0


def test_resizes_in_the_middle_of_an_epoch_lose_and_repeat_nothing():
    """Sizes that change after every step still take each sample of the epoch exactly once."""
    sizes = itertools.cycle([1, 3, 2, 5, 4])
    at, taken = 0, []
    while at < 1000:
        size = next(sizes)
        shares = [
            data_position.step(range(1000), at, one, size, rank)
            for rank, one in enumerate(dealt("capped", 16, size, 50, 1))
        ]
        taken += [index for share in shares for index in share.indices]
        at += shares[0].total
    assert taken == list(range(1000))


def test_a_rank_may_be_left_without_work_at_the_end_of_an_epoch():
    """One sample for three ranks: the others have an empty pass of no weight, and still take part."""
    shares = [data_position.step([7], 0, Batch("capped", 9, 3), 3, rank) for rank in range(3)]
    assert [share.indices for share in shares] == [[7], [], []]
    assert [share.passes[0].weight for share in shares] == [3.0, 0.0, 0.0]
