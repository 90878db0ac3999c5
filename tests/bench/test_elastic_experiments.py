"""The pure parts of ElasticDL's experiments: use, dips, regrowth, intervals, and the published timelines."""

import math

import pytest
from typer.testing import CliRunner

from bench.elastic.__main__ import app
from bench.elastic.experiments import accuracy, convergence, plots, published, serving, slots, two_jobs
from bench.elastic.experiments.working import Work
from bench.elastic.following import Output


def a_step(worker, at, **words):
    return {"step": 1, "worker": worker, "at": at, "size": 1, "rank": 0, **words}


def a_work(*steps, submitted=0.0):
    work = Work("job", submitted, Output(list))
    work.output.lines += steps
    return work


# ── use ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_slot_is_used_from_a_worker_s_first_step_to_its_last():
    """Its start, and what it does after its last step, count for nothing."""
    steps = [a_step("a", 3.0), a_step("a", 9.0), a_step("b", 5.0), a_step("b", 7.0)]

    assert slots.by_worker(steps) == [(3.0, 9.0), (5.0, 7.0)]


def test_timeline_counts_what_is_used_at_once():
    """What began before or ends after is cut; times count from the beginning."""
    line = slots.timeline([(8.0, 14.0), (12.0, 99.0)], 10.0, 20.0)

    assert line == {0.0: 1, 2.0: 2, 4.0: 1, 10.0: 0}
    assert slots.mean_use(line, 2) == pytest.approx((2 + 2 * 2 + 6) / 20)


def test_whoever_leaves_as_another_comes_leaves_no_gap():
    """Two workers one after the other are one used slot."""
    assert slots.timeline([(0.0, 5.0), (5.0, 10.0)], 0.0, 10.0) == {0.0: 1, 5.0: 1, 10.0: 0}


def test_gap_is_a_dip_after_more_serving_and_regrowth_after_less():
    """Each belongs to the last order before it, from the first free slot to the last that is used again."""
    line = {0.0: 2, 10.0: 1, 12.0: 0, 13.0: 2, 20.0: 1, 31.0: 2, 40.0: 2}
    found = slots.gaps(line, 2, [(9.9, 1), (20.0, -1)])

    assert [(gap.begin, gap.seconds, gap.after) for gap in found] == [(10.0, 3.0, 1), (20.0, 11.0, -1)]
    assert (slots.longest(found, dips=True), slots.longest(found, dips=False)) == (3.0, 11.0)


def test_gap_that_never_closes_lasts_to_the_end():
    """It is not forgotten, and what was free before any order is nobody's."""
    line = {0.0: 1, 5.0: 2, 20.0: 1, 50.0: 0}

    assert [gap.seconds for gap in slots.gaps(line, 2, [(19.0, -1)])] == [30.0]
    assert slots.longest([], dips=True) == 0.0


def test_longest_pause_is_between_steps_of_whichever_worker():
    """A job does not pause while one of its workers steps."""
    assert slots.longest_pause([a_step("a", 1.0), a_step("b", 2.5), a_step("a", 3.0)]) == 1.5


# ── what was published ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "count", "seconds", "use"),
    [
        ("gang_allreduce", 6, 968, 0.621),
        ("elastic_allreduce", 6, 809, 0.776),
        ("overall_cluster", 8, 460, 0.965),
    ],
)
def test_published_use_is_the_integral_of_the_timeline(name, count, seconds, use):
    """The targets are these figures."""
    line = published.timeline(name)

    assert max(line) == seconds
    assert slots.mean_use(line, count) == pytest.approx(use, abs=0.0006)


def test_published_orders_are_what_training_gave_way_to_and_what_serving_gave_back():
    """Five pods more in two steps, five fewer in three."""
    orders = published.orders(published.timeline("elastic_training"), published.timeline("tf_serving"))

    assert orders == [(60.0, 1), (160.0, 4), (230.0, -2), (330.0, -2), (400.0, -1)]


def test_published_dips_and_regrowth():
    """7 s at most until a slot that was taken is used again, and about as long as the target until the job has grown
    back.
    """
    asked = published.orders(published.timeline("elastic_training"), published.timeline("tf_serving"))
    gaps = slots.gaps(published.timeline("overall_cluster"), 8, asked)

    assert slots.longest(gaps, dips=True) == 7.0
    assert slots.longest(gaps, dips=False) == 25.0


def test_published_accuracies_are_two_runs_of_each_size():
    """Every column is drawn in the colour of its size."""
    columns = published.accuracies()

    assert {len(own) for own in columns.values()} == {99}
    assert all(sum(name.startswith(begins) for name in columns) == 2 for begins in plots.THEIRS.values())


# ── the experiments ─────────────────────────────────────────────────────────────────────────────────────


def a_run(name, total, use):
    return two_jobs.Run(name, total, use, {0.0: 4, total: 0}, (1.0, 2.0), (0.0, 1.0), 0.5)


def test_two_jobs_count_from_the_first_submission_to_the_last_step():
    """A start that takes long is part of the total, and lowers the use."""
    first = a_work(a_step("a", 110.0), a_step("a", 150.0), submitted=100.0)
    second = a_work(a_step("b", 130.0), a_step("b", 200.0), submitted=120.0)
    run = two_jobs.summed("elastic", [first, second])

    assert (run.total, run.submitted, run.first_steps) == (100.0, (0.0, 20.0), (10.0, 30.0))
    assert run.use == pytest.approx((40 + 70) / 600)
    assert run.longest_pause == 70.0


def test_two_jobs_summary_says_what_is_missed():
    """Enough time saved, too little used: the second is named."""
    last = two_jobs.summary(a_run("gang", 300.0, 0.6), a_run("elastic", 240.0, 0.7))

    assert (last["saved_percent"], last["use_percent"], last["missed"]) == (20.0, 70.0, ["use_percent"])
    assert last["published"]["saved_percent"] == 16.4


def test_serving_summary_holds_each_target_on_its_side():
    """A dip must not be longer, the fewest workers must not be fewer."""
    line = {0.0: 8, 60.0: 7, 68.0: 8, 460.0: 0}
    run = serving.Run(460.0, line, line, line, ((60.0, 1),), 0, 0.1)
    last = serving.summary(run)

    assert last["longest_dip_s"] == 8.0
    assert last["missed"] == ["longest_dip_s", "fewest_workers"]


def test_epoch_s_accuracy_is_rank_0_s():
    """Every worker prints one; a step that was done again counts as it was done last."""
    work = a_work(
        a_step("a", 1.0, accuracy=0.5, size=2),
        a_step("b", 1.0, accuracy=0.4, rank=1),
        a_step("a", 2.0, step=9),
        a_step("a", 3.0, accuracy=0.9, size=4, step=20),
    )
    run = convergence.summed(convergence.ELASTIC, 1, work)

    assert (run.accuracies, run.sizes) == ((0.5, 0.9), (2, 4))


def test_elastic_run_is_large_in_its_middle_third():
    """From two to four and back, by epoch."""
    assert convergence.schedule(18, 2, 4) == [
        {"epoch": 0, "workers": 2},
        {"epoch": 6, "workers": 4},
        {"epoch": 12, "workers": 2},
    ]


# ── accuracy ────────────────────────────────────────────────────────────────────────────────────────────


def test_interval_is_student_s_over_paired_differences():
    """Five differences of mean 0 and standard deviation 0.01: 2.776 standard errors to either side."""
    base = dict.fromkeys(range(5), 0.9)
    moved = {seed: 0.9 + by for seed, by in enumerate([-0.01, 0.01, 0.01, -0.01, 0.0])}
    found = accuracy.compare(moved, base, 0.02)

    assert found.mean == pytest.approx(0.0)
    assert found.high == pytest.approx(2.776 * 0.01 / math.sqrt(5), rel=1e-3)
    assert found.low == pytest.approx(-found.high)
    assert found.equivalent
    assert not accuracy.compare(moved, base, 0.01).equivalent


def test_one_seed_proves_nothing():
    """Its interval has no bounds, so nothing is equivalent."""
    assert not accuracy.compare({1: 0.9}, {1: 0.9}, 0.5).equivalent


def test_margin_is_a_point_or_the_runs_own_spread():
    """Runs that differ by their seed alone set the scale, never below a point."""
    assert accuracy.margin([{1: 0.9, 2: 0.9}]) == 0.01
    assert accuracy.margin([{1: 0.9, 2: 0.94}, {1: 0.9, 2: 0.94}]) == pytest.approx(1.5 * 0.04 / math.sqrt(2))


def test_convergence_summary_pairs_by_seed():
    """What both sizes of one seed share falls out."""
    runs = [
        convergence.Run(name, seed, (0.9 + seed / 100,), (2,))
        for name in convergence.SIZES
        for seed in (1, 2, 3)
    ]
    last = convergence.summary(runs)

    assert last["missed"] == []
    assert last["differences"]["elastic_minus_2"] == {"mean": 0.0, "interval": [0.0, 0.0]}


# ── pictures and words ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.extended
def test_pictures_are_drawn(tmp_path):
    """One file an experiment, into a folder that is made."""
    line = {0.0: 8, 60.0: 7, 68.0: 8, 460.0: 0}
    runs = [convergence.Run(name, 1, (0.5, 0.9), (2, 2)) for name in convergence.SIZES]
    drawn = [
        plots.two(a_run("gang", 300.0, 0.6), a_run("elastic", 240.0, 0.8), tmp_path / "out"),
        plots.beside_serving(serving.Run(460.0, line, line, line, ((60.0, 1),), 1, 0.1), tmp_path / "out"),
        plots.accuracies(runs, tmp_path / "out"),
    ]
    assert [path.name for path in drawn] == ["two-jobs.png", "serving.png", "accuracy.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


@pytest.mark.parametrize("which", ["three", "serving,serving", ""])
def test_wrong_word_is_answered_with_the_right_ones(which):
    """Before anything is started."""
    answer = CliRunner().invoke(app, ["experiments", "--which", which])

    assert answer.exit_code == 2
    assert "two-jobs" in answer.output
