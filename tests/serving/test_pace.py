"""Buckets of permits: what is asked for may cost several."""

from scheduler.serving.rate_limit import Buckets


def test_a_question_may_cost_several_permits():
    """All of them are taken or none; the wait is for those that lack, and a smaller one is not kept out by it."""
    buckets = Buckets(burst=10, rate=2)

    assert buckets.take("a", 0.0, 7) == 0
    assert buckets.take("a", 0.0, 5) == 1.0
    assert buckets.take("a", 0.0, 3) == 0
    assert buckets.take("a", 100.0, 10) == 0
    assert buckets.take("a", 100.0) == 0.5
