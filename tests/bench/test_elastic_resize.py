"""The pure parts of the resize bench: idle times from printed steps, medians, ratios, targets."""

import math
import os
from pathlib import Path

import pytest

from bench.elastic import resize, steps
from bench.elastic.following import Output, parsed
from bench.elastic.roads.ours import spent
from bench.elastic.roads.turn import Turn
from bench.elastic.steps import Change, Idle
from bench.plane import NeverCameError

ENTERED = "gangwright: job-1: round 2: rank 0 of 2, learning rate × 2, step 41 (doorstep 12 ms, init 70 ms, {} 30 ms)"


def a_step(size, at, *, took=0.01, worker="a", rank=0, saves=(), syncs=()):
    return {
        "step": 1, "size": size, "rank": rank, "began": at - took, "at": at, "worker": worker,
        "saves": list(saves), "syncs": list(syncs),
    }  # fmt: skip


def a_turn(road, join, *, step=0.01, bare=0.0):
    idle = Idle(1, 2, join, 0.0, join - bare, 1.0)
    return Turn(road, Change(idle, idle), Change(idle, idle), step, step)


def test_idle_is_from_the_last_step_before_to_the_first_after():
    """The first step is part of it, and is told apart."""
    (idle,) = steps.idles([a_step(1, 10.0), a_step(1, 10.1), a_step(2, 10.5, took=0.15), a_step(2, 10.6)])

    assert (idle.before, idle.after) == (1, 2)
    assert idle.seconds == pytest.approx(0.4)
    assert idle.without_step == pytest.approx(0.25)


def test_saving_and_synchronising_are_the_state_s_part():
    """What the script saw of them is taken off the bare figure, and off no other."""
    (idle,) = steps.idles([a_step(1, 10.0), a_step(2, 11.0, took=0.1, saves=[0.2], syncs=[0.3])])

    assert idle.without_step == pytest.approx(0.9)
    assert idle.bare == pytest.approx(0.4)


@pytest.mark.parametrize(("said", "transfer"), [("sync", 0.03 + 0.2), ("no sync", 0.2 + 0.01)])
def test_loop_s_own_word_on_its_synchronisation_holds_the_save_after_it(said, transfer):
    """No save is counted twice; without a synchronisation every save is one of the script's."""
    word = {"said": ENTERED.format(said), "worker": "a"}
    (idle,) = steps.idles([a_step(1, 10.0), word, a_step(2, 11.0, saves=[0.2, 0.01])])

    assert idle.transfer == pytest.approx(transfer)


def test_change_counts_where_it_took_longest():
    """Of several who were there before and after; a newcomer was not."""
    workers = {
        "old": [a_step(2, 1.0), a_step(3, 1.2)],
        "older": [a_step(2, 1.0), a_step(3, 1.3)],
        "new": [a_step(3, 9.0)],
    }
    assert steps.change(workers, 2, 3).seconds == pytest.approx(0.3)
    with pytest.raises(LookupError, match="from 3 to 2"):
        steps.change(workers, 3, 2)


def test_change_itself_is_told_of_who_ended_its_step_last():
    """The other one was done with that step earlier, and waited for it; the longest idle is still that one's."""
    workers = {
        "early": [a_step(3, 1.0, saves=[0.1]), a_step(4, 3.0, took=1.5, saves=[0.1])],
        "late": [a_step(3, 1.3, saves=[0.1]), a_step(4, 2.9, took=1.2, saves=[0.1])],
    }
    found = steps.change(workers, 3, 4)

    assert found.seconds == pytest.approx(2.0)
    assert found.without_step == pytest.approx(0.5)
    assert found.bare == pytest.approx(2.9 - 1.3 - 1.2 - 0.1)


def test_step_time_leaves_the_first_step_out():
    """It is traced, cached, and slower than the rest."""
    mine = [a_step(2, 1.0, took=5.0), a_step(2, 2.0, took=0.1), a_step(2, 3.0, took=0.1), a_step(1, 4.0)]
    lines = [each for one in mine for each in (one, {**one, "rank": 1, "at": one["at"] + 0.2})]

    assert steps.step_time(lines, 2) == pytest.approx(0.1)
    assert steps.pace(lines, 2) == pytest.approx(1.0)
    assert math.isnan(steps.step_time(lines, 7))


def test_output_is_read_as_it_grows(tmp_path):
    """Half a line waits for its other half; a name before the JSON is no harm; files that come later are read too."""
    one, other = tmp_path / "w-1" / "main-0.log", tmp_path / "w-2" / "main-0.log"
    one.parent.mkdir()
    other.parent.mkdir()
    one.write_text('job-1: {"step": 1, "at"')
    output = Output(lambda: sorted(tmp_path.glob("*/main-0.log")))
    assert output.read() == []

    with one.open("a") as file:
        file.write(': 2.0}\nplain words\n{"broken": \n')
    other.write_text('{"step": 5, "at": 3.0}\n')
    output.read()

    assert output.steps() == [
        {"step": 1, "at": 2.0, "worker": "w-1"},
        {"step": 5, "at": 3.0, "worker": "w-2"},
    ]
    assert {"said": "plain words", "worker": "w-1"} in output.lines
    assert "broken" in output.story()


def test_waiting_for_a_dead_process_ends_with_its_last_words(tmp_path):
    """Nobody waits for minutes for what cannot come."""
    place = tmp_path / "w-1" / "main-0.log"
    place.parent.mkdir()
    place.write_text("no such module\n")
    output = Output(lambda: [place])
    with pytest.raises(NeverCameError, match="no such module"):
        output.until(lambda: False, 60, "a step", alive=lambda: not output.lines)


def test_worker_is_the_folder_of_the_file():
    """One name per process, whatever it prints."""
    assert parsed('{"worker": "liar"}', Path("/logs/w-1/main-0.log"))["worker"] == "w-1"


def test_summary_holds_every_target_against_its_figure():
    """A join that is quick enough, a restart that is not slow enough: the second is named."""
    turns = [a_turn("gangwright", 0.2), a_turn("stock", 3.0), a_turn("restart", 2.0)]
    larger = [(4, a_turn("gangwright", 1.0, bare=0.25)), (8, a_turn("gangwright", 3.0, bare=0.95))]
    last = resize.summary(turns, larger, {"overhead_percent": 0.4})

    assert (last["join_s"], last["stock_join_s"], last["restart_s"]) == (0.2, 3.0, 2.0)
    assert (last["large_4_s"], last["large_8_s"], last["large_8_whole_s"]) == (0.25, 0.95, 3.0)
    assert last["missed"] == ["restart_over_join", "large_8_s"]


def test_ranges_are_told_of_every_road_and_every_larger_size():
    """The median, the least and the most of each figure; a larger size is not mixed with two workers of that road."""
    turns = [a_turn("gangwright", 0.1), a_turn("stock", 3.0), a_turn("gangwright", 0.3)]
    larger = [(4, a_turn("gangwright", 1.0, bare=0.25)), (8, a_turn("gangwright", 3.0, bare=0.9))]

    ours, stock, four, eight = resize.ranges(turns, larger)

    assert (ours["road"], ours["workers"], stock["road"]) == ("gangwright", 2, "stock")
    assert ours["summary"]["join_s"] == {"median": 0.2, "range": [0.1, 0.3], "n": 2}
    assert (four["workers"], eight["workers"], eight["weights"]) == (4, 8, "25 M")
    assert four["summary"]["join_without_first_step_and_state_s"] == {
        "median": 0.25, "range": [0.25, 0.25], "n": 1,
    }  # fmt: skip


def test_processor_time_is_read_of_this_process():
    """It grows as we work."""
    before = spent([os.getpid()])
    while spent([os.getpid()]) <= before:
        sum(range(100_000))

    assert spent([os.getpid()]) - before < 60
