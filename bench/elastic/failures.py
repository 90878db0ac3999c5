"""How long a job of three workers stands still when one is lost, and when it is whole again; a job for every loss.

Recovered is from the blow to the end of the first step that a survivor takes in a later round, so that step is
included; whole, to the first step of all three again. Passes are padded to `STEP` by sleep, so that three workers on
few cores take as long as on one each.
"""

import itertools
import math
import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.elastic import steps
from bench.elastic.experiments.working import now
from bench.elastic.following import Output
from bench.elastic.jobs import SCRIPT, job, training
from bench.elastic.stage import NAMESPACE, Stage

Line = dict[str, Any]

WORKERS: Final = 3
SLOTS: Final = WORKERS + 1
"""Where a worker stood still none is put for a while."""

STEP: Final = 0.2
"""Seconds of a padded pass."""

SETTLED: Final = 10
"""Steps of all before the blow."""

START: Final = 240.0
"""Seconds within which workers train. TensorFlow alone may take a minute on a machine that does much else."""

TARGETS: Final = {
    "killed_recovered_s": 1.0,
    "rank_0_killed_recovered_s": 1.0,
    "process_killed_recovered_s": 1.0,
    "frozen_recovered_s": 14.0,
    "killed_whole_s": 10.0,
    "rank_0_killed_whole_s": 10.0,
    "process_killed_whole_s": 10.0,
    "master_acts_s": 4.0,
    "lost_steps": 1,
}
"""The most. A worker that stands still is noticed by the others after Horovod's time of 10 s; they have 4 s more. A
step that was under way at the blow is taken again, one that was committed is not."""


def _kill(stage: Stage, worker: str) -> None:
    stage.kubelet.kill(worker)


def _kill_process(stage: Stage, worker: str) -> None:
    os.kill(training(stage.kubelet, worker), signal.SIGKILL)


def _freeze(stage: Stage, worker: str) -> None:
    stage.kubelet.freeze(worker)


BLOWS: Final[Mapping[str, tuple[int, Callable[[Stage, str], None]]]] = {
    "killed": (1, _kill),
    "rank_0_killed": (0, _kill),
    "process_killed": (1, _kill_process),
    "frozen": (1, _freeze),
}
"""By name: which rank is struck, and how."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Seconds since the blow. lost_steps: taken twice by one worker, or by nobody. acts_s: of a master that was
    started again.
    """

    blow: str
    recovered_s: float
    whole_s: float
    lost_steps: int
    acts_s: float = math.nan

    def line(self) -> Line:
        figures = {
            "recovered_s": self.recovered_s,
            "whole_s": self.whole_s,
            "acts_s": self.acts_s,
        }
        seconds = {name: round(value, 3) for name, value in figures.items() if not math.isnan(value)}
        return {"lost": self.blow, **seconds, "lost_steps": self.lost_steps, "padded_step_s": STEP}


def losses(stage: Stage, repeats: int) -> Iterator[Loss]:
    for turn in range(repeats):
        for blow in BLOWS:
            yield _Job(stage, f"{blow.replace('_', '-')}-{turn}").struck(blow)
        yield _Job(stage, f"master-{turn}").masterless()


class _Job:
    """One job, from its start to its end."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage, self._name = stage, name
        self._output = stage.output(name)

    def struck(self, blow: str) -> Loss:
        rank, strike = BLOWS[blow]
        try:
            old = self._settled()
            (victim,) = [
                own["name"] for own in self._stage.status(self._name)["members"] if own["rank"] == rank
            ]
            began = now()
            strike(self._stage, f"{NAMESPACE}/{victim}")
            again = self._until(
                lambda step: step["round"] > old and step["size"] == WORKERS, "to be whole again"
            )
            return summed(blow, self._steps(), old, began, again["at"])
        finally:
            self._stage.delete(self._name)

    def masterless(self) -> Loss:
        """The master is killed and started again; nobody else notices."""
        try:
            old = self._settled()
            began = now()
            self._stage.master.kill()
            started = time.monotonic()
            self._stage.master.restart()
            acts = time.monotonic() - started
            up = now()
            self._until(lambda step: step["at"] > up + 1, "to train on")
            pauses = [later["at"] - earlier["at"] for earlier, later in _pairs(self._steps(), began)]
            changed = {step["round"] for step in self._steps() if step["at"] > began} - {old}
            return Loss("master", max(pauses), math.nan, lost(self._steps()) + len(changed), acts)
        finally:
            self._stage.delete(self._name)

    def _settled(self) -> int:
        """The round in which all train."""
        command = (SCRIPT, "--epochs", 10000, "--step-time", STEP, "--batch", 16)
        self._stage.submit(job(self._name, 1, WORKERS, *command))
        self._output.until(
            lambda: sum(step["size"] == WORKERS for step in self._steps()) >= SETTLED * WORKERS,
            START,
            "three workers",
        )
        return int(self._steps()[-1]["round"])

    def _until(self, holds: Callable[[Line], object], what: str) -> Line:
        def found() -> Line | None:
            return next((step for step in self._steps() if holds(step)), None)

        self._output.until(found, START, what)
        step = found()
        assert step is not None
        return step

    def _steps(self) -> list[Line]:
        return in_rounds(self._output)


def in_rounds(output: Output) -> list[Line]:
    """Every step that was printed, with the `round` that its worker had entered; in order of time."""
    found = [step for lines in steps.by_worker(output.lines).values() for step in _in_rounds(lines)]
    return sorted(found, key=lambda step: float(step["at"]))


def _in_rounds(lines: Iterable[steps.Line]) -> Iterator[Line]:
    entered = 0
    for line in lines:
        said = steps.ENTERED.search(str(line.get("said", "")))
        entered = int(said["round"]) if said else entered
        if "step" in line and "at" in line:
            yield {**line, "round": entered}


def summed(blow: str, seen: Sequence[Line], old: int, began: float, whole: float) -> Loss:
    """old: the round in which the blow fell. Raises LookupError when no survivor took a step after it."""
    stayed = {step["worker"] for step in seen if step["round"] == old and step["size"] == WORKERS}
    after = [step["at"] for step in seen if step["round"] > old and step["worker"] in stayed]
    if not after:
        raise LookupError(f"{blow}: no survivor took a step")
    return Loss(blow, min(after) - began, whole - began, lost(seen))


def lost(seen: Sequence[Line]) -> int:
    """Steps that one worker took twice, and steps that none took."""
    times = Counter((step["pod"], step["step"]) for step in seen)
    numbers = {step["step"] for step in seen}
    return sum(count - 1 for count in times.values()) + max(numbers) - len(numbers)


def _pairs(seen: Sequence[Line], began: float) -> Iterator[tuple[Line, Line]]:
    """Steps of one worker that follow each other, the later one after that time."""
    for own in steps.by_worker(seen).values():
        yield from ((one, other) for one, other in itertools.pairwise(own) if other["at"] > began)


def summary(found: Sequence[Loss]) -> Line:
    """Medians and ranges by blow, the worst against its target."""
    said: Line = {}
    for blow in dict.fromkeys(one.blow for one in found):
        own = [one for one in found if one.blow == blow]
        for name in ("recovered_s", "whole_s", "acts_s"):
            values = [getattr(one, name) for one in own]
            if not any(map(math.isnan, values)):
                said[f"{blow}_{name}"] = {
                    "median": round(statistics.median(values), 3),
                    "range": [round(min(values), 3), round(max(values), 3)],
                }
    most = {name: figure["range"][1] for name, figure in said.items()}
    most["lost_steps"] = max(one.lost_steps for one in found)
    missed = [name for name, target in TARGETS.items() if name in most and most[name] > target]
    return {**said, "lost_steps": most["lost_steps"], "targets": TARGETS, "missed": missed}
