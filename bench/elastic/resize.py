"""All roads in turn, each time beginning with another; medians, ranges, and what is held against the targets."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final

from bench.elastic.roads.ours import Ours
from bench.elastic.roads.restart import Restart
from bench.elastic.roads.stock import Stock
from bench.elastic.roads.turn import Road, Turn
from bench.elastic.stage import Stage, python

Line = dict[str, Any]

LARGE: Final = ((3, 4), (7, 8))
"""Sizes between which a job of 25 million weights is changed."""

TARGETS: Final = {
    "join_s": 0.25,
    "leave_s": 0.20,
    "restart_over_join": 20.0,
    "large_4_s": 0.3,
    "large_8_s": 0.9,
    "overhead_percent": 1.0,
}


def two(stage: Stage, repeats: int, pause: float) -> Iterator[Turn]:
    """From one worker to two and back, on every road."""
    roads: list[Road] = [
        Ours(stage, "small", pause),
        Stock(python(), "small", pause),
        Restart(python(), "small", pause),
    ]
    for number in range(repeats):
        start = number % len(roads)
        for road in [*roads[start:], *roads[:start]]:
            yield road.turn(1, 2)


def large(stage: Stage, repeats: int, sizes: Sequence[tuple[int, int]] = LARGE) -> Iterator[tuple[int, Turn]]:
    """25 million weights on our road; (workers, turn)."""
    road = Ours(stage, "large", 0.0)
    for low, high in sizes:
        for _ in range(repeats):
            yield high, road.turn(low, high)


def spread(values: Sequence[float]) -> Line:
    return {
        "median": round(statistics.median(values), 4),
        "range": [round(min(values), 4), round(max(values), 4)],
        "n": len(values),
    }


def summary(turns: Sequence[Turn], larger: Sequence[tuple[int, Turn]], overhead: Line) -> Line:
    """The last line. overhead: as `overhead.measure` has it."""
    by_road = {
        name: [turn for turn in turns if turn.road == name] for name in ("gangwright", "stock", "restart")
    }
    ours, stock, restart = by_road.values()
    said: Line = {}
    for prefix, own in (("", ours), ("stock_", stock), ("restart_", restart)):
        said |= {f"{prefix}join_s": _median([turn.join.seconds for turn in own])}
        said |= {f"{prefix}leave_s": _median([turn.leave.seconds for turn in own])}
    said["restart_s"] = said["restart_join_s"]
    said["restart_over_join"] = round(said["restart_s"] / said["join_s"], 1)
    said |= {name: value for name, value in overhead.items() if name != "starts"}
    said["stock_over_join"] = round(said["stock_join_s"] / said["join_s"], 1)
    for size in dict.fromkeys(size for size, _ in larger):
        own = [turn for number, turn in larger if number == size]
        said[f"large_{size}_s"] = _median([turn.join.bare for turn in own])
        said[f"large_{size}_leave_s"] = _median([turn.leave.bare for turn in own])
        said[f"large_{size}_whole_s"] = _median([turn.join.seconds for turn in own])
    return {**said, "targets": TARGETS, "missed": missed(said)}


def missed(said: Line) -> list[str]:
    """What is not there is not missed."""
    return [name for name in TARGETS if name in said and not _holds(name, said[name])]


def _holds(name: str, value: float) -> bool:
    """The ratio has a least, all others a most."""
    return value >= TARGETS[name] if name == "restart_over_join" else value <= TARGETS[name]


def ranges(turns: Sequence[Turn], larger: Sequence[tuple[int, Turn]]) -> Iterator[Line]:
    """Medians and ranges of all figures: a line a road between one worker and two, and one for each larger size."""
    for name in dict.fromkeys(turn.road for turn in turns):
        yield _spreads([turn.line(workers=2) for turn in turns if turn.road == name])
    for size in dict.fromkeys(size for size, _ in larger):
        yield _spreads([turn.line(workers=size, weights="25 M") for number, turn in larger if number == size])


def _spreads(lines: Sequence[Line]) -> Line:
    """lines: of one kind, so with the same words; each figure is a float, and nothing else is."""
    words = {key: value for key, value in lines[0].items() if not isinstance(value, float)}
    figures = [key for key in lines[0] if key not in words]
    return {**words, "summary": {key: spread([line[key] for line in lines]) for key in figures}}


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 4)
