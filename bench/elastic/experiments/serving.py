"""Experiment 2: a training job uses what serving pods of a higher priority leave of eight slots; their timeline is
replayed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.elastic.experiments import published, slots
from bench.elastic.experiments.working import STEP, Shop, now
from bench.elastic.following import Line, Output
from bench.elastic.stage import NAMESPACE, Object, Stage
from bench.plane import where
from bench.plane.installation import SCHEDULER_NAME
from bench.plane.nodes import GPU

LEAST, MOST = 1, 6
BATCH: Final = 16
FIRST: Final = 2
"""Serving pods that run from the beginning."""

CLASS: Final = "serving"
PRIORITY: Final = 1000

TARGETS: Final = {
    "use_percent": 96.5,
    "longest_dip_s": 7.0,
    "longest_regrowth_s": 24.0,
    "fewest_workers": LEAST,
}
MOSTS: Final = ("longest_dip_s", "longest_regrowth_s")
"""Targets that are a most; the others are a least."""

SAYS: Final = """echo "{\\"at\\": $(date +%s.%N)}"; trap 'exit 0' TERM; sleep 1000000 & wait"""


@dataclass(frozen=True)
class Run:
    """Times in seconds from the beginning."""

    seconds: float
    training: slots.Timeline
    serving: slots.Timeline
    overall: slots.Timeline
    orders: tuple[tuple[float, int], ...]
    fewest: int
    longest_pause: float

    @property
    def use(self) -> float:
        return slots.mean_use(self.overall, published.SERVING_SLOTS)

    @property
    def gaps(self) -> list[slots.Gap]:
        return slots.gaps(self.overall, published.SERVING_SLOTS, self.orders)

    def told(self) -> dict[str, Any]:
        return {
            "experiment": "serving",
            "seconds": round(self.seconds, 1),
            "orders": [(round(time, 1), by) for time, by in self.orders],
            "gaps": [
                {"at": round(gap.begin, 1), "seconds": round(gap.seconds, 2), "after": gap.after}
                for gap in self.gaps
            ],
            "longest_pause_s": round(self.longest_pause, 2),
            "padded_step_s": STEP,
        }


def replay(stage: Stage) -> Run:
    """Theirs, second by second."""
    theirs = published.timeline("elastic_training"), published.timeline("tf_serving")
    return run(stage, published.orders(*theirs), max(theirs[0]))


def run(stage: Stage, orders: Sequence[tuple[float, int]], length: float) -> Run:
    """orders: at which second so many serving pods more, or fewer, are asked for. Begins when training uses all the
    rest.
    """
    shop, front = Shop(stage), Serving(stage)
    try:
        front.change(FIRST)
        words = ["--epochs", 10000, "--step-time", STEP, "--batch", BATCH]
        work = shop.submit(
            "training", LEAST, MOST, words, {"batch": {"mode": "per-worker", "perWorker": BATCH}}
        )
        shop.until(lambda: len(_in_full(work.steps())) == MOST, f"training with {MOST} workers")
        begin, asked = now(), []
        for at, by in orders:
            shop.until(lambda at=at: now() - begin >= at, "the next order")
            asked.append((now() - begin, by))
            front.change(by)
        shop.until(lambda: now() - begin >= length, "the end of the timeline")
        end = now()
        shop.until(lambda: now() - end >= 4 * STEP, "steps of those that train on")
        serving = front.uses(end)
        training = slots.by_worker(work.steps())
    finally:
        shop.clear()
        front.change(-len(front.pods))
    inside = [step for step in work.steps() if begin <= step["at"] <= end]
    return Run(
        end - begin,
        slots.timeline(training, begin, end),
        slots.timeline(serving, begin, end),
        slots.timeline(training + serving, begin, end),
        tuple(asked),
        min(step["size"] for step in inside),
        slots.longest_pause(inside),
    )


def _in_full(steps: list[Line]) -> set[str]:
    """Who made a step with all the others."""
    return {step["worker"] for step in steps if step["size"] == MOST}


class Serving:
    """Single pods of a higher priority, the newest of which go first."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.pods: list[str] = []
        self._ended: dict[str, float] = {}
        self._made = 0
        word = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": CLASS}}
        stage.plane.kubectl("apply", "-f", "-", stdin=json.dumps({**word, "value": PRIORITY}))

    def change(self, by: int) -> None:
        """So many more, or fewer."""
        for _ in range(by):
            self._made += 1
            self.pods.append(f"serving-{self._made}")
            self._stage.run(self._stage.api.create(where("pods", NAMESPACE), _pod(self.pods[-1])))
        for _ in range(-by):
            name = self.pods.pop()
            self._ended[name] = now()
            self._stage.run(self._stage.api.delete(where("pods", NAMESPACE, name)))

    def uses(self, end: float) -> list[slots.Use]:
        """From when each one's process ran until it was deleted, or until the end."""
        output = Output(
            lambda: sorted((self._stage.kubelet.folder / "logs").glob(f"{NAMESPACE}_serving-*/main-*.log"))
        )
        begun = {line["worker"].split("_")[1]: float(line["at"]) for line in output.read() if "at" in line}
        return [(at, self._ended.get(name, end)) for name, at in begun.items()]


def _pod(name: str) -> Object:
    container = {
        "name": "main",
        "image": "plain",
        "command": ["sh", "-c", SAYS],
        "resources": {"requests": {"cpu": "1"}, "limits": {GPU: "1"}},
    }
    spec = {
        "schedulerName": SCHEDULER_NAME,
        "priorityClassName": CLASS,
        "containers": [container],
        "terminationGracePeriodSeconds": 2,
    }
    return {"metadata": {"name": name}, "spec": spec}


def summary(found: Run) -> dict[str, Any]:
    said = {
        "use_percent": round(100 * found.use, 1),
        "longest_dip_s": round(slots.longest(found.gaps, dips=True), 2),
        "longest_regrowth_s": round(slots.longest(found.gaps, dips=False), 2),
        "fewest_workers": found.fewest,
    }
    missed = [
        name for name, bar in TARGETS.items() if (said[name] > bar if name in MOSTS else said[name] < bar)
    ]
    theirs = published.timeline("overall_cluster")
    asked = published.orders(published.timeline("elastic_training"), published.timeline("tf_serving"))
    gaps = slots.gaps(theirs, published.SERVING_SLOTS, asked)
    return {
        **said,
        "targets": TARGETS,
        "missed": missed,
        "published": {
            "use_percent": round(100 * slots.mean_use(theirs, published.SERVING_SLOTS), 1),
            "longest_dip_s": slots.longest(gaps, dips=True),
            "longest_regrowth_s": slots.longest(gaps, dips=False),
        },
    }
