"""The judgments on what examples wrote down find what they are there to find."""

import json

import numpy as np
import pytest

from tests.stories.elastic.support import diaries
from tests.stories.elastic.support.diaries import Diary, Process


def a_step(number, samples, rank=0, size=2, *, epoch=0, at=None):
    when = number if at is None else at
    return {"step": number, "epoch": epoch, "rank": rank, "size": size, "samples": samples, "at": when}


def a_process(rank, *samples, size=2, heard=None, weight=1.0):
    """Trains the samples of each step, beginning with the first one."""
    steps = [a_step(number, each, rank, size) for number, each in enumerate(samples)]
    end = {"rank": rank, "size": size, "steps": len(steps)}
    return Process(f"{rank:012x}", heard or (rank, size), steps, [np.array([weight])], end)


RIGHT = Diary([a_process(0, [0, 2], [4]), a_process(1, [1, 3], [5])], {f"{0:012x}"})


def steps(diary):
    return [step for process in diary.processes for step in process.steps]


def test_a_right_training_is_not_blamed():
    """Each rank has its half, rank 0 writes, and everything is as stock had it."""
    assert diaries.one_for_each_rank(RIGHT, 2) == diaries.one_writer(RIGHT) == []
    assert diaries.all_divided(steps(RIGHT), 6, 0) == diaries.apart(steps(RIGHT)) == []
    for judged in (diaries.as_long_as, diaries.same_samples, diaries.same_weights):
        assert judged(RIGHT, RIGHT) == []


def test_two_that_each_think_they_are_alone_are_found():
    """Both train the same half, both write, and both heard that they are rank 0 of 1."""
    tokens = {f"{rank:012x}" for rank in (0, 1)}
    wrong = Diary([a_process(rank, [0, 2], [4], heard=(0, 1)) for rank in (0, 1)], tokens)
    assert len(diaries.one_for_each_rank(wrong, 2)) == 2
    assert diaries.one_writer(wrong) == ["the ranks that wrote are [0, 1]"]
    assert diaries.all_divided(steps(wrong), 6, 1) == [
        "epoch 0: 3 of 6 samples were not trained",
        "epoch 0: 3 samples were trained once more, where 1 may be",
    ]
    assert diaries.apart(steps(wrong)) == ["2 steps train samples on two ranks, the first is 0"]
    assert diaries.same_samples(wrong, RIGHT) == ["rank 1 trained other samples than stock's"]


def test_a_rank_that_is_missing_is_found():
    """A training of one is not one of two."""
    alone = Diary([a_process(0, [0, 2], [4])], {f"{0:012x}"})
    assert diaries.one_for_each_rank(alone, 2) == ["the ranks are [0]"]


def test_other_steps_and_weights_are_found():
    """One step fewer, or a weight that is a little off, is a difference to stock."""
    other = Diary([a_process(0, [0, 2]), a_process(1, [1, 3], [5], weight=1.0001)], {f"{0:012x}"})
    assert diaries.as_long_as(other, RIGHT) == ["rank 0 made 1 steps and says 1, stock 2"]
    assert diaries.same_weights(other, RIGHT) == ["rank 1: weights are 0.0001 from stock's"]


def test_weights_that_are_no_numbers_are_found():
    """A NaN is close to nothing."""
    other = Diary([a_process(0, [0, 2], [4], weight=np.nan)], set())
    assert diaries.same_weights(other, RIGHT) == ["rank 0: weights are nan from stock's"]


@pytest.mark.parametrize(
    ("padding", "found"), [(1, 0), (0, 1)], ids=["as much as may be", "more than may be"]
)
def test_padding_may_come_twice(padding, found):
    """A sampler fills up the last step with samples of the first ones, so many as are documented."""
    padded = [a_step(0, [0, 2]), a_step(0, [1, 0], 1)]
    assert len(diaries.all_divided(padded, 3, padding)) == found


def test_a_step_that_a_rank_left_out_is_found():
    """Of the last step some ranks may not have told yet."""
    told = [
        a_step(0, [0]),
        a_step(0, [1], 1),
        a_step(1, [2]),
        a_step(2, [3]),
        a_step(2, [4], 1),
        a_step(3, [5]),
    ]
    assert diaries.all_made(told) == ["1 steps are not made by all ranks, the first is 1"]
    assert diaries.all_made(told[:3]) == []
    assert diaries.all_made(told[:2] + told[3:]) == diaries.all_made(told)


def test_epochs_are_told_apart_by_size():
    """One in which the size changed is of none, and the last one may go on."""
    told = [a_step(0, [0], size=2), a_step(1, [1], size=2, epoch=1), a_step(2, [2], size=3, epoch=1)]
    told += [a_step(3, [3], size=3, epoch=2), a_step(4, [4], size=3, epoch=3)]
    found = diaries.by_size(told)
    assert {size: [step["step"] for step in each] for size, each in found.items()} == {2: [0], 3: [3]}


def test_a_rehearsal_is_left_out():
    """A newcomer's first step of all was made alone, before it joined at a later one."""
    joined = [a_step(number, [number]) for number in (7, 0, 8)]
    assert [step["step"] for step in diaries.trained(joined)] == [7, 8]
    assert [step["step"] for step in diaries.trained([a_step(0, [0]), a_step(1, [1])])] == [0, 1]


def test_a_step_counts_as_it_was_made_last():
    """Two of three made a step again without the third, and later all of them began again from a checkpoint."""
    once = [Process(f"{rank:012x}", steps=[a_step(3, [rank], rank, 3, at=1)]) for rank in range(3)]
    once[0].steps.append(a_step(4, [8], 0, 2, at=2))
    again = [Process(f"{rank + 8:012x}", steps=[a_step(3, [5 + rank], rank, 2, at=9)]) for rank in (0, 1)]
    counted = diaries.effective(Diary(once + again, set()))
    assert [(step["step"], step["samples"]) for step in counted] == [(3, [5]), (3, [6]), (4, [8])]


def test_what_is_read_is_what_was_written(tmp_path):
    """Files of a process are put together by its token; what is none of its own makes it a writer."""
    token = f"{7:012x}"
    (tmp_path / f"set-up.{token}.json").write_text(json.dumps({"rank": 1, "size": 2}))
    (tmp_path / f"steps.{token}.jsonl").write_text(json.dumps(a_step(0, [3], 1)) + "\n")
    (tmp_path / f"end.{token}.json").write_text(json.dumps({"rank": 1, "size": 2, "steps": 1}))
    np.savez(tmp_path / f"weights.{token}.npz", np.ones(2))
    quiet = diaries.read(tmp_path)
    assert (quiet.processes[0].heard, quiet.processes[0].sequence(), quiet.writers) == ((1, 2), [[3]], set())
    (tmp_path / f"checkpoint.{token}.tf-1.index").touch()
    (tmp_path / "checkpoint").touch()
    assert diaries.one_writer(diaries.read(tmp_path)) == ["the ranks that wrote are [1]"]
