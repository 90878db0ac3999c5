"""The orders of the queue on virtual clusters of the Philly trace: how long gangs wait, and the large ones among them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from bench.queue import bars, cases, running
from bench.queue.cases import FIFO, FREE, LAS, NOISY, SHORTEST, STRICT
from bench.queue.running import Result
from bench.report import LARGE
from bench.tables.table import Cell, Chart, Profile, Series, Table

LABELS: Final = {
    STRICT: "FIFO, no backfill",
    FREE: "FIFO, free backfill",
    FIFO: "FIFO, reservation (default)",
    LAS: "LAS, suspends Jobs",
    SHORTEST: "shortest first",
    NOISY: "shortest first, noisy",
}
SHORT: Final = {
    STRICT: "no backfill",
    FREE: "free backfill",
    FIFO: "reservation",
    LAS: "LAS",
    SHORTEST: "shortest",
    NOISY: "shortest, noisy",
}
"""Under the bars of a picture."""

COLUMNS: Final = (
    "cluster",
    "queue",
    "mean completion, h",
    "mean wait, h",
    "p99 wait, h",
    "16+ GPUs: mean wait, h",
    "16+ GPUs: p99 wait, h",
    "GPUs in use, %",
    "suspensions",
)

PARTS: Final[Mapping[Profile, Mapping[str, int | None]]] = {
    Profile.QUICK: {"2869ce": None, "b436b2": 600},
    Profile.FULL: {cluster.name: None for cluster in cases.CLUSTERS},
}
"""By profile and cluster: the number of jobs, from the first on. None: all."""


def make(profile: Profile, workers: int) -> Table:
    """Times in hours."""
    parts = PARTS[profile]
    clusters = [cluster for cluster in cases.CLUSTERS if cluster.name in parts]
    runs = [(cluster, queue, parts[cluster.name]) for cluster in clusters for queue in cases.QUEUES]
    results = list(running.in_order(running.run, list(zip(*runs, strict=True)), workers))
    names = {cluster.name: _called(cluster.name, parts) for cluster in clusters}
    return Table(
        "Philly: queues of rigid gangs",
        "It shows what the order of the queue and its backfill are worth on real arrivals and runtimes. It does not "
        "compare with a published system: no figures are published for these clusters.",
        COLUMNS,
        [_row(names[one.cluster], one) for one in results],
        dict(_figures(results)),
        list(_notes(results, parts)),
        [
            _chart("mean wait, h", results, names, lambda one: one.report.all.wait.mean),
            _chart("p99 wait of 16+ GPUs, h", results, names, lambda one: one.report.sizes[LARGE].wait.p99),
        ],
    )


def _called(cluster: str, parts: Mapping[str, int | None]) -> str:
    first = parts[cluster]
    return cluster if first is None else f"{cluster}, first {first:,}"


def _row(cluster: str, one: Result) -> Sequence[Cell]:
    own, large = one.report.all, one.report.sizes[LARGE].wait
    return (
        cluster,
        LABELS[one.queue],
        own.completion.mean,
        own.wait.mean,
        own.wait.p99,
        large.mean,
        large.p99,
        round(100 * one.report.utilisation, 1),
        one.report.suspensions,
    )


def _figures(results: Sequence[Result]) -> Iterator[tuple[str, float]]:
    """The ratios that are claimed, and the waits."""
    for bar in bars.bars(results):
        yield bar.name, bar.ratio
    for one in results:
        yield f"{one.cluster}_{one.queue}_wait_h", one.report.all.wait.mean
        yield f"{one.cluster}_{one.queue}_large_p99_wait_h", one.report.sizes[LARGE].wait.p99


def _notes(results: Sequence[Result], parts: Mapping[str, int | None]) -> Iterator[str]:
    for cluster in cases.CLUSTERS:
        own = [one for one in results if one.cluster == cluster.name]
        if own:
            large = own[0].report.sizes[LARGE].wait.count
            p99 = ". Their p99 is the longest wait" if large < bars.FEW else ""
            yield (
                f"{_called(cluster.name, parts)}: {len(own[0].fates):,} jobs on {cluster.nodes} nodes of 8 GPUs. "
                f"{large} of them have 16 GPUs or more{p99}."
            )
    for bar in bars.bars([one for one in results if parts[one.cluster] is None]):
        if not bar.holds:
            yield f"Missed: {bar.name} is {bar.ratio:.2f}. It should be at most {bar.most:.2f}."
    yield "The settings are the defaults in all but order and backfill, the same on every cluster."
    yield "The wait of a job is its completion time minus its runtime, so it includes restarts and suspensions."
    yield (
        "Free backfill has no reservation, so it starves large gangs: compare their p99 wait. LAS is least attained "
        "service."
    )
    yield (
        "With a reservation and with “shortest first” jobs state their runtimes. Noisy ones are between half and twice "
        "the truth. LAS knows none."
    )


def _chart(
    y: str, results: Sequence[Result], names: Mapping[str, str], figure: Callable[[Result], float]
) -> Chart:
    by_cluster = {name: [one for one in results if one.cluster == name] for name in names}
    return Chart(
        "queue",
        y,
        [
            Series(names[name], [SHORT[one.queue] for one in own], [figure(one) for one in own])
            for name, own in by_cluster.items()
        ],
    )
