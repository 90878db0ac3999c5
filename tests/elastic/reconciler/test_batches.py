"""What each rank takes of a step: sums that must come out, whatever the size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.elastic.job.spec import Batch, BatchMode, LearningRate
from scheduler.elastic.reconciler import round_plan


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(BatchMode), st.integers(1, 64), st.integers(1, 64), st.integers(1, 40), st.integers(1, 8)
)
def test_the_ranks_take_the_global_batch_between_them(
    mode: BatchMode, per_worker: int, passes: int, size: int, base: int
) -> None:
    """No sample is lost or taken twice, and nobody has more in memory at once than one worker's share."""
    batch = Batch(mode=mode, per_worker=per_worker, limit=per_worker * passes)
    whole = round_plan.step_samples(batch, per_worker, size, base)
    assert whole is not None
    ranks = [round_plan.rank_batch(mode, whole, per_worker, size, rank) for rank in range(size)]

    assert sum(one.local for one in ranks) == whole
    assert max(one.local for one in ranks) - min(one.local for one in ranks) <= (
        per_worker if mode is BatchMode.FIXED else 1
    )
    assert all(one.local <= per_worker * one.accumulate for one in ranks)


@pytest.mark.parametrize(
    ("rule", "scale"), [(LearningRate.LINEAR, 4.0), (LearningRate.SQRT, 2.0), (LearningRate.NONE, 1.0)]
)
def test_the_rate_follows_the_global_batch(rule: LearningRate, scale: float) -> None:
    """Four times the quorum's batch."""
    batch = Batch(mode=BatchMode.PER_WORKER, per_worker=8, learning_rate=rule)

    assert round_plan.rate_scale(batch, 8, 8, 2) == scale


def test_a_fixed_batch_leaves_the_rate_alone() -> None:
    """The mathematics is the same at every size."""
    batch = Batch(mode=BatchMode.FIXED, per_worker=8, limit=64)

    assert [round_plan.rate_scale(batch, 8, size, 8) for size in (1, 3, 8, 20)] == [1.0] * 4


def test_a_script_that_keeps_its_own_batch_is_told_a_rate_only() -> None:
    """In proportion to the workers."""
    assert round_plan.step_samples(Batch(), None, 4, 2) is None
    assert round_plan.rate_scale(Batch(), None, 4, 2) == 2.0
