"""List schedulers without Gangwright, on the same tasks: strict FIFO, FIFO that skips, and Tetris' own rule.

A rule names the next task to start and its node, again and again until it names none. Tetris' rule: among all waiting
tasks and nodes with room for them, the pair of largest dot product of demand and free capacity, both in parts of a node
(Grandl et al., SIGCOMM 2014, section 3.2; all data is local, so nothing is charged for remote reads).
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.controller import GPU
from bench.report import Fate
from bench.tetris.tasks import NODE, NODES
from bench.traces import Job

Parts: TypeAlias = NDArray[np.float64]
"""float64[k, 4], amounts in whole units."""

Rule: TypeAlias = Callable[[Parts, Parts], tuple[int, int] | None]
"""Of the demands of the waiting tasks in order of arrival, and the free capacity of the nodes: the place of the task that
starts, and its node. None: none starts."""

_SCALE: Final = np.array([float(amount) for amount in NODE.values()])


def run(tasks: Sequence[Job], rule: Rule) -> list[Fate]:
    """What becomes of all tasks.  tasks: in order of arrival."""
    demands = np.array([_demand(task) for task in tasks])
    free = np.tile(_SCALE, (NODES, 1))
    waiting: list[int] = []
    ends: list[tuple[float, int, int]] = []
    fates: list[Fate] = []
    arrived = 0
    while arrived < len(tasks) or ends:
        arrival = tasks[arrived].arrival if arrived < len(tasks) else np.inf
        now = min(arrival, ends[0][0] if ends else np.inf)
        while ends and ends[0][0] <= now:
            ended, task, node = heapq.heappop(ends)
            free[node] += demands[task]
            fates.append(Fate(tasks[task], ended - tasks[task].runtime, ended))
        while arrived < len(tasks) and tasks[arrived].arrival <= now:
            waiting.append(arrived)
            arrived += 1
        while waiting and (chosen := rule(demands[waiting], free)) is not None:
            task, node = waiting.pop(chosen[0]), chosen[1]
            free[node] -= demands[task]
            heapq.heappush(ends, (now + tasks[task].runtime, task, node))
    return fates


def _demand(task: Job) -> list[float]:
    wanted = {**dict(task.others), GPU: task.gpus}
    return [float(wanted.get(name, 0)) for name in NODE]


def _fits(demands: Parts, free: Parts) -> NDArray[np.bool_]:
    """bool[k, n]"""
    found: NDArray[np.bool_] = (demands[:, None, :] <= free).all(axis=2)
    return found


def _first(_demand: Parts, _free: Parts) -> Parts:
    return np.zeros(1)


def _dots(demand: Parts, free: Parts) -> Parts:
    dots: Parts = (demand / _SCALE) @ (free / _SCALE).T
    return dots


def fifo(score: Callable[[Parts, Parts], Parts] = _first, *, skips: bool) -> Rule:
    """The oldest task, on the node of the highest score among those that hold it; the first of equals.

    skips: a task that fits nowhere holds up no other.
    """

    def rule(demands: Parts, free: Parts) -> tuple[int, int] | None:
        fits = _fits(demands if skips else demands[:1], free)
        able = fits.any(axis=1)
        if not able.any():
            return None
        task = int(able.argmax())
        return task, int(np.where(fits[task], score(demands[task], free), -np.inf).argmax())

    return rule


def tetris(demands: Parts, free: Parts) -> tuple[int, int] | None:
    """The pair of the largest dot product."""
    dots = np.where(_fits(demands, free), _dots(demands, free), -np.inf)
    best = int(dots.argmax())
    task, node = divmod(best, len(free))
    return None if dots[task, node] == -np.inf else (task, node)


RULES: Final[Mapping[str, Rule]] = {
    "FIFO that blocks, first node": fifo(skips=False),
    "FIFO that skips, first node": fifo(skips=True),
    "FIFO that skips, dot product": fifo(_dots, skips=True),
    "Tetris' rule": tetris,
}
