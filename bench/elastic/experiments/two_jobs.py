"""Experiment 1: two jobs of four workers on six slots, as gangs one after the other, and elastic side by side."""

from dataclasses import dataclass
from typing import Any, Final

from bench.elastic.experiments import published, slots
from bench.elastic.experiments.working import STEP, Shop, Work, now
from bench.elastic.stage import Stage

WORKERS: Final = 4
LEAST: Final = 2
"""Of the elastic jobs: what is left of six slots beside four."""

BATCH: Final = 16
KNOWN: Final = 1500
"""Samples of the training script."""

TARGETS: Final = {"saved_percent": 16.0, "use_percent": 77.6}


@dataclass(frozen=True)
class Run:
    """Times in seconds from the first submission."""

    name: str
    total: float
    use: float
    line: slots.Timeline
    first_steps: tuple[float, ...]
    submitted: tuple[float, ...]
    longest_pause: float

    def told(self) -> dict[str, Any]:
        return {
            "experiment": "two jobs",
            "run": self.name,
            "total_s": round(self.total, 1),
            "use_percent": round(100 * self.use, 1),
            "submitted_s": [round(at, 1) for at in self.submitted],
            "first_step_s": [round(at, 1) for at in self.first_steps],
            "longest_pause_s": round(self.longest_pause, 2),
            "padded_step_s": STEP,
        }


def gang(stage: Stage, seconds: float) -> Run:
    return _run(stage, "gang", WORKERS, seconds)


def elastic(stage: Stage, seconds: float) -> Run:
    return _run(stage, "elastic", LEAST, seconds)


def _run(stage: Stage, name: str, least: int, seconds: float) -> Run:
    """seconds: of one job with four workers. Both are submitted when the published ones were, in proportion."""
    shop = Shop(stage)
    later = seconds * published.SECOND_JOB / published.JOB_SECONDS
    try:
        first = _submit(shop, f"{name}-1", least, seconds)
        shop.until(lambda: now() - first.submitted >= later, "the second job's turn")
        second = _submit(shop, f"{name}-2", least, seconds)
        shop.ended(first, second)
    finally:
        shop.clear()
    return summed(name, [first, second])


def _submit(shop: Shop, name: str, least: int, seconds: float) -> Work:
    samples = seconds / STEP * WORKERS * BATCH
    words = ["--epochs", round(samples / KNOWN, 2), "--step-time", STEP, "--batch", BATCH]
    return shop.submit(name, least, WORKERS, words, {"batch": {"mode": "per-worker", "perWorker": BATCH}})


def summed(name: str, works: list[Work]) -> Run:
    begin, end = works[0].submitted, max(work.last_step for work in works)
    line = slots.timeline([use for work in works for use in slots.by_worker(work.steps())], begin, end)
    return Run(
        name,
        end - begin,
        slots.mean_use(line, published.TWO_JOBS_SLOTS),
        line,
        tuple(min(step["at"] for step in work.steps()) - begin for work in works),
        tuple(work.submitted - begin for work in works),
        max(slots.longest_pause(work.steps()) for work in works),
    )


def summary(gang_run: Run, elastic_run: Run) -> dict[str, Any]:
    theirs = {name: published.timeline(f"{name}_allreduce") for name in ("gang", "elastic")}
    said = {
        "saved_percent": round(100 * (1 - elastic_run.total / gang_run.total), 1),
        "use_percent": round(100 * elastic_run.use, 1),
        "gang_use_percent": round(100 * gang_run.use, 1),
    }
    return {
        **said,
        "targets": TARGETS,
        "missed": [name for name, least in TARGETS.items() if said[name] < least],
        "published": {
            "saved_percent": round(100 * (1 - max(theirs["elastic"]) / max(theirs["gang"])), 1),
            "use_percent": round(100 * slots.mean_use(theirs["elastic"], published.TWO_JOBS_SLOTS), 1),
            "gang_use_percent": round(100 * slots.mean_use(theirs["gang"], published.TWO_JOBS_SLOTS), 1),
        },
    }
