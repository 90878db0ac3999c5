"""Policies over measured step times: near the best size, early."""

import pytest

from bench.sizing import LEAST, POLICIES, SEARCHING, jobs, run, summary
from bench.training import Training

JOBS = {job.name: job for job in jobs()}


@pytest.fixture(scope="module")
def runs():
    return [run(job, parameters) for parameters in POLICIES.values() for job in JOBS.values()]


def test_jobs():
    """Eight jobs of five applications have a choice of sizes, from one worker on."""
    assert len(JOBS) == 8
    assert all(min(job.steps) == 1 and LEAST in job.steps for job in JOBS.values())


@pytest.mark.slow
def test_near_the_best(runs):
    """Both policies find a size within 5 % of the best under their rule, for every job."""
    assert {(one.policy, one.job): one.nearness for one in runs if one.nearness < 0.95} == {}


@pytest.mark.slow
def test_early(runs):
    """They find it within 1 % of the run time of all jobs together, 3 % in the median, and 9 % of each one's."""
    found = summary(runs)

    for policy in POLICIES:
        assert found[f"{policy}_share"] <= 0.01
        assert found[f"{policy}_share_median"] <= 0.03
    assert {(one.policy, one.job): one.share for one in runs if one.share > 0.09} == {}


def test_slow_steps():
    """Steps of five to seven seconds: a size that proves itself is left after the third, or the fourth of them."""
    job = JOBS["bert-384"]
    training = Training(job, POLICIES["efficiency"], LEAST, 0.0, 0)
    training.run(SEARCHING)
    since = {size: when for when, size in training.trail}

    assert since[8] - since[4] < 3.2 * job.steps[4]
    assert since[16] - since[8] < 4.2 * job.steps[8]


@pytest.mark.slow
def test_few_resizes(runs):
    """A search takes no more than seven resizes, from four workers on."""
    assert max(len(one.sizes) for one in runs) <= 8


@pytest.mark.parametrize("policy", POLICIES)
def test_with_noise(policy):
    """Steps that scatter by 5 % change neither what is found by much, nor how long it takes."""
    job = JOBS["deepspeech2-640"]
    for seed in range(3):
        noisy = run(job, POLICIES[policy], noise=0.05, seed=seed)
        assert noisy.nearness >= 0.9
        assert noisy.share <= 0.06
