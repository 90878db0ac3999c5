"""What the experiments share: jobs of our training script, padded steps, and waiting for their ends."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.elastic.following import Line, Output
from bench.elastic.jobs import SCRIPT, job
from bench.elastic.stage import Stage
from bench.plane.errors import NeverCameError

STEP: Final = 0.5
"""Seconds to which a pass is padded: six workers on two cores then compute for a third of them."""

LIMIT: Final = 3600.0
"""Seconds within which any of these jobs ends."""

LOOK: Final = 0.2
"""Seconds between two looks."""


def now() -> float:
    """The time of day, as the training script prints it."""
    return time.time_ns() / 1e9


@dataclass
class Work:
    """A job that was submitted."""

    name: str
    submitted: float
    output: Output
    done: bool = field(default=False)

    def steps(self) -> list[Line]:
        return self.output.steps()

    @property
    def last_step(self) -> float:
        return max(float(step["at"]) for step in self.steps())


class Shop:
    """Submits jobs and looks at them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.works: list[Work] = []

    def submit(
        self, name: str, least: int, most: int, words: Sequence[object], spec: Mapping[str, Any] | None = None
    ) -> Work:
        """words: of the training script."""
        work = Work(name, now(), self.stage.output(name))
        self.stage.submit(job(name, least, most, SCRIPT, *words, spec=dict(spec or {})))
        self.works.append(work)
        return work

    def until(self, holds: Any, what: str, within: float = LIMIT) -> None:
        """Reads all outputs until it holds. Raises NeverCameError, also as soon as a job fails."""
        end, turns = time.monotonic() + within, 0
        while not holds():
            if time.monotonic() > end:
                raise NeverCameError(f"{what}: not within {within:g} s\n{self.story()}")
            time.sleep(LOOK)
            turns += 1
            if self.stage.master_ended():
                print("the master had ended and was started again", file=sys.stderr, flush=True)
            for work in self.works:
                work.output.read()
                if turns % 5 == 0 and not work.done:
                    self._look(work)

    def ended(self, *works: Work) -> None:
        """Until they succeeded, their last lines read."""
        self.until(lambda: all(work.done for work in works), "the end of the jobs")
        for work in works:
            work.output.read()

    def clear(self) -> None:
        """All jobs go, with their pods."""
        works, self.works = self.works, []
        for work in works:
            self.stage.delete(work.name)

    def story(self) -> str:
        return "\n".join(f"--- {work.name}\n{work.output.story()}" for work in self.works)

    def _look(self, work: Work) -> None:
        phase = self.stage.status(work.name).get("phase")
        work.done = phase == "Succeeded"
        if phase == "Failed":
            raise NeverCameError(f"{work.name} failed\n{self.story()}")
