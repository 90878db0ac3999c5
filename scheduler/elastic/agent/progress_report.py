"""The latest report of the training, and the time since its last progress.

Lives here: reading the child's report field by field, and the part of the beat that contains it. Never here: a clock or
a lock; `training_run` has both. A value that is not finite (for example a loss) is omitted rather than stopping the
beat, and so are values beyond the limit. An invalid field is reported and keeps its previous value. The other fields
are accepted, because a training whose report was dropped would look hung.
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
"""Maximum values of a worker that are passed on; each becomes a metrics series. The master accepts no more."""

USES_LIMIT = 16
"""Maximum words of `uses` that are passed on. So far there are three."""

SAVED = "checkpoint_step"
"""The value in which `runtime` reports the step of its newest checkpoint."""

MARK = "mark"
"""Counter that shows progress of a script that takes steps and commits none of them; it is not passed on."""

STEPS = 2**53
"""Upper bound of a step."""

STEPS_KEPT = 50
"""Number of steps whose median is the usual step: enough to ignore a long validation, few enough to follow a resize."""


class Wrong(ValueError):  # noqa: N818 - a condition, named as such where it is caught
    """A field of the child's report is invalid."""


def _checked(value: Any, right: str, ok: bool) -> Any:
    if not ok:
        raise Wrong(right)
    return value


def _whole(value: Any) -> Any:
    return _checked(value, "an integer, 0 or more", type(value) is int and value >= 0)


def _amount(value: Any) -> float:
    known = type(value) in {int, float} and math.isfinite(value) and value >= 0
    return float(_checked(value, "a number, 0 or more", known))


def _seconds(value: Any) -> float | None:
    return None if value is None else _amount(value)


def _phase(value: Any) -> Any:
    known = isinstance(value, str) and value in PHASES
    return _checked(value, f"one of {', '.join(sorted(PHASES))}", known)


def _text(value: Any) -> str:
    return shortened(_checked(value, "a string", isinstance(value, str)))


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
    return _checked(value, "a list of strings", words)[:USES_LIMIT]


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
"""Fields whose change proves progress of the main thread; a report may come from another thread."""


class Progress:
    """The latest value of every field, the step times since the last beat, and the time of the last progress."""

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
        """The step of the newest checkpoint that the training wrote; None if it wrote none."""
        step = self._told["values"].get(SAVED)
        return int(step) if step is not None and 0 <= step < STEPS else None

    @property
    def collective(self) -> bool:
        """Whether the main thread reported to be inside a collective."""
        return bool(self._told["collective"])

    @property
    def usual_step(self) -> float:
        """The median step time in seconds, 0 before the first step."""
        return statistics.median(self._steps) if self._steps else 0.0

    def take(self, report: Mapping[str, Any], now: float) -> None:
        """Accept a report of the child. Raises Wrong, which names an invalid field, after accepting the valid ones."""
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
        """The main thread showed progress in another way: it reached the barrier, or left it."""
        self._went_on = now

    def silent(self, now: float) -> float:
        """Seconds since the last progress of the main thread."""
        return max(0.0, now - self._went_on)

    @property
    def step_s(self) -> float | None:
        """The mean step time since the last beat, in seconds; None if there was no step."""
        return _mean(self._since_beat["step_s"])

    def beat(self, now: float) -> dict[str, Any]:
        """The training's part of a beat; resets the means of times."""
        means = {name: _mean(times) for name, times in self._since_beat.items()}
        for times in self._since_beat.values():
            times.clear()
        told = {name: value for name, value in self._told.items() if name != MARK}
        return {**told, **means, "silent_s": round(self.silent(now), 3)}


def _mean(times: list[tuple[float, int]]) -> float | None:
    """Mean over all steps, from the mean and the number of steps of each report; None if there was no step."""
    steps = sum(count for _, count in times)
    return sum(mean * count for mean, count in times) / steps if steps else None
