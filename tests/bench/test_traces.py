"""What the tables of jobs say, and what is said of a table that is wrong."""

import math
from dataclasses import replace

import pytest

from bench import traces
from bench.traces import Job, TraceError

PHILLY = traces.DATA / "philly-gangs"
BURST = traces.DATA / "knavigator-gang53" / "jobs.csv"


@pytest.mark.parametrize(
    ("name", "jobs", "largest", "hours"),
    [("b436b2", 7423, 24, 125_740), ("6c71a0", 9953, 16, 82_203), ("2869ce", 422, 32, 80_695)],
)
def test_philly_table_is_what_its_readme_says(name, jobs, largest, hours):
    """Jobs, the largest gang and the GPU-hours of each virtual cluster are those of the README beside it."""
    read = traces.read(PHILLY / f"vc_{name}.csv")

    assert len(read) == jobs
    assert max(job.size for job in read) == largest
    assert sum(job.size * job.runtime for job in read) / 3600 == pytest.approx(hours, abs=1)
    assert [job.arrival for job in read] == sorted(job.arrival for job in read)
    assert len({job.name for job in read}) == jobs


def test_burst_is_53_gangs_of_whole_nodes():
    """288 pods of eight GPUs and two minutes, all there from the beginning: 1,080 s on 32 nodes at best."""
    read = traces.read(BURST)

    assert len(read) == len({job.name for job in read}) == 53
    assert {(job.arrival, job.gpus, job.runtime) for job in read} == {(0.0, 8, 120.0)}
    assert sum(job.members * job.runtime for job in read) / 32 == 1080


def philly(tmp_path, *rows):
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(["job_id,submit_time_s,duration_s,num_gpus", *rows]), encoding="utf-8")
    return path


def test_large_job_takes_whole_nodes(tmp_path):
    """Up to a node's GPUs a job is one pod; above, it has as many members as nodes."""
    read = traces.read_philly(philly(tmp_path, "a,0,60,3", "b,5,60.5,8", "c,7,1,24"))

    assert [(job.members, job.gpus, job.size) for job in read] == [(1, 3, 3), (1, 8, 8), (3, 8, 24)]
    assert read[1] == Job("job-b", 5.0, 60.5, 1, 8)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a,0,60,0", "num_gpus: '0': must be a whole number of at least 1"),
        ("a,0,60,1.5", "num_gpus: '1.5': must be a whole number of at least 1"),
        ("a,0,60,9", "num_gpus: '9': must be at most 8, or a multiple of 8"),
        ("a,-1,60,1", "submit_time_s: '-1': must be a number of at least 0"),
        ("a,0,soon,1", "duration_s: 'soon': must be a number"),
        ("a,0,nan,1", "duration_s: 'nan': must be a number of at least 0"),
        (",0,60,1", "job_id: '': must be a text"),
        ("a,0,60", "num_gpus: None: must be a text"),
    ],
)
def test_wrong_cell_is_named(tmp_path, row, said):
    """A cell that cannot be is told with its file, line, column, value, and what would be right."""
    path = philly(tmp_path, "x,0,60,1", row)
    with pytest.raises(TraceError) as error:
        traces.read_philly(path)

    assert str(error.value) == f"{path}: line 3: {said}"


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_foreign_table_is_refused(tmp_path, text):
    """A table without a column that tells its kind is not guessed at."""
    path = tmp_path / "jobs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=r"line 1: .*must name one of num_gpus, replicas"):
        traces.read(path)


def test_missing_column_and_missing_file_are_named(tmp_path):
    """What lacks is said by name."""
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,num_gpus\n", encoding="utf-8")
    with pytest.raises(TraceError, match="lacks the columns submit_time_s, duration_s"):
        traces.read(path)
    with pytest.raises(TraceError, match=r"nowhere\.csv: cannot be read"):
        traces.read(tmp_path / "nowhere.csv")


def test_guesses_are_log_uniform_and_repeat():
    """A guess is between half and twice the truth, as often too short as too long; one seed, one set of guesses."""
    jobs = [Job(f"j{n}", 0, 100.0, 1, 1) for n in range(4000)]
    told = traces.guessing(jobs, seed=7)
    logs = [math.log2(job.declared / 100.0) for job in told]

    assert -1 <= min(logs) < -0.99
    assert 0.99 < max(logs) <= 1
    assert abs(sum(logs) / len(logs)) < 0.05
    assert told == traces.guessing(jobs, seed=7) != traces.guessing(jobs, seed=8)
    assert [replace(job, declared=None) for job in told] == jobs
    assert {job.declared for job in traces.declaring(jobs)} == {100.0}
