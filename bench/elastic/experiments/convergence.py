"""Experiment 3: two workers, four workers, and two that become four and two again, on the same seeds."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.elastic.experiments import accuracy
from bench.elastic.experiments.working import Shop, Work
from bench.elastic.stage import Stage

STEP: Final = 0.2
"""Seconds to which a pass is padded. Three jobs of together ten workers run at once."""

RATE: Final = 0.02
"""Learning rate of one worker's batch; that of all is as many times it as there are workers, on every road."""

BATCH: Final = 16
LAST: Final = 5
"""Epochs at the end whose mean is the final accuracy: 297 digits are few, and one of them is a third of a point. They
are trained at a tenth of the rate, as the published runs end: at the full rate an epoch's accuracy is off its
neighbours' by one point and more."""

EPOCHS: Final = 24
"""Four workers take half as many steps as two, and after 16 epochs are still behind for that: by 0.4 points (0.0 to
0.8) of twenty seeds. After 24 it is no more than chance: 0.2 (−0.4 to 0.7) of twenty seeds. In the same training by one
process it is 0.5 (0.0 to 1.0; 22 seeds) after 16, and 0.1 (−0.7 to 1.0; 14 seeds) after 24.
"""

SEEDS: Final = 20
"""Runs of two seeds differ by about a point: of seven the interval of a mean difference reached 0.9 and 1.2 to both
sides, as far as the margin or farther; of twenty 0.4 to 0.7.
"""

TWO, FOUR, ELASTIC = "2 workers", "4 workers", "2 to 4 workers"

SIZES: Final = {TWO: ("two", 2, 2), FOUR: ("four", 4, 4), ELASTIC: ("elastic", 2, 4)}
"""What each is called as a job, and its bounds."""

SLOTS: Final = sum(most for _, _, most in SIZES.values())


@dataclass(frozen=True)
class Run:
    """accuracies: after each epoch. sizes: workers at the end of each epoch."""

    name: str
    seed: int
    accuracies: tuple[float, ...]
    sizes: tuple[int, ...]

    @property
    def final(self) -> float:
        return statistics.fmean(self.accuracies[-LAST:])

    def told(self) -> dict[str, Any]:
        return {
            "experiment": "convergence",
            "run": self.name,
            "seed": self.seed,
            "final_accuracy": round(self.final, 4),
            "accuracies": [round(value, 4) for value in self.accuracies],
            "sizes": list(self.sizes),
            "padded_step_s": STEP,
        }


def runs(stage: Stage, seeds: Sequence[int], epochs: int) -> Iterator[Run]:
    """A seed's three runs side by side."""
    for seed in seeds:
        shop = Shop(stage)
        try:
            works = {name: submit(shop, name, seed, epochs) for name in SIZES}
            shop.ended(*works.values())
        finally:
            shop.clear()
        for name, work in works.items():
            yield summed(name, seed, work)


def submit(shop: Shop, name: str, seed: int, epochs: int) -> Work:
    called, least, most = SIZES[name]
    rate = RATE * least  # the script's own is that of the quorum; the master scales it from there
    words = ["--epochs", epochs, "--step-time", STEP, "--batch", BATCH, "--seed", seed, "--rate", rate]
    words += ["--decay-from", epochs - LAST]
    spec: dict[str, Any] = {"batch": {"mode": "per-worker", "perWorker": BATCH}}
    if least < most:
        spec |= {
            "sizing": {"policy": "schedule", "parameters": {"hold": 1}},
            "schedule": schedule(epochs, least, most),
        }
    return shop.submit(f"{called}-{seed}", least, most, words, spec)


def schedule(epochs: int, least: int, most: int) -> list[dict[str, Any]]:
    """Few workers, many for the middle third, few again."""
    stages = ((0, least), (epochs // 3, most), (2 * epochs // 3, least))
    return [{"epoch": epoch, "workers": workers} for epoch, workers in stages]


def summed(name: str, seed: int, work: Work) -> Run:
    """An epoch's accuracy is printed by every worker with its last step; rank 0 of then counts."""
    ends = {step["step"]: step for step in work.steps() if "accuracy" in step and step.get("rank") == 0}
    in_order = [ends[number] for number in sorted(ends)]
    return Run(
        name, seed, tuple(step["accuracy"] for step in in_order), tuple(step["size"] for step in in_order)
    )


def finals(found: Sequence[Run]) -> Mapping[str, accuracy.Finals]:
    return {name: {run.seed: run.final for run in found if run.name == name} for name in SIZES}


def summary(found: Sequence[Run]) -> dict[str, Any]:
    by_name = finals(found)
    bound = accuracy.margin([by_name[TWO], by_name[FOUR]])
    pairs = {
        "elastic_minus_2": (ELASTIC, TWO),
        "elastic_minus_4": (ELASTIC, FOUR),
        "4_minus_2": (FOUR, TWO),
    }
    differences = {
        key: accuracy.compare(by_name[one], by_name[other], bound) for key, (one, other) in pairs.items()
    }
    return {
        "final_accuracy": {name: round(statistics.fmean(own.values()), 4) for name, own in by_name.items()},
        "seeds": len(by_name[ELASTIC]),
        "spread": round(accuracy.spread([by_name[TWO], by_name[FOUR]]), 4),
        "margin": round(bound, 4),
        "differences": {
            key: {"mean": round(one.mean, 4), "interval": [_rounded(one.low), _rounded(one.high)]}
            for key, one in differences.items()
        },
        "missed": [key for key, one in differences.items() if not one.equivalent],
    }


def _rounded(value: float) -> float | None:
    return round(value, 4) if abs(value) != float("inf") else None
