"""What agent and shim cost a step: an elastic job of ours and bare processes of `horovodrun`, two workers each, by
turns.

Both jobs take the same steps on the same cores. While one trains the other is stopped (SIGSTOP), our pods with all that
is in them; a few seconds later they change over. A step's time is compared with those of the neighbouring turn, so that
the machine's mood is in both, and the median over many pairs has an error that is far smaller than one run's.

A step's time is from the end of the one before to its own end: all that lies between two steps is in it. The bare
processes take the same steps, in the graph that stock Horovod makes of an elastic job, and do nothing else: a
collective between two steps, as in a script that asks its peers whether to stop, would be in their time alone.
"""

import contextlib
import itertools
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.elastic.following import Output
from bench.elastic.roads.launched import Launched
from bench.elastic.roads.ours import SCRIPT
from bench.elastic.roads.turn import START, Watch
from bench.elastic.stage import NAMESPACE, Stage, python
from tests.plane import where
from tests.plane.errors import NotReadyError
from tests.stories.elastic.jobs import job

WORKERS: Final = 2
MODEL: Final = "medium"
"""Steps of a tenth of a second, which is little for a step of a real training."""

TURN: Final = 2.5
"""Seconds; far less than the silence after which a worker is given up."""

FIRST: Final = 0.4
"""Seconds at the beginning of a turn that do not count: caches are cold, and beats that were due are made up for."""

COMMITS: Final = 100
"""Steps from one commit to the next. A commit copies the state while the next step is taken: what the script asks
for is no overhead.
"""

PRINTS: Final = 10
"""Steps whose lines are printed in one piece, by both: a training that prints ten times a second is a rare one."""

WORDS: Final = ("--model", MODEL, "--print-every", PRINTS)
"""Of the script, in both."""

BARE, OURS = "bare", "gangwright"


class Turn(NamedTuple):
    """Whose it was, and from when to when it counts: seconds since the epoch."""

    whose: str
    began: float
    ended: float


class Step(NamedTuple):
    """When it was done, in seconds since the epoch, and seconds since the one before was."""

    at: float
    took: float


def measure(stage: Stage, pairs: int) -> dict[str, Any]:
    """pairs: turns of each."""
    with tempfile.TemporaryDirectory(prefix="gangwright-bench-") as place:
        folder = Path(place)
        words = [*WORDS, "--bare"]
        with Launched(python(), folder, ["-np", WORKERS], "$HOROVOD_RANK", words) as bare:
            Watch(bare.output, MODEL, 1.0, lambda: bare.alive).settled(WORKERS)
            others = [int(pid) for pid in (folder / "pids").read_text().split()]
            _tell(others, signal.SIGSTOP)
            try:
                return _beside(stage, bare.output, others, pairs)
            finally:
                _go_on(others)


def _beside(stage: Stage, bare: Output, others: Sequence[int], pairs: int) -> dict[str, Any]:
    """others: the bare processes, which stand still."""
    name = "overhead"
    ours = stage.output(name)
    stage.submit(job(name, WORKERS, WORKERS, SCRIPT, *WORDS, "--commit-every", COMMITS))
    try:
        Watch(ours, MODEL, 1.0).settled(WORKERS)
        labels = f"gangwright.io/elastic-job={name}"
        pods = stage.run(stage.api.items(where("pods", NAMESPACE), labels=labels))
        found = [stage.kubelet.pids(pod) for pod in pods]
        mine = [*(pids[0] for pids in found), *(pid for pids in found for pid in pids[1:])]
        try:
            turns = list(_by_turns({OURS: mine, BARE: others}, pairs))
        except ProcessLookupError as gone:
            raise NotReadyError(who_ended({OURS: (mine, ours), BARE: (others, bare)})) from gone
        _go_on(others)
        for pids, output in ((mine, ours), (others, bare)):
            _all_told(output, turns[-1].ended, pids)
        return summary(turns, {OURS: steps_of(ours), BARE: steps_of(bare)})
    finally:
        stage.delete(name)


def _all_told(output: Output, until: float, pids: Sequence[int]) -> None:
    """Waits for the lines of all steps until then: the last ones are still to be printed."""

    def alive() -> bool:
        return all(Path(f"/proc/{pid}").exists() for pid in pids)

    output.until(
        lambda: any(step.at > until for step in steps_of(output)), START, "the last steps' lines", alive
    )


def who_ended(jobs: Mapping[str, tuple[Iterable[int], Output]]) -> str:
    """Which processes are no more, and the last words of their job."""
    said = []
    for whose, (pids, output) in jobs.items():
        gone = [pid for pid in pids if not Path(f"/proc/{pid}").exists()]
        if gone:
            output.read()
            said.append(f"processes {gone} of {whose} ended while they were measured\n{output.story()}")
    return "\n".join(said)


def _by_turns(processes: dict[str, Sequence[int]], pairs: int) -> Iterator[Turn]:
    """All stand still but those whose turn it is. Ours go on at the end."""
    _tell(processes[OURS], signal.SIGSTOP)
    try:
        for whose in itertools.islice(itertools.cycle((BARE, OURS)), 2 * pairs):
            _go_on(processes[whose])
            began = time.time_ns() / 1e9
            time.sleep(TURN)
            yield Turn(whose, began + FIRST, time.time_ns() / 1e9)
            _tell(processes[whose], signal.SIGSTOP)
    finally:
        _go_on(processes[OURS])


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


def summary(turns: Sequence[Turn], seen: dict[str, Sequence[Step]]) -> dict[str, Any]:
    """What a step takes beyond a bare one, in percent: the median over neighbouring turns, and its quartiles."""
    medians = [_median(turn, seen[turn.whose]) for turn in turns]
    pairs = [
        100 * (one / other - 1 if turn.whose == OURS else other / one - 1)
        for turn, (one, other) in zip(turns, itertools.pairwise(medians), strict=False)
    ]
    low, middle, high = statistics.quantiles(pairs, n=4)
    bare = [median for turn, median in zip(turns, medians, strict=True) if turn.whose == BARE]
    return {
        "overhead_percent": round(middle, 2),
        "quartiles": [round(low, 2), round(high, 2)],
        "pairs": len(pairs),
        "bare_step_s": round(statistics.median(bare), 5),
    }


def _median(turn: Turn, seen: Sequence[Step]) -> float:
    """Of the steps that began and ended in this turn, of which there are some ten at the least."""
    return statistics.median(
        step.took for step in seen if turn.began <= step.at - step.took and step.at <= turn.ended
    )
