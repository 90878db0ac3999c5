"""Pods that share GPUs arrive on 1,213 nodes: the published policies, the same policies here, and Gangwright's strategies."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.confidence import interval
from bench.openb.mixes import ENDS, MIXES, SEEDS, published
from bench.openb.policies import FIRST_FIT, POLICIES
from bench.openb.runs import Case, Ties, run_all
from bench.tables.table import Cell, Chart, Profile, Series, Table
from scheduler.model.workload import Strategy

POINTS: Final = (100, ENDS)
"""Percent of all GPUs that arrived, at which the table shows the allocated GPUs."""

OURS: Final = (Strategy.PACK.value, Strategy.COSINE.value)
BAR: Final = "FGD"
MEAN: Final = "mean"
CHARTED: Final = "default"
FIRST: Final = 80
"""Percent of arrived demand where the chart begins. Every policy places nearly all pods before."""

Entry = tuple[str, Ties]
"""What chooses the nodes, and which of equal nodes is taken."""

ENTRIES: Final[Mapping[Profile, Sequence[Entry]]] = {
    Profile.QUICK: [(by, Ties.SHUFFLED) for by in (FIRST_FIT, "BestFit", BAR, *OURS)],
    Profile.FULL: [
        *((by, Ties.SHUFFLED) for by in (FIRST_FIT, *POLICIES, *OURS)),
        *((by, Ties.NAMED) for by in OURS),
        *((by, Ties.DRAWN) for by in ("BestFit", BAR)),
    ],
}
TURNS: Final = {Profile.QUICK: SEEDS[:1], Profile.FULL: SEEDS}
"""The seeds of a profile."""

SHOWN: Final = {
    Ties.SHUFFLED: "",
    Ties.NAMED: ", nodes in order of the trace",
    Ties.DRAWN: ", ties drawn for each pod",
}


def make(profile: Profile, workers: int) -> Table:
    """Ten seeds and all policies, or one seed with BestFit and FGD."""
    seeds, entries = TURNS[profile], ENTRIES[profile]
    cases = [Case(mix, seed, by, ties) for mix in MIXES for by, ties in entries for seed in seeds]
    found = Measured(seeds)
    for case, outcome in run_all(cases, workers):
        found.add(case, outcome.allocated)
    rows = [row for mix in (*MIXES, MEAN) for row in _rows(found, mix, entries)]
    return Table(
        "GPUs allocated to pods that share them (FGD, ATC '23)",
        "Allocated GPUs in % of all when pods for 100% and 130% of them have arrived, for five mixes of the openb trace and "
        f"{len(seeds)} published order{'s' if len(seeds) > 1 else ''} of arrivals. No pod departs, and a pod that fits on no "
        "node is dropped. It shows placement of single pods, not of gangs, and no queue. "
        "Clusters do not report the free part of a GPU, so parts of GPUs exist in this simulation only.",
        (
            "mix",
            "nodes chosen by",
            *(name for at in POINTS for name in (f"at {at}%", f"published, {at}%", f"over FGD, {at}%")),
        ),
        rows,
        figures(found, entries),
        notes=_notes(seeds),
        charts=(_curves(found), _bars(found)),
    )


class Measured:
    """The allocated GPUs of each run, by mix, entry and seed."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds
        self._runs: dict[tuple[str, Entry, int], Mapping[int, float]] = {}

    def add(self, case: Case, allocated: Mapping[int, float]) -> None:
        self._runs[case.mix, (case.by, case.ties), case.seed] = allocated

    def at(self, mix: str, entry: Entry, percent: int) -> list[float]:
        """The figure of each seed, or its mean over the mixes."""
        if mix == MEAN:
            return _means([self.at(one, entry, percent) for one in MIXES])
        return [self._runs[mix, entry, seed][percent] for seed in self.seeds]

    def published(self, mix: str, by: str, percent: int) -> list[float]:
        """The same of the published runs."""
        if mix == MEAN:
            return _means([self.published(one, by, percent) for one in MIXES])
        return [published(mix)[by, seed][percent] for seed in self.seeds]

    def over(self, mix: str, entry: Entry, percent: int, bar: str = BAR) -> list[float]:
        """The figure of each seed above that of a published policy."""
        both = zip(self.at(mix, entry, percent), self.published(mix, bar, percent), strict=True)
        return [own - other for own, other in both]


def _means(columns: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.fmean(row) for row in zip(*columns, strict=True)]


def _cell(values: Sequence[float], sign: str = "") -> str:
    mean = format(statistics.fmean(values), f"{sign}.2f").replace("-", "−")
    return f"{mean} ± {interval(values):.2f}" if len(values) > 1 else mean


def _rows(found: Measured, mix: str, entries: Sequence[Entry]) -> Iterator[Sequence[Cell]]:
    for entry in entries:
        by, ties = entry
        row: list[Cell] = [mix, f"{f'Gangwright, {by}' if by in OURS else by}{SHOWN[ties]}"]
        for at in POINTS:
            beside = found.published(mix, by, at) if _reproduces(entry) else None
            row += [_cell(found.at(mix, entry, at)), statistics.fmean(beside) if beside else None]
            row.append(_cell(found.over(mix, entry, at), "+"))
        yield row


def _reproduces(entry: Entry) -> bool:
    """It follows the rules of a published run."""
    return entry[0] in POLICIES and entry[1] is Ties.SHUFFLED


def figures(found: Measured, entries: Sequence[Entry]) -> dict[str, float]:
    """validity: the largest difference of a mean over the seeds from the published mean.

    mean: over the mixes.  least_over: the mix with the smallest difference to the published policy.
    """
    checked = [entry for entry in entries if _reproduces(entry)]
    worst = {by: max(_apart(found, (by, ties))) for by, ties in checked}
    out = {
        "validity_worst": max(worst.values()),
        **{f"validity_{by.lower()}": far for by, far in worst.items()},
    }
    for entry in entries:
        by, ties = entry
        name = by.lower() + ("" if ties is Ties.SHUFFLED else f"_{ties}")
        for at in POINTS:
            out[f"{name}_mean_{at}"] = statistics.fmean(found.at(MEAN, entry, at))
            if by in OURS:
                for bar in (BAR, "BestFit"):
                    each = [statistics.fmean(found.over(mix, entry, at, bar)) for mix in MIXES]
                    out[f"{name}_mean_over_{bar.lower()}_{at}"] = statistics.fmean(each)
                    out[f"{name}_least_over_{bar.lower()}_{at}"] = min(each)
    return {name: round(value, 4) for name, value in out.items()}


def _apart(found: Measured, entry: Entry) -> Iterator[float]:
    for mix in MIXES:
        for at in POINTS:
            yield abs(statistics.fmean(found.over(mix, entry, at, entry[0])))


def _notes(seeds: Sequence[int]) -> list[str]:
    said = [
        (
            "Published figures are means over the same seeds. `over FGD` is the difference to the published runs of FGD "
            "with the same seeds."
        ),
        (
            "Every run breaks ties by one random order of the nodes, drawn once a run, unless the table says otherwise. "
            "This is the published rule. The published orders of nodes are not known, so the orders here are others."
        ),
        (
            "FGD knows the mix of pods beforehand. Gangwright knows nothing about pods that have not arrived. Both of its "
            "strategies have the same settings for all mixes. One of them, the penalty for an idle node, was chosen on these "
            "mixes."
        ),
        "FirstFit takes the first node that fits. It is not published, and shows what the order of the nodes gains by itself.",
    ]
    if len(seeds) > 1:
        said.append(f"± is half the 95% interval of the mean over {len(seeds)} seeds.")
    return said


def _curves(found: Measured) -> Chart:
    places = range(FIRST, ENDS + 1)
    lines = {
        **{
            f"{by}, published": [found.published(CHARTED, by, at) for at in places] for by in ("BestFit", BAR)
        },
        **{f"Gangwright, {by}": [found.at(CHARTED, (by, Ties.SHUFFLED), at) for at in places] for by in OURS},
    }
    return Chart(
        f"arrived demand in % of all GPUs, mix {CHARTED}",
        "allocated GPUs in % of all",
        [_series(name, list(places), each) for name, each in lines.items()],
    )


def _bars(found: Measured) -> Chart:
    bars = {
        **{f"{by}, published": [found.published(mix, by, ENDS) for mix in MIXES] for by in ("BestFit", BAR)},
        **{f"Gangwright, {by}": [found.at(mix, (by, Ties.SHUFFLED), ENDS) for mix in MIXES] for by in OURS},
    }
    return Chart(
        "mix of pods",
        f"allocated GPUs in % at {ENDS}% arrived",
        [_series(name, list(MIXES), each) for name, each in bars.items()],
    )


def _series(name: str, places: Sequence[float | str], each: Sequence[Sequence[float]]) -> Series:
    errors = [interval(values) for values in each] if len(each[0]) > 1 else []
    return Series(name, places, [statistics.fmean(values) for values in each], errors)
