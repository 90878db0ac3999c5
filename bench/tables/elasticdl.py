"""ElasticDL's three experiments: published, simulated, and repeated with real processes at a small scale."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from bench.elastic.experiments import published, slots
from bench.elastic.experiments.convergence import LAST
from bench.queue.running import in_order
from bench.tables.table import Cell, Chart, Profile, Series, Table
from bench.timelines import MEASURED, SECONDS, SERVES, SLOW, Beside, TwoJobs, elastic, gangs, replay, saved

COLUMNS: Final = ("experiment", "figure", "published", "simulated", "simulated, slow start", "real run")
ONE: Final = "two jobs"
BESIDE: Final = "beside serving"
ACCURACY: Final = "accuracy, points"

COSTS: Final = (MEASURED, SLOW)
"""Of the two columns of simulations."""

LATER: Final = {Profile.QUICK: range(0, 481, 60), Profile.FULL: range(0, 481, 10)}
"""Seconds after which the second job is submitted."""

REAL: Final = {
    "saved": "20.5%",
    "use": "80.7%",
    "gang_use": "64.5%",
    "beside_use": "99.2%",
    "dip": "0.9 s",
    "regrowth": "6.8 s",
    "over_two": "0.0 (−0.5 to 0.5)",
    "over_four": "0.2 (−0.4 to 0.7)",
}
"""Measured by `python -m bench.elastic experiments`, as bench/README.md has it. The report does not repeat these runs."""

TWO: Final = "baseline_2workers"
FOUR: Final = "baseline_4workers"
ELASTIC: Final = "elastic_2_4workers"
KINDS: Final = {TWO: "2 workers", FOUR: "4 workers", ELASTIC: "2 to 4 workers"}
"""How the published columns begin, and what they are called here."""

NOTES: Final = (
    f"Two jobs run on {published.TWO_JOBS_SLOTS} GPUs, and serving and training on {published.SERVING_SLOTS}.",
    f"A job is {SECONDS:g} s of 4 workers (published: 449 s). Without any cost, gangs end at 900 s, elastic jobs at 735 s.",
    (
        f"A worker starts in {MEASURED.start:g} s, and in the column “slow start” in {SLOW.start:g} s, as in the published "
        f"runs. A resize costs {MEASURED.resize:g} s."
    ),
    (
        "An elastic job begins with its minimum of one worker. It grows later: it keeps a size for 10 s, sizes are "
        "decided every 10 s, and a worker takes 5 s to start. So jobs that hardly overlap take up to 3% longer than gangs "
        "(third picture, from 420 s on)."
    ),
    "It is unknown when the second job of the published gang run was submitted. Here it is 120 s in all runs.",
    f"A serving pod runs {SERVES:g} s after it got its GPU, the shortest gap of the published run.",
    (
        "“real run” is the same experiment on emulated slots, with at least two workers in elastic jobs: `python -m "
        "bench.elastic experiments`. Its accuracies are of 20 seeds, with 95% intervals. They are not measured again here."
    ),
    f"Published accuracies are means of the last {LAST} epochs of two runs each.",
)


def make(profile: Profile, workers: int) -> Table:
    """Times in seconds, use and time saved in %, accuracy in points of a percent."""
    pairs = [(gangs(costs), elastic(costs)) for costs in COSTS]
    beside = [replay(costs) for costs in COSTS]
    later = LATER[profile]
    cases = [(costs, at) for costs in COSTS for at in later]
    shares = [100 * share for share in in_order(saved, list(zip(*cases, strict=True)), workers)]
    lines = {name: published.timeline(f"{name}_allreduce") for name in ("gang", "elastic")}
    rows = [*_two_jobs(lines, pairs), *_beside(beside), *_accuracies()]
    return Table(
        "ElasticDL: two jobs, serving, and accuracy",
        "It shows what elastic jobs gain over gangs on the published timelines, with start and resize costs that were "
        "measured on real Horovod. It does not show GPUs: training in the simulation scales linearly.",
        COLUMNS,
        rows,
        _figures(pairs, beside, shares),
        NOTES,
        (
            _two_jobs_chart(lines, pairs[0]),
            Chart(
                "time, s",
                "GPUs in use beside serving",
                [
                    _step("published", published.timeline("overall_cluster")),
                    _step("simulated", beside[0].line),
                    _step("simulated, slow start", beside[1].line),
                ],
            ),
            Chart(
                "second job submitted after, s",
                "time saved, %",
                [
                    Series("simulated", list(later), shares[: len(later)]),
                    Series("simulated, slow start", list(later), shares[len(later) :]),
                    Series("published", [published.SECOND_JOB], [100 * _saved(lines)]),
                ],
            ),
            Chart("epoch", "published test accuracy", list(_curves())),
        ),
    )


def _figures(
    pairs: Sequence[tuple[TwoJobs, TwoJobs]], beside: Sequence[Beside], shares: Sequence[float]
) -> dict[str, float]:
    (gang, own), (slow_gang, slow) = pairs
    over = _over(published.accuracies())
    return {
        "gang_end_s": gang.end,
        "elastic_end_s": own.end,
        "saved_percent": 100 * (1 - own.end / gang.end),
        "slow_saved_percent": 100 * (1 - slow.end / slow_gang.end),
        "least_saved_percent": min(shares),
        "gang_use_percent": 100 * gang.use,
        "elastic_use_percent": 100 * own.use,
        "slow_elastic_use_percent": 100 * slow.use,
        "second_trains_s": own.second_trains,
        "serving_use_percent": 100 * beside[0].use,
        "slow_serving_use_percent": 100 * beside[1].use,
        "serving_dip_s": beside[0].dip,
        "serving_regrowth_s": beside[0].regrowth,
        "slow_serving_regrowth_s": beside[1].regrowth,
        "serving_fewest_workers": float(beside[0].fewest),
        "published_over_two_points": over[TWO],
        "published_over_four_points": over[FOUR],
    }


# Two jobs


def _two_jobs(
    lines: Mapping[str, slots.Timeline], pairs: Sequence[tuple[TwoJobs, TwoJobs]]
) -> Iterator[Sequence[Cell]]:
    def row(
        name: str, theirs: str, own: Callable[[TwoJobs, TwoJobs], str], real: str | None = None
    ) -> Sequence[Cell]:
        return (ONE, name, theirs, *(own(*pair) for pair in pairs), real)

    gang, flexible = (_use(lines[name]) for name in ("gang", "elastic"))
    joined = next(at for at, count in lines["elastic"].items() if count > 4) - published.SECOND_JOB
    yield row("both end, gangs", _s(max(lines["gang"])), lambda gang, _: _s(gang.end))
    yield row("both end, elastic", _s(max(lines["elastic"])), lambda _, own: _s(own.end))
    yield row("time saved", _p(_saved(lines)), lambda gang, own: _p(1 - own.end / gang.end), REAL["saved"])
    yield row("GPUs in use, gangs", _p(gang), lambda gang, _: _p(gang.use), REAL["gang_use"])
    yield row("GPUs in use, elastic", _p(flexible), lambda _, own: _p(own.use), REAL["use"])
    yield row("second job trains after", _s(joined), lambda _, own: _s(own.second_trains))


def _saved(lines: Mapping[str, slots.Timeline]) -> float:
    return 1 - max(lines["elastic"]) / max(lines["gang"])


def _use(line: slots.Timeline) -> float:
    return slots.mean_use(line, published.TWO_JOBS_SLOTS)


def _two_jobs_chart(lines: Mapping[str, slots.Timeline], pair: tuple[TwoJobs, TwoJobs]) -> Chart:
    series = [_step(f"{name}, published", line) for name, line in lines.items()]
    own = [_step(f"{name}, simulated", run.line) for name, run in zip(lines, pair, strict=True)]
    return Chart("time, s", "GPUs in use by two jobs", [*series, *own])


# Training beside serving


def _beside(runs: Sequence[Beside]) -> Iterator[Sequence[Cell]]:
    training, overall = published.timeline("elastic_training"), published.timeline("overall_cluster")
    orders = published.orders(training, published.timeline("tf_serving"))
    gaps = slots.gaps(overall, published.SERVING_SLOTS, orders)
    use = slots.mean_use(overall, published.SERVING_SLOTS)
    dip, regrowth = (slots.longest(gaps, dips=dips) for dips in (True, False))
    yield (BESIDE, "GPUs in use", _p(use), *(_p(own.use) for own in runs), REAL["beside_use"])
    yield (BESIDE, "longest dip", _s(dip), *(_s(own.dip) for own in runs), REAL["dip"])
    yield (BESIDE, "longest regrowth", _s(regrowth), *(_s(own.regrowth) for own in runs), REAL["regrowth"])
    yield (BESIDE, "fewest workers", str(min(training.values())), *(str(own.fewest) for own in runs), None)


# Accuracy


def _accuracies() -> Iterator[Sequence[Cell]]:
    """The published differences, and how far two runs of one kind are apart."""
    runs = published.accuracies()
    over = _over(runs)
    for kind, key in ((TWO, "over_two"), (FOUR, "over_four")):
        yield (ACCURACY, f"2 to 4 workers over {KINDS[kind]}", _points(over[kind]), None, None, REAL[key])
    apart = 100 * max(abs(one - other) for one, other in map(_finals(runs).__getitem__, KINDS))
    yield (ACCURACY, "two equal runs differ by up to", _points(apart), None, None, None)


def _finals(runs: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """By kind, the accuracy of each run: the mean of its last epochs."""
    return {
        kind: [statistics.fmean(own[-LAST:]) for name, own in runs.items() if name.startswith(kind)]
        for kind in KINDS
    }


def _over(runs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """By kind, points by which two to four workers are better."""
    mean = {kind: 100 * statistics.fmean(own) for kind, own in _finals(runs).items()}
    return {kind: mean[ELASTIC] - mean[kind] for kind in (TWO, FOUR)}


def _curves() -> Iterator[Series]:
    for kind, label in KINDS.items():
        own = [values for name, values in published.accuracies().items() if name.startswith(kind)]
        means = [statistics.fmean(column) for column in zip(*own, strict=True)]
        yield Series(f"{label}, mean of {len(own)}", list(range(1, len(means) + 1)), means)


# How values are written


def _s(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.1f} s"


def _p(share: float) -> str:
    return f"{100 * share:.1f}%"


def _points(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _step(name: str, line: slots.Timeline) -> Series:
    """A line with a corner before and after each change."""
    corners = list(line.items())[:1]
    for (_, before), (at, after) in pairwise(line.items()):
        corners += [(at, before), (at, after)]
    return Series(name, [at for at, _ in corners], [float(count) for _, count in corners])
