"""What agent and shim cost a step: an elastic job of ours and bare processes of `horovodrun`, two workers each, by
turns.

Both jobs take the same steps on the same cores. While one trains the other is stopped (SIGSTOP), our pods with all that
is in them; a few seconds later they change over. A turn's figure is the mean of its steps: what comes once a second (a
beat, a report) is in few of them, and a median would leave it out. It is compared with that of the neighbouring turn, so
that the machine's mood is in both, and the middle of many pairs has an error that is far smaller than one run's: their
mean without the highest and lowest eighth, for the error of a median is a fifth larger. What lasts as long as a
process does, such as where its memory lies, no number of turns evens out: both are started many times, by turns one
first and the other, and the figure is the middle of all their pairs. Ten starts of 18 turns take twenty minutes,
and left an error of 0.3 to 0.6 points where it was quiet: a step's own scatter is 13 %. Six starts left
one of 0.6 on a machine half as fast that does other things as well. Beside other work of ours the figure says nothing.

A step's time is from the end of the one before to its own end: all that lies between two steps is in it. The bare
processes take the same steps, in the graph that stock Horovod makes of an elastic job, save their state in memory as
often as ours commit theirs, by Horovod's own `save`, and do nothing else: a collective between two steps, as in a script
that asks its peers whether to stop, would be in their time alone.

Agents and shims are what is measured, and in a cluster master, API server and etcd are elsewhere: so the master is as
installed (`stage.INSTALLED`), and all of these give way to those that train (`aside`; with CAP_SYS_NICE and
CAP_SYS_ADMIN). Beside the time of a step stands what it takes of processors, agents included, which holds no waiting.
"""

import contextlib
import itertools
import math
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.elastic.aside import aside
from bench.elastic.following import Output
from bench.elastic.roads.launched import Launched
from bench.elastic.roads.ours import SCRIPT, spent
from bench.elastic.roads.turn import START, Watch
from bench.elastic.stage import NAMESPACE, QUIET, Stage, python
from tests.plane import where
from tests.plane.errors import NotReadyError
from tests.stories.elastic import jobs

WORKERS: Final = 2
MODEL: Final = "medium"
"""Steps of a tenth of a second, which is little for a step of a real training."""

TURN: Final = 2.5
"""Seconds; less than the silence after which a worker is given up, and longer than from one report to the next: the
one that is overdue when a turn begins is in what does not count.
"""

FIRST: Final = 0.4
"""Seconds at the beginning of a turn that do not count: caches are cold, and beats that were due are made up for."""

COMMITS: Final = 100
"""Steps from one commit, or bare save, to the next. The copy of 40 MB is what a script asks for, not what ours adds."""

PRINTS: Final = 10
"""Steps whose lines are printed in one piece, by both: a training that prints ten times a second is a rare one."""

ALLOCATION: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "MALLOC_TOP_PAD_": str(1 << 26),
}
"""Bytes; environment of both, mallopt(3): memory that a step frees stays with its process. A step of a bare job has
150 to 380 page faults with them, 1,500 to 3,600 without the last, which is for the heaps of threads too, and 2,000
to 6,000 by glibc's defaults, another number in each start.
"""

WORDS: Final = ("--model", MODEL, "--print-every", PRINTS, "--commit-every", COMMITS)
"""Of the script, in both."""

BARE, OURS = "bare", "gangwright"


class Turn(NamedTuple):
    """Whose it was, from when to when it counts, in seconds since the epoch, and the processor seconds that all of the
    job took in a second of it.
    """

    whose: str
    began: float
    ended: float
    cores: float


class Step(NamedTuple):
    """When it was done, in seconds since the epoch, and seconds since the one before was."""

    at: float
    took: float


class Job(NamedTuple):
    """Both workers of one: what they print, and their processes in the order in which they are stopped."""

    output: Output
    pids: list[int]


def measure(stage: Stage, starts: int, pairs: int) -> dict[str, Any]:
    """starts: how often both jobs are started anew. pairs: turns of each, a start."""
    return over_starts([_once(stage, number, pairs) for number in range(starts)])


def _once(stage: Stage, number: int, pairs: int) -> dict[str, Any]:
    """One start of both, every other time ours first."""
    with contextlib.ExitStack() as running:
        entered = {}
        for whose in (BARE, OURS) if number % 2 == 0 else (OURS, BARE):
            started = _bare() if whose == BARE else _elastic(stage, f"overhead-{number}")
            entered[whose] = running.enter_context(started)
        both = {whose: find() for whose, find in entered.items()}
        try:
            with aside([pid for job in both.values() for pid in job.pids]):
                turns = list(_by_turns({whose: both[whose].pids for whose in (BARE, OURS)}, pairs))
        except ProcessLookupError as gone:
            raise NotReadyError(who_ended(both)) from gone
        for job in both.values():
            _all_told(job, turns[-1].ended)
        return summary(turns, {whose: steps_of(job.output) for whose, job in both.items()})


@contextlib.contextmanager
def _bare() -> Iterator[Callable[[], Job]]:
    """Processes of `horovodrun`; found when they have settled."""
    with tempfile.TemporaryDirectory(prefix="gangwright-bench-") as place:
        folder = Path(place)
        launch = Launched(
            python(), folder, ["-np", WORKERS], "$HOROVOD_RANK", [*WORDS, "--bare"], QUIET | ALLOCATION
        )

        def find() -> Job:
            Watch(launch.output, MODEL, 1.0, lambda: launch.alive).settled(WORKERS)
            return Job(launch.output, [int(pid) for pid in (folder / "pids").read_text().split()])

        with launch:
            yield find


@contextlib.contextmanager
def _elastic(stage: Stage, name: str) -> Iterator[Callable[[], Job]]:
    """An elastic job; its pods with all that is in them, the agents first."""
    output = stage.output(name)

    def find() -> Job:
        Watch(output, MODEL, 1.0).settled(WORKERS)
        labels = f"gangwright.io/elastic-job={name}"
        pods = stage.run(stage.api.items(where("pods", NAMESPACE), labels=labels))
        found = [stage.kubelet.pids(pod) for pod in pods]
        return Job(output, [*(pids[0] for pids in found), *(pid for pids in found for pid in pids[1:])])

    job = jobs.job(name, WORKERS, WORKERS, SCRIPT, *WORDS)
    for container in job["spec"]["template"]["spec"]["containers"]:
        container["env"] = [{"name": word, "value": value} for word, value in ALLOCATION.items()]
    stage.submit(job)
    try:
        yield find
    finally:
        stage.delete(name)


def _all_told(job: Job, until: float) -> None:
    """Waits for the lines of all steps until then: the last ones are still to be printed."""

    def alive() -> bool:
        return all(Path(f"/proc/{pid}").exists() for pid in job.pids)

    def told() -> bool:
        return any(step.at > until for step in steps_of(job.output))

    job.output.until(told, START, "the last steps' lines", alive)


def who_ended(both: Mapping[str, Job]) -> str:
    """Which processes are no more, and the last words of their job."""
    said = []
    for whose, job in both.items():
        gone = [pid for pid in job.pids if not Path(f"/proc/{pid}").exists()]
        if gone:
            job.output.read()
            said.append(f"processes {gone} of {whose} ended while they were measured\n{job.output.story()}")
    return "\n".join(said)


def _by_turns(processes: Mapping[str, Sequence[int]], pairs: int) -> Iterator[Turn]:
    """All stand still but those whose turn it is. All go on at the end."""
    try:
        for pids in processes.values():
            _tell(pids, signal.SIGSTOP)
        for whose in itertools.islice(itertools.cycle(processes), 2 * pairs):
            _go_on(processes[whose])
            time.sleep(FIRST)
            began, before = time.time_ns() / 1e9, spent(processes[whose])
            time.sleep(TURN - FIRST)
            ended, after = time.time_ns() / 1e9, spent(processes[whose])
            _tell(processes[whose], signal.SIGSTOP)
            yield Turn(whose, began, ended, (after - before) / (ended - began))
    finally:
        for pids in processes.values():
            _go_on(pids)


def _go_on(pids: Sequence[int]) -> None:
    """The last first: an agent, the first of its pod, kills a child that it sees standing still. Who has ended is
    passed over.
    """
    for pid in reversed(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _tell(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


def steps_of(output: Output) -> list[Step]:
    """Of rank 0, as it printed them; none of its first, which has none before it."""
    ends = [line["at"] for line in output.steps() if line.get("rank") == 0]
    return [Step(later, later - earlier) for earlier, later in itertools.pairwise(ends)]


def summary(turns: Sequence[Turn], seen: Mapping[str, Sequence[Step]]) -> dict[str, Any]:
    """What a step takes beyond a bare one, in percent: of each two neighbouring turns, and the middle of these. The same
    of its processor time.
    """
    means = [_mean(turn, seen[turn.whose]) for turn in turns]
    beyond = _beyond(turns, means)
    processors = _beyond(turns, [mean * turn.cores for turn, mean in zip(turns, means, strict=True)])
    bare = [mean for turn, mean in zip(turns, means, strict=True) if turn.whose == BARE]
    return {
        "overhead_percent": round(middle(beyond), 2),
        "overhead_processors_percent": round(middle(processors), 2),
        "bare_step_s": round(statistics.median(bare), 5),
        "pairs": [round(one, 2) for one in beyond],
        "pairs_processors": [round(one, 2) for one in processors],
    }


def middle(values: Sequence[float]) -> float:
    """The mean without the highest eighth and the lowest: a turn in which the machine did other things is in these."""
    cut = min(math.ceil(len(values) / 8), (len(values) - 1) // 2)
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def _beyond(turns: Sequence[Turn], figures: Sequence[float]) -> list[float]:
    """By how many percent ours is above the bare one, of each two neighbours."""
    return [
        100 * (one / other - 1 if turn.whose == OURS else other / one - 1)
        for turn, (one, other) in zip(turns, itertools.pairwise(figures), strict=False)
    ]


def over_starts(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """found: a `summary` a start. The middle of all their pairs, so that a start in which the machine did other things
    weighs no more than its steadier pairs do. Its standard error is by the jackknife over starts (Efron and Stein, The
    jackknife estimate of variance, 1981), since pairs of one start may have more in common than a turn; null after a
    single start.
    """
    walls = [one["pairs"] for one in found]
    return {
        "overhead_percent": round(_pooled(walls), 2),
        "overhead_error": None if len(walls) < 2 else round(_jackknife(walls), 2),
        "overhead_processors_percent": round(_pooled([one["pairs_processors"] for one in found]), 2),
        "starts": list(found),
    }


def _pooled(starts: Sequence[Sequence[float]]) -> float:
    return middle([pair for start in starts for pair in start])


def _jackknife(starts: Sequence[Sequence[float]]) -> float:
    """The standard error of `_pooled`."""
    without = [_pooled([*starts[:left], *starts[left + 1 :]]) for left in range(len(starts))]
    return math.sqrt(statistics.pvariance(without) * (len(starts) - 1))


def _mean(turn: Turn, seen: Sequence[Step]) -> float:
    """Of the steps that began and ended in this turn, of which there are some ten at the least."""
    return statistics.fmean(
        step.took for step in seen if turn.began <= step.at - step.took and step.at <= turn.ended
    )
