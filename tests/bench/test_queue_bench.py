"""The queue bench: which runs are compared, what is made of them, and how it answers a wrong word."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.queue import bars, cases, running
from bench.queue.__main__ import app
from bench.queue.running import Result
from bench.report import Fate, Report
from bench.traces import Job
from scheduler.model.policy import Policy

HOUR = 3600.0


def a_result(cluster: str, queue: str, wait: float, large_waits: tuple[float, ...] = ()) -> Result:
    """One job of an hour that waited so long, and large ones of no length that waited as long as is said. Hours."""
    fates = [Fate(Job("small", 0, HOUR, 1, 1), wait * HOUR, (wait + 1) * HOUR)]
    fates += [
        Fate(Job(f"large-{n}", 0, 0, 2, 8), own * HOUR, own * HOUR) for n, own in enumerate(large_waits)
    ]
    return Result(cluster, queue, Report.of(fates, 16), tuple(fates), 1.0)


def test_queues_differ_in_order_and_backfill_alone():
    """No setting was tuned to a trace: all others are the product's defaults."""
    default = Policy()
    for queue in cases.QUEUES:
        differing = {n for n in Policy.__slots__ if getattr(queue.policy, n) != getattr(default, n)}
        assert differing <= {"order", "backfill"}, queue.name


def test_every_claim_is_about_queues_that_are_run():
    """No bar can be passed over because a name in it is misspelt."""
    names = {queue.name for queue in cases.QUEUES}

    assert {claim.queue for claim in bars.CLAIMS} | {claim.over for claim in bars.CLAIMS} == names


def test_mean_bar_is_over_the_clusters():
    """Half on one cluster and as long on the other is three quarters on average."""
    results = [
        a_result("a", "strict", 3.0),
        a_result("a", "fifo", 1.0),
        a_result("b", "strict", 3.0),
        a_result("b", "fifo", 3.0),
    ]
    (bar,) = bars.bars(results)

    assert (bar.name, bar.ratio, bar.most, bar.holds) == ("fifo_over_strict_completion", 0.75, 0.85, True)


def test_bar_of_the_crowded_cluster_is_its_own():
    """LAS must win where the queue is long, and may lose a little where it is short."""
    results = [a_result(name, queue, 1.0) for name in ("b436b2", "6c71a0") for queue in ("free", "las")]

    assert [(bar.name, bar.most, bar.holds) for bar in bars.bars(results)] == [
        ("las_over_free_completion_b436b2", 0.6, False),
        ("las_over_free_completion_6c71a0", 1.05, True),
    ]


@pytest.mark.parametrize(("count", "named"), [(29, False), (30, True)])
def test_mean_of_few_large_gangs_claims_nothing(count, named):
    """From 30 large gangs on their mean wait is held against the strict order."""
    results = [a_result("a", queue, 1.0, (2.0,) * count) for queue in ("strict", "las")]

    assert ("las_over_strict_large_mean_wait_a" in {bar.name for bar in bars.bars(results)}) is named


def test_large_gangs_that_never_wait_compare_as_equal():
    """Nothing over nothing is one; something over nothing is beyond every bar."""
    still, moved = a_result("a", "strict", 1.0, (0.0,)), a_result("a", "fifo", 1.0, (1.0,))

    assert bars.large_p99(still.report, still.report) == 1.0
    assert bars.large_p99(moved.report, still.report) == float("inf")


def test_summary_says_what_is_missed_and_what_rests_on_few():
    """The last line names every missed bar, and the clusters whose p99 is one gang's wait."""
    results = [
        a_result("a", "strict", 1.0, (1.0,) * 100),
        a_result("a", "fifo", 1.0, (2.0,) * 100),
        a_result("b", "strict", 1.0, (1.0,)),
        a_result("b", "fifo", 1.0, (1.0,)),
    ]
    last = bars.summary(results)

    assert "fifo_over_strict_large_p99_wait_a" in last["missed"]
    assert last["ratios"]["fifo_over_strict_large_p99_wait_a"] == 2.0
    assert last["large_gangs"] == {"a": 100, "b": 1}
    assert last["p99_is_a_maximum"] == ["b"]
    assert json.loads(json.dumps(last)) == last


def test_run_reads_the_trace_and_ends_every_job():
    """The first jobs of a real trace come to their end, under the policy's own name."""
    result = running.run(cases.CLUSTERS[2], cases.QUEUES[1], first=20)

    assert (result.cluster, result.queue, len(result.fates)) == ("2869ce", "free", 20)
    assert result.line()["jobs"] == 20


@pytest.mark.extended
def test_command_prints_a_line_a_run_and_a_summary(tmp_path):
    """Each run is one object of JSON, and so is the last line; pictures go where they are asked to."""
    words = ["--clusters", "2869ce", "--queues", "strict,fifo", "--first", "15", "--workers", "1"]
    result = CliRunner().invoke(app, [*words, "--plots", str(tmp_path)])
    lines = [json.loads(line) for line in result.stdout.splitlines()]

    assert result.exit_code == 0, result.output
    assert [(line["cluster"], line["queue"]) for line in lines[:-1]] == [
        ("2869ce", "strict"),
        ("2869ce", "fifo"),
    ]
    assert "fifo_over_strict_completion" in lines[-1]["ratios"]
    assert (tmp_path / "queue-2869ce.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("words", [["--queues", "fifo,fastest"], ["--clusters", "2869ce,2869ce"]])
def test_unknown_word_is_answered_with_the_known_ones(words):
    """A misspelt queue or cluster is not passed over."""
    result = CliRunner().invoke(app, words)

    assert result.exit_code == 2
    assert "must be different ones of" in re.sub(r"\s+", " ", result.output)


def running_still(pid: str) -> bool:
    """Whether the process is there, and is not only waiting for somebody to take note of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.extended
def test_a_bench_that_is_told_to_end_ends_and_so_do_its_runs():
    """Runs take minutes; SIGTERM stops them all at once."""
    words = ["--clusters", "b436b2", "--queues", "strict,free,fifo", "--workers", "2"]
    bench = subprocess.Popen([sys.executable, "-m", "bench.queue", *words], stdout=subprocess.DEVNULL)
    runs = Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
    try:
        while len(children := runs.read_text().split()) < 2:
            assert bench.poll() is None
            time.sleep(0.05)
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(timeout=30) == 130
    finally:
        bench.kill()
        bench.wait()
    assert not [one for one in children if running_still(one)]


def test_a_signal_is_put_off_until_a_fork_is_over():
    """What its handler raises is raised at the end, and the handler is the same as before."""

    def leave(_number, _frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, leave)
    reached = []
    try:
        with pytest.raises(KeyboardInterrupt), running.put_off(signal.SIGUSR1):
            signal.raise_signal(signal.SIGUSR1)
            reached.append("the end")

        assert reached == ["the end"]
        assert signal.getsignal(signal.SIGUSR1) is leave
    finally:
        signal.signal(signal.SIGUSR1, before)
