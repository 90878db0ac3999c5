"""A burst of 53 gangs at once: makespan by queue and order of submission (`bench.burst`)."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from bench.burst import COMPARED, Outcome, ideal, outcome, published
from bench.confidence import interval
from bench.queue.cases import FIFO, FREE, SHORTEST, STRICT
from bench.queue.running import in_order
from bench.tables.table import Chart, Profile, Series, Table

ORDERS: Final[Mapping[Profile, Mapping[str, int]]] = {
    Profile.QUICK: {STRICT: 100, FREE: 10, FIFO: 10, SHORTEST: 10},
    Profile.FULL: dict.fromkeys((STRICT, FREE, FIFO, SHORTEST), 100),
}
"""Random orders of submission, by queue."""

CALLED: Final = {
    STRICT: "FIFO, no backfill",
    FREE: "FIFO, backfill without reservation",
    FIFO: "FIFO with a reservation",
    SHORTEST: "shortest first with a reservation",
}


def make(profile: Profile, workers: int) -> Table:
    """The table. Quick: 100 random orders for strict FIFO, 10 for the others. Full: 100 for all."""
    cases = [(queue, seed) for queue in COMPARED for seed in (None, *range(ORDERS[profile][queue.name]))]
    return layout(list(in_order(outcome, [*zip(*cases, strict=True)], workers)))


def layout(found: Sequence[Outcome]) -> Table:
    """A row for each queue."""
    least = ideal(published())
    given = {one.queue: one for one in found if one.seed is None}
    random = {name: [one for one in found if one.queue == name and one.seed is not None] for name in given}
    spans = {name: [one.makespan for one in own] for name, own in random.items()}
    return Table(
        title="Burst of 53 gangs",
        shows="When the last of 53 gangs ends that arrive at once on 32 nodes. It shows what the order of submission and "
        "backfill are worth. The published order is favorable: it fills the nodes without a gap.",
        columns=(
            "queue",
            "published order, s",
            "mean wait, s",
            "random orders",
            "best, s",
            "mean, s",
            "±",
            "worst, s",
            "mean / ideal",
        ),
        rows=[
            (
                CALLED[name],
                one.makespan,
                round(one.wait, 1),
                len(spans[name]),
                min(spans[name]),
                round(statistics.fmean(spans[name]), 1),
                round(interval(spans[name]), 1),
                max(spans[name]),
                round(statistics.fmean(spans[name]) / least, 3),
            )
            for name, one in given.items()
        ],
        figures={
            "burst_makespan": max(one.makespan for one in given.values()),
            "burst_ideal": least,
            "burst_best_of_orders": min(spans[STRICT]),
            "burst_mean_of_orders": statistics.fmean(spans[STRICT]),
            **{
                f"burst_mean_of_orders_{name}": statistics.fmean(own)
                for name, own in spans.items()
                if name != STRICT
            },
        },
        notes=(
            (
                f"Ideal: {least:,.0f} s, all work evenly on all nodes. Every member takes a whole node for 120 s, so a makespan "
                "is a multiple of 120 s."
            ),
            (
                "burst_makespan is the worst of all queues with the published order. burst_best_of_orders and "
                "burst_mean_of_orders are of random orders without backfill."
            ),
            "All gangs declare 120 s. So shortest first is first in, first out here.",
        ),
        charts=[
            Chart(
                "queue",
                "makespan, s",
                [
                    Series("published order", _names(given), [one.makespan for one in given.values()]),
                    Series(
                        "random orders, mean",
                        _names(given),
                        [statistics.fmean(spans[name]) for name in given],
                        [interval(spans[name]) for name in given],
                    ),
                ],
            )
        ],
    )


def _names(given: Mapping[str, Outcome]) -> Sequence[str]:
    return [CALLED[name] for name in given]
