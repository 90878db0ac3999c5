"""PyTorch with real Horovod: the same loop, the same ring, and Horovod's own sampler, which deals samples by rank
and size.
"""

from functools import partial

import pytest

from bench.elastic.jobs import SCRIPTS
from scheduler.elastic.runtime import checkpoint_file
from tests.stories.elastic.horovod.support.ring import joined_and_left, trains

STOCK_TORCH = SCRIPTS / "stock_torch.py"

pytestmark = [pytest.mark.plane, pytest.mark.timeout(500)]


@pytest.fixture
def job(torch_python, rings):
    """`job(*options)` gives a ring whose processes end with the test."""
    return partial(rings, torch_python, STOCK_TORCH)


def together(*workers):
    """What they said of each step that all of them did."""
    said = [{one["step"]: one for one in worker.steps()} for worker in workers]
    return [[each[step] for each in said] for step in sorted(set.intersection(*map(set, said)))]


def test_an_unmodified_torch_script_joins_leaves_and_recovers(job):
    """Weights are the same on every rank, an announced change loses no step, and a killed rank 0 at most one."""
    ring = job("--sleep", 0.05)
    first, second, third = joined_and_left(ring)
    ring.kill(first)
    ring.until(lambda: trains(third, size=1))
    for pair in ((first, second), (first, third)):
        shared = together(*pair)
        assert len(shared) > 5, ring.story()
        assert all(one["sum"] == other["sum"] for one, other in shared), ring.story()
    steps = [one["step"] for one in first.steps()]
    assert steps == list(range(1, len(steps) + 1))
    after = [one["step"] for one in third.steps() if one["size"] == 1]
    assert after[0] >= steps[-1]


def test_the_sampler_deals_for_those_who_are_there(job):
    """After a join and after an orderly leave no sample of the epoch comes twice and none is left out."""
    ring = job("--sleep", 0.02, "--batch", 8, "--samples", 4000)
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    second = ring.start("w-1")
    ring.until(lambda: trains(first, 12, size=2) and trains(second, 12, size=2))
    ring.remove(second)
    ring.until(lambda: second.dead and trains(first, 12, size=1))
    ring.until(lambda: first.steps()[-1]["epoch"] > 0)
    taken = [
        number
        for worker in (first, second)
        for one in worker.steps()
        if one["epoch"] == 0
        for number in one["chosen"]
    ]
    assert sorted(taken) == list(range(4000))


def test_a_suspended_job_goes_on_from_its_checkpoint(job, tmp_path):
    """Model, optimizer, sampler and plain values go through the file: the next worker takes the very next samples, and
    has the weights, bit by bit, of one that was never interrupted."""
    kept = str(tmp_path / "kept")
    env = {"GANGWRIGHT_CHECKPOINT": kept, "GANGWRIGHT_CHECKPOINT_RUN": "run"}
    ring = job("--optimizer", "adam", "--sleep", 0.01, "--batch", 8, "--samples", 2000, **env)
    first = ring.start("w-0")
    ring.until(lambda: trains(first, 12))
    ring.remove(first, checkpoint=True)
    ring.until(lambda: first.dead)
    assert first.process.poll() == 0, ring.story()
    assert checkpoint_file.newest(str(tmp_path / "kept" / "run"))
    ring.extra = {"restore": kept}
    second = ring.start("w-1")
    ring.until(lambda: second.steps() and second.steps()[-1]["epoch"] > 0)
    steps = [*first.steps(), *second.steps()]
    assert [one["step"] for one in steps] == list(range(1, len(steps) + 1))
    taken = [number for one in steps if one["epoch"] == 0 for number in one["chosen"]]
    assert sorted(taken) == list(range(2000))

    ring.remove(second)
    ring.until(lambda: second.dead)
    ring.extra = {}
    whole = ring.start("w-2")
    ring.until(lambda: whole.steps() and whole.steps()[-1]["epoch"] > 0)
    assert [one["sum"] for one in whole.steps()[:250]] == [one["sum"] for one in steps[:250]]


def test_own_work_is_told_apart_from_waiting(job):
    """Steps take as long on both; the time until the optimizer waits for gradients tells which of the two is slow."""
    ring = job("--sleep", 0.04)
    first = ring.start("w-0")
    ring.until(lambda: trains(first))
    second = ring.start("w-1", options=["--sleep", 0.1])
    ring.until(lambda: trains(first, 25, size=2))
    mine, theirs = (
        sorted(one["compute_s"] for one in worker.progress if one["compute_s"]) for worker in (first, second)
    )
    assert theirs[len(theirs) // 2] > 1.5 * mine[len(mine) // 2]
