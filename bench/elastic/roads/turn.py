"""What one turn of a road gives, and how long it trains between its changes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bench.elastic import steps
from bench.elastic.following import Output
from bench.elastic.steps import Change

SETTLED: Final = {"small": 40, "medium": 20, "large": 6}
"""By model, steps at a size before the next change: the first ones are traced, cached, and slower than the rest. With
25 million weights one takes seconds where many workers share few cores."""

START: Final = 240.0
"""Seconds within which workers train at a new size. TensorFlow alone may take a minute on a machine that does much
else.
"""


@dataclass(frozen=True, slots=True)
class Turn:
    road: str
    join: Change
    leave: Change
    step_s: float
    """Median of a step alone at the larger size."""
    pace_s: float
    """Median from step to step at the larger size, with whatever the road does between two steps."""
    agents: float = float("nan")
    """Processor seconds a second of one worker's agent while it trains; NaN where there are none."""

    def line(self, **words: Any) -> dict[str, Any]:
        return {
            "road": self.road,
            **words,
            **{f"join_{name}": value for name, value in parts(self.join).items()},
            **{f"leave_{name}": value for name, value in parts(self.leave).items()},
            "step_s": round(self.step_s, 5),
            "pace_s": round(self.pace_s, 5),
            **({} if math.isnan(self.agents) else {"agent_cores": round(self.agents, 5)}),
        }


def parts(change: Change) -> dict[str, float]:
    return {
        "s": round(change.seconds, 4),
        "without_first_step_s": round(change.without_step, 4),
        "without_first_step_and_state_s": round(change.bare, 4),
    }


class Road(Protocol):
    """low, high: workers before and after the join."""

    name: str

    def turn(self, low: int, high: int) -> Turn: ...


class Watch:
    """Waits for steps in an output. pause: seconds trained at each size at least."""

    def __init__(
        self, output: Output, model: str, pause: float, alive: Callable[[], object] = lambda: True
    ) -> None:
        self.output = output
        self._steps, self._pause, self._alive = SETTLED[model], pause, alive

    def settled(self, size: int, since: int = 0) -> int:
        """Waits until rank 0 made its steps at this size, in the lines from `since` on; how many lines there are
        then.
        """

        def enough() -> bool:
            mine = [
                one for one in self.output.lines[since:] if one.get("size") == size and one.get("rank") == 0
            ]
            return len(mine) >= self._steps and mine[-1]["at"] - mine[0]["at"] >= self._pause

        self.output.until(enough, START + self._pause, f"steps with {size} workers", self._alive)
        return len(self.output.lines)


def summed(road: str, lines: Sequence[steps.Line], low: int, high: int) -> Turn:
    workers = steps.by_worker(lines)
    return Turn(
        road,
        steps.change(workers, low, high),
        steps.change(workers, high, low),
        steps.step_time(lines, high),
        steps.pace(lines, high),
    )
