"""What agent and shim cost a step: an elastic job of ours and bare processes of `horovodrun`, two workers each, side by
side.

Both jobs take the same steps at the same time. The first workers of both share one core and the second ones another,
each agent with its worker, so whatever the machine does, it does to both: where a single job's steps scatter by 14 %,
and by 6 % still in the means of four seconds, the two jobs' mean steps over a minute are alike within half a percent.
The kernel gives two that want one core as much of it each, and so the ratio of their steps is that of what a step takes;
a wait that is in one's steps alone makes these longer all the same. What lasts as long as a process does, such as where
its memory lies, is evened out by many starts.

What an agent takes of a core is missing from both workers on it alike, and not in their ratio. It is added: the agents'
processor time as a share of all that the trainings take of their cores, which one job alone would have for itself.
Nothing more of it is in a step's way, for no step asks an agent for anything.

How the figure was tried, on two cores: two bare jobs were 0.1 % apart (five starts of a minute each, standard deviation
0.3; 2.6 and 4.3 when they trained by turns instead, forty seconds a start). With 3.5 ms of processor time more in each
step, which takes 0.1 s of it, one job was behind by 4.3 and 4.7 %; with 3.5 ms of sleep by 3.1 and 4.0 %.

A step's time is from the end of the one before to its own end: all that lies between two steps is in it. The bare
processes take the same steps, in the graph that stock Horovod makes of an elastic job, save their state in memory as
often as ours commit theirs, by Horovod's own `save`, and do nothing else: a collective between two steps, as in a script
that asks its peers whether to stop, would be in their time alone.

Agents and shims are what is measured, and in a cluster master, API server and etcd are elsewhere: so the master is as
installed (`stage.INSTALLED`), and all of these give way to those that train (`aside`; with CAP_SYS_NICE and
CAP_SYS_ADMIN).
"""

import contextlib
import itertools
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.elastic import jobs
from bench.elastic.aside import aside
from bench.elastic.following import Output
from bench.elastic.roads.launched import Launched
from bench.elastic.roads.ours import SCRIPT, spent
from bench.elastic.roads.turn import START, Watch
from bench.elastic.stage import NAMESPACE, QUIET, Stage, python
from bench.plane import where
from bench.plane.errors import NotReadyError

WORKERS: Final = 2
MODEL: Final = "medium"
"""Steps of a tenth of a second where a core is a worker's own, which is little for a step of a real training."""

SETTLE: Final = 3.0
"""Seconds on their cores before steps count."""

COMMITS: Final = 100
"""Steps from one commit, or bare save, to the next. The copy of 40 MB is what a script asks for, not what ours adds."""

PRINTS: Final = 10
"""Steps whose lines are printed in one piece, by both: a training that prints ten times a second is a rare one."""

ALLOCATION: Final = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "MALLOC_TOP_PAD_": str(1 << 26),
}
"""Environment of both. The latter three, in bytes, mallopt(3): memory that a step frees stays with its process. A step
of a bare job has 150 to 380 page faults with them, 1,500 to 3,600 without the last, which is for the heaps of threads
too, and 2,000 to 6,000 by glibc's defaults, another number in each start. The first asks for huge pages where the kernel
gives them to who asks: a step takes 6 % less, and which pages of 4 KiB it met with is one chance less.
"""

WORDS: Final = ("--model", MODEL, "--print-every", PRINTS, "--commit-every", COMMITS)
"""Of the script, in both."""

BARE, OURS = "bare", "gangwright"


class Step(NamedTuple):
    """When it was done, in seconds since the epoch, and seconds since the one before was."""

    at: float
    took: float


class Job(NamedTuple):
    """What the workers of one print, their training processes, and their agents in the same order; none of a bare
    one's.
    """

    output: Output
    workers: list[int]
    agents: list[int]

    @property
    def pids(self) -> list[int]:
        return self.workers + self.agents


class Look(NamedTuple):
    """From when to when steps count, in seconds since the epoch, and the processor seconds that the training processes
    of both jobs, and the agents of ours, took in a second of it.
    """

    began: float
    ended: float
    training: float
    agents: float


def measure(stage: Stage, starts: int, seconds: float) -> dict[str, Any]:
    """starts: how often both jobs are started anew. seconds: of training side by side, a start."""
    return over_starts([_once(stage, number, seconds) for number in range(starts)])


def _once(stage: Stage, number: int, seconds: float) -> dict[str, Any]:
    """One start of both, every other time ours first."""
    with contextlib.ExitStack() as running:
        entered = {}
        for whose in (BARE, OURS) if number % 2 == 0 else (OURS, BARE):
            started = _bare() if whose == BARE else _elastic(stage, f"overhead-{number}")
            entered[whose] = running.enter_context(started)
        both = {whose: find() for whose, find in entered.items()}
        try:
            look = _side_by_side(both, seconds)
        except (ProcessLookupError, FileNotFoundError) as gone:
            raise NotReadyError(who_ended(both)) from gone
        for job in both.values():
            _all_told(job, look.ended)
        return summary(look, {whose: steps_of(job.output) for whose, job in both.items()})


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
            return Job(launch.output, [int(pid) for pid in (folder / "pids").read_text().split()], [])

        with launch:
            yield find


@contextlib.contextmanager
def _elastic(stage: Stage, name: str) -> Iterator[Callable[[], Job]]:
    """An elastic job: of each pod the first process is the agent, the second its training."""
    output = stage.output(name)

    def find() -> Job:
        Watch(output, MODEL, 1.0).settled(WORKERS)
        labels = f"gangwright.io/elastic-job={name}"
        pods = stage.run(stage.api.items(where("pods", NAMESPACE), labels=labels))
        found = [stage.kubelet.pids(pod) for pod in pods]
        return Job(output, [pids[1] for pids in found], [pids[0] for pids in found])

    job = jobs.job(name, WORKERS, WORKERS, SCRIPT, *WORDS)
    for container in job["spec"]["template"]["spec"]["containers"]:
        container["env"] = [{"name": word, "value": value} for word, value in ALLOCATION.items()]
    stage.submit(job)
    try:
        yield find
    finally:
        stage.delete(name)


def _side_by_side(both: Mapping[str, Job], seconds: float) -> Look:
    """Raises ProcessLookupError or FileNotFoundError where one of them has ended."""
    for job in both.values():
        hold(job.workers)
        hold(job.agents)
    training, agents = [pid for job in both.values() for pid in job.workers], both[OURS].agents
    with aside(training + agents):
        time.sleep(SETTLE)
        began, before = time.time_ns() / 1e9, (spent(training), spent(agents))
        time.sleep(seconds)
        ended, after = time.time_ns() / 1e9, (spent(training), spent(agents))
    took = [(late - early) / (ended - began) for early, late in zip(before, after, strict=True)]
    return Look(began, ended, *took)


def hold(pids: Sequence[int]) -> None:
    """Each with all its threads to a core of its own, the first to the first; where there are fewer, they begin anew.
    Threads and children that these start later stay with them.
    """
    cores = itertools.cycle(sorted(os.sched_getaffinity(0)))
    for pid, core in zip(pids, cores, strict=False):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), {core})


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


def steps_of(output: Output) -> list[Step]:
    """Of rank 0, as it printed them; none of its first, which has none before it."""
    ends = [line["at"] for line in output.steps() if line.get("rank") == 0]
    return [Step(later, later - earlier) for earlier, later in itertools.pairwise(ends)]


def summary(look: Look, seen: Mapping[str, Sequence[Step]]) -> dict[str, Any]:
    """What a step takes beyond a bare one, in percent: its own part, and the agents'. Raises NotReadyError where one of
    the jobs took no step.
    """
    bare, ours = (_mean(look, seen[whose], whose) for whose in (BARE, OURS))
    steps, agents = 100 * (ours / bare - 1), 100 * look.agents / look.training
    return {
        "overhead_percent": round(steps + agents, 2),
        "steps_percent": round(steps, 2),
        "agents_percent": round(agents, 2),
        "bare_step_s": round(bare, 5),
    }


def _mean(look: Look, seen: Sequence[Step], whose: str) -> float:
    """Of the steps that began and ended meanwhile. What comes once in some seconds (a beat, a report, a commit) is in
    few of them, and a median would leave it out.
    """
    took = [step.took for step in seen if look.began <= step.at - step.took and step.at <= look.ended]
    if not took:
        raise NotReadyError(
            f"{whose} took no whole step in {look.ended - look.began:.1f} s; --seconds must be some steps long"
        )
    return statistics.fmean(took)


def over_starts(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """found: a `summary` a start. Their mean, and its standard error; null after a single start."""
    each = [one["overhead_percent"] for one in found]
    error = statistics.stdev(each) / math.sqrt(len(each)) if len(each) > 1 else None
    return {
        "overhead_percent": round(statistics.fmean(each), 2),
        "overhead_error": None if error is None else round(error, 2),
        "overhead_agents_percent": round(statistics.fmean(one["agents_percent"] for one in found), 2),
        "starts": list(found),
    }
