"""What happens to jobs becomes metrics, once."""

import pytest

from scheduler.elastic.controller import job_metrics
from scheduler.elastic.controller.job_metrics import JobMetrics, moved
from scheduler.elastic.job.status import Member, Phase, Round, Seat, Status, WorkerPhase
from scheduler.elastic.reconciler.job_effects import Resized, Tell
from scheduler.settings import Reported
from scheduler.telemetry.elastic_metrics import ElasticMetrics


def seats(names):
    return tuple(Seat(name, name) for name in names)


def a_round(number, ring, leaving="", holding="", cause="ScaleUp"):
    return Round(number=number, cause=cause, ring=seats(ring), leaving=seats(leaving), holding=seats(holding))


def a_status(own, **more):
    return Status(round=own.number, assignment=own, workers=len(own.ring), **more)


@pytest.fixture
def metrics():
    return ElasticMetrics()


@pytest.fixture
def value(metrics):
    return lambda name, **labels: metrics.registry.get_sample_value(f"gangwright_elastic_{name}", labels)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (a_round(1, "ab"), a_round(2, "abc"), (1, 0, 0)),
        (a_round(1, "abc"), a_round(2, "ab", leaving="c"), (0, 1, 0)),
        (a_round(1, "abc"), a_round(2, "ab"), (0, 0, 1)),
        (a_round(1, "abc"), a_round(2, "", holding="ab"), (0, 2, 1)),
        (a_round(1, "abc"), a_round(2, "abd", leaving="c"), (1, 1, 0)),
        (Round(), a_round(1, "ab"), (2, 0, 0)),
    ],
)
def test_what_a_round_changed(before, after, change):
    """Who joined, who was told to go or to wait, and who was lost."""
    assert moved(before, after) == change


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_what_is_over_has_no_workers(metrics, value, phase):
    """Pods that have ended stay with a job for their logs, for weeks perhaps; no gauge takes them for workers."""
    counting = JobMetrics(metrics)
    ended = Member(name="a", uid="a", phase=WorkerPhase.LEAVING)
    counting.seen("team/train", Status(phase=phase, members=(ended,)))
    counting.refresh(0.0, {}, leading=True)

    assert value("workers", phase="Leaving") == 0
    assert value("jobs", phase=phase.value) == 1


def test_a_round_counts_once(metrics, value):
    """However often its status is written; one that stood before we came is not counted."""
    counting = JobMetrics(metrics)
    counting.known("team/train", "uid-1", a_status(a_round(4, "ab"), restarts=2))
    for _ in range(3):
        counting.decided("team/train", a_status(a_round(4, "ab"), restarts=2))
        counting.decided("team/train", a_status(a_round(5, "abc"), restarts=3))
        counting.began("team/train", 4)
        counting.began("team/train", 5)

    assert value("rounds_total", cause="ScaleUp") == 1
    assert value("joins_total") == 1
    assert value("restarts_total") == 1


def test_a_round_that_was_overtaken_changed_nothing(metrics, value):
    """A newcomer that dies before the round is told to anybody has joined nothing, and no member was lost."""
    counting = JobMetrics(metrics)
    counting.known("team/train", "uid-1", a_status(a_round(4, "ab")))
    counting.decided("team/train", a_status(a_round(5, "abc")))
    counting.decided("team/train", a_status(a_round(6, "ab")))
    counting.began("team/train", 6)

    assert value("rounds_total", cause="ScaleUp") == 2
    assert (value("joins_total"), value("leaves_total"), value("losses_total")) == (0, 0, 0)


def test_gauges_are_sums_over_jobs(metrics, value):
    """Jobs and workers by phase; a job that is gone counts no more."""
    counting = JobMetrics(metrics)
    members = tuple(Member(name=n, uid=n, phase=WorkerPhase.TRAINING) for n in "ab")
    running = a_status(
        a_round(1, "ab"), phase=Phase.RUNNING, members=members, samples_per_second=100.0, wanted=3
    )
    counting.seen("team/one", running)
    counting.seen("team/two", running)
    counting.seen("team/three", Status())
    counting.gone("team/two")
    counting.refresh(0.0, {}, leading=True)

    assert value("jobs", phase="Running") == 1
    assert value("jobs", phase="Queued") == 1
    assert value("workers", phase="Training") == 2
    assert (value("members"), value("wanted"), value("samples_per_second")) == (2, 3, 100.0)
    assert value("leading") == 1


def test_idle_time_by_cause(metrics, value):
    """Rounds that found nobody training have none."""
    counting = JobMetrics(metrics)
    counting.resized(Resized(1, 0, 2, "Started", None))
    counting.resized(Resized(2, 2, 3, "ScaleUp", 0.2))

    assert value("idle_seconds_count", cause="ScaleUp") == 1
    assert value("idle_seconds_count", cause="Started") is None


def test_stragglers_are_told_of(metrics, value):
    """An event of that reason is one."""
    counting = JobMetrics(metrics)
    counting.told(Tell("Warning", "Straggler", "slow"))
    counting.told(Tell("Normal", "Round", "…"))

    assert value("stragglers_total") == 1
    assert value("told_total", reason="Round") == 1


def told(metrics):
    """Everything that the scrape says of reported values."""
    (family,) = [one for one in metrics.registry.collect() if one.name == "gangwright_elastic_reported"]
    return {(one.labels["elasticjob"], one.labels["value"]): one.value for one in family.samples}


@pytest.mark.parametrize(
    ("by", "called"), [(Reported.UID, "uid-1"), (Reported.NAME, "team/train"), (Reported.NONE, None)]
)
def test_what_scripts_report(metrics, by, called):
    """Accuracy and loss are there by job and name, the last ones; nothing of a job that is gone, nor of our own
    part.
    """
    counting = JobMetrics(metrics, by)
    counting.known("team/train", "uid-1", None)
    counting.seen(
        "team/train", Status(values={"accuracy": 0.5, "loss": 2.0, "idle_s": 0.1, "checkpoint_step": 7})
    )
    counting.refresh(0.0, {}, leading=True)
    counting.seen("team/train", Status(values={"accuracy": 0.75, "loss": 1.0}))
    counting.refresh(1.0, {}, leading=True)
    first = told(metrics)
    counting.gone("team/train")
    counting.refresh(2.0, {}, leading=True)

    assert first == ({(called, "accuracy"): 0.75, (called, "loss"): 1.0} if called else {})
    assert told(metrics) == {}


def test_what_scripts_report_is_bounded(metrics, monkeypatch):
    """Names that are long or strange, more than some of a job, and jobs beyond some, are left out."""
    monkeypatch.setattr(job_metrics, "MOST_JOBS", 3)
    counting = JobMetrics(metrics)
    names = ("x" * 65, "a name", "", '{"quote"}', "é", *(f"value_{number:02}" for number in range(40)))
    for number in range(5):
        counting.known(f"team/job-{number}", f"uid-{number}", None)
        counting.seen(f"team/job-{number}", Status(values=dict.fromkeys(names, 1.0)))
    counting.refresh(0.0, {}, leading=True)

    assert set(told(metrics)) == {
        (f"uid-{job}", f"value_{number:02}") for job in range(3) for number in range(job_metrics.VALUES)
    }
