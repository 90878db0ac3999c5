"""What the training said of itself last, and how long ago that changed.

Lives here: reading the child's report field by field, and the part of the beat that is made of it. Never here: a clock
or a lock; `training_run` has both. A value that is no number a person could use (a loss that is not finite) is left out
rather than stopping the beat, and so are values beyond the limit. A field that makes no sense is named and keeps what
it had; the others are believed, for a report that was dropped would let a training that goes on look as if it hung.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from itertools import islice
from typing import Any, Callable, Mapping

from .agent_errors import shortened

PHASES = frozenset({"Starting", "WarmingUp", "Ready", "Training", "Leaving"})

VALUES_LIMIT = 64
"""Values of a worker that are passed on, the first ones; each becomes a series of metrics. The master takes no more."""

USES_LIMIT = 16
"""Words of `uses` that are passed on, the first ones. There are three so far."""

SAVED = "checkpoint_step"
"""The value by which `runtime` says of which step its newest checkpoint is."""

MARK = "mark"
"""What a script changes that takes steps and commits none of them; for our eyes alone."""

STEPS = 2**53
"""Beyond it a value is no step."""

STEPS_KEPT = 50
"""Steps whose median is the usual step: enough to forget one long validation, few enough to follow a new size."""


class Wrong(ValueError):  # noqa: N818 - read as such where it is caught
    """A field of the child's report is not what it should be."""


def _checked(value: Any, right: str, ok: bool) -> Any:
    if not ok:
        raise Wrong(right)
    return value


def _whole(value: Any) -> Any:
    return _checked(value, "a whole number from 0 on", type(value) is int and value >= 0)


def _amount(value: Any) -> float:
    known = type(value) in {int, float} and math.isfinite(value) and value >= 0
    return float(_checked(value, "a number from 0 on", known))


def _seconds(value: Any) -> float | None:
    return None if value is None else _amount(value)


def _phase(value: Any) -> Any:
    known = isinstance(value, str) and value in PHASES
    return _checked(value, f"one of {', '.join(sorted(PHASES))}", known)


def _text(value: Any) -> str:
    return shortened(_checked(value, "a text", isinstance(value, str)))


def _flag(value: Any) -> Any:
    return _checked(value, "true or false", type(value) is bool)


def _values(value: Any) -> dict[str, float]:
    numbers = {
        name[:64]: float(number)
        for name, number in _checked(value, "an object of numbers", isinstance(value, dict)).items()
        if name and type(number) in {int, float} and abs(number) < 1e300  # neither infinite nor not-a-number
    }
    return dict(islice(numbers.items(), VALUES_LIMIT))


def _uses(value: Any) -> Any:
    words = isinstance(value, list) and all(isinstance(one, str) and 0 < len(one) <= 64 for one in value)
    return _checked(value, "a list of words", words)[:USES_LIMIT]


FIELDS: dict[str, Callable[[Any], Any]] = {
    "phase": _phase,
    "step": _whole,
    "committed": _whole,
    "samples": _amount,
    "epoch": _amount,
    MARK: _amount,
    "step_s": _seconds,
    "compute_s": _seconds,
    "collective": _flag,
    "values": _values,
    "uses": _uses,
    "stale": _text,
}
"""Field of a report → its reader."""

MARKS = ("phase", "step", "committed", "samples", "epoch", MARK)
"""The fields whose change shows that the main thread goes on; a report may come from another thread."""


class Progress:
    """The latest of every field, the times of steps since the last beat, and when it last went on."""

    def __init__(self, now: float) -> None:
        self._told: dict[str, Any] = {
            "phase": "Starting", "step": 0, "committed": 0, "samples": 0.0, "epoch": 0.0, MARK: 0.0, "collective": False,
            "values": {}, "uses": None, "stale": "",
        }  # fmt: skip
        self._since_beat: dict[str, list[tuple[float, int]]] = {"step_s": [], "compute_s": []}
        self._steps: deque[float] = deque(maxlen=STEPS_KEPT)
        self._went_on = now

    @property
    def phase(self) -> str:
        return str(self._told["phase"])

    @property
    def saved(self) -> int | None:
        """The step of the newest checkpoint that the training wrote; None when it wrote none."""
        step = self._told["values"].get(SAVED)
        return int(step) if step is not None and 0 <= step < STEPS else None

    @property
    def collective(self) -> bool:
        """Whether the main thread said to be inside a collective."""
        return bool(self._told["collective"])

    @property
    def usual_step(self) -> float:
        """The median time of a step in seconds, 0 before the first."""
        return statistics.median(self._steps) if self._steps else 0.0

    def take(self, report: Mapping[str, Any], now: float) -> None:
        """Believe a report of the child's. Raises Wrong, when the rest is believed, naming a field that makes no
        sense.
        """
        read: dict[str, Any] = {}
        wrong: Wrong | None = None
        for name in (one for one in FIELDS if one in report):
            try:
                read[name] = FIELDS[name](report[name])
            except Wrong as error:
                wrong = Wrong(f"{name}: must be {error}")
        self._believe(read, now)
        if wrong is not None:
            raise wrong

    def _believe(self, read: dict[str, Any], now: float) -> None:
        made = int(read.get("step", 0)) - int(self._told["step"])
        for name, times in self._since_beat.items():
            taken = read.pop(name, None)
            if taken is not None:
                times.append((taken, max(1, min(made, STEPS))))
                if name == "step_s":
                    self._steps.append(taken)
        before = [self._told[name] for name in MARKS]
        self._told.update(read)
        if before != [self._told[name] for name in MARKS]:
            self._went_on = now

    def goes_on(self, now: float) -> None:
        """The main thread showed itself in another way: it stands at the barrier, or left it."""
        self._went_on = now

    def silent(self, now: float) -> float:
        """Seconds since the main thread last showed that it goes on."""
        return max(0.0, now - self._went_on)

    @property
    def step_s(self) -> float | None:
        """The mean time of the steps since the last beat in seconds; None where there is none."""
        return _mean(self._since_beat["step_s"])

    def beat(self, now: float) -> dict[str, Any]:
        """The training's part of a beat; means of times begin anew."""
        means = {name: _mean(times) for name, times in self._since_beat.items()}
        for times in self._since_beat.values():
            times.clear()
        told = {name: value for name, value in self._told.items() if name != MARK}
        return {**told, **means, "silent_s": round(self.silent(now), 3)}


def _mean(times: list[tuple[float, int]]) -> float | None:
    """Of all steps, from the mean of each report and its number of steps; None where there is none."""
    steps = sum(count for _, count in times)
    return sum(mean * count for mean, count in times) / steps if steps else None
