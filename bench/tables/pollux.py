"""Completion times on the workloads of Pollux (Qiao et al., OSDI 2021), beside the published ones.

Lives here: which cases are run, and how they are laid out. Never here: the simulation (`bench.pollux`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bench.pollux.results import OFTEN, Case, Means, Outcome, means, simulate
from bench.pollux.training import MEASURED, PUBLISHED
from bench.pollux.workload import WORKLOADS, mean_published
from bench.queue.running import in_order
from bench.tables.table import Cell, Chart, Profile, Series, Table

TIRESIAS: Final = Case("Tiresias", PUBLISHED, rigid=True)
MASTER: Final = Case("Gangwright, decisions every 10 s", MEASURED, OFTEN)
MINUTE: Final = Case("Gangwright, decisions every 60 s", MEASURED)
PRICED: Final = Case("Gangwright, 30 s a change", PUBLISHED)


def _without(case: Case) -> tuple[Case, Case, Case]:
    """Ablations of a case."""
    return (
        replace(case, name=f"{case.name}; equal weights", short_first=False),
        replace(case, name=f"{case.name}; remaining work unknown", total=False),
        replace(case, name=f"{case.name}; all step times known", oracle=True),
    )


ABLATIONS: Final = (*_without(MINUTE), *_without(PRICED))

QUICK: Final = (TIRESIAS, MINUTE, PRICED, MASTER, *ABLATIONS[::3])
"""Cases of the quick profile."""

FEW: Final = (1, 5)
"""Workloads of the quick profile. Tiresias takes a second, so it is run on all."""

HALVED: Final = tuple(
    replace(case, name=f"{case.name}, half of the jobs", load=0.5) for case in (TIRESIAS, MINUTE, PRICED)
)
FULL: Final = (TIRESIAS, MASTER, MINUTE, PRICED, *ABLATIONS, *HALVED)

FIGURES: Final[Mapping[str, Case]] = {
    "tiresias": TIRESIAS,
    "ours_measured": MASTER,
    "ours_minute": MINUTE,
    "ours_published_cost": PRICED,
    "equal_minute": ABLATIONS[0],
    "equal_published_cost": ABLATIONS[3],
    "unknown_minute": ABLATIONS[1],
    "unknown_published_cost": ABLATIONS[4],
    "oracle_minute": ABLATIONS[2],
    "oracle_published_cost": ABLATIONS[5],
    "tiresias_half": HALVED[0],
    "ours_minute_half": HALVED[1],
    "ours_published_cost_half": HALVED[2],
}
"""Name of a figure's case → the case. Each has `_mean`, `_p99`, `_makespan` and `_resizes`, if it was run."""


def make(profile: Profile, workers: int) -> Table:
    """Quick: two workloads. Full: all eight, and half of the jobs."""
    cases, own = (QUICK, FEW) if profile is Profile.QUICK else (FULL, WORKLOADS)
    runs = [(case, number) for case in cases for number in (WORKLOADS if case is TIRESIAS else own)]
    found = defaultdict[Case, dict[int, Outcome]](dict)
    outcomes = in_order(simulate, [*zip(*runs, strict=True)], workers)
    for (case, number), outcome in zip(runs, outcomes, strict=True):
        found[case][number] = outcome
    every = means([*found[TIRESIAS].values()])
    shown = {case: means([found[case][number] for number in own]) for case in cases}
    return Table(
        title="Pollux: completion times of elastic jobs",
        shows=(
            f"{len(own)} of 8 workloads with 160 jobs each on 16 nodes of 4 GPUs, simulated from measured step times. "
            "Tiresias keeps the sizes that users tuned; Gangwright resizes every job between one worker and the most "
            "in the traces. Pollux also changes the batch, and so the work, which Gangwright does not."
        ),
        columns=("policy", "mean, s", "± s", "p99, s", "makespan, s", "resizes a job", "published mean, s"),
        rows=[*_published(own), *(_row(case, one, own) for case, one in shown.items())],
        figures=_figures(shown) | {"tiresias_over_published": every.mean / mean_published("tiresias")},
        notes=(
            "± is half the 95% interval over workloads, which differ in their jobs.",
            (
                "A resize costs what was measured with real workers: newcomers start for 5 s beside the training, which "
                "then pauses for 0.5 s. Pollux charges 30 s for every change of a job's workers."
            ),
            (
                "Decisions every 10 s were chosen after a run at 5 s, the default of the master, resized jobs 12 times. "
                "Tiresias's mean of all 8 workloads is chaotic: 0.1% more iterations a job change it by up to 0.5%."
            ),
            "Half of the jobs: a random half of each workload, so the published figures for load 0.5 do not apply.",
        ),
        charts=(_chart(shown, own),),
    )


def _published(own: Sequence[int]) -> list[list[Cell]]:
    names = {"optimus": "Optimus (published)", "pollux": "Pollux, which changes the batch (published)"}
    return [[name, *[None] * 5, round(mean_published(policy, own))] for policy, name in names.items()]


def _row(case: Case, one: Means, own: Sequence[int]) -> list[Cell]:
    published = round(mean_published("tiresias", own)) if case is TIRESIAS else None
    times = (one.mean, one.half, one.p99, one.makespan)
    return [case.name, *map(round, times), round(one.resizes, 1), published]


def _figures(shown: Mapping[Case, Means]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, case in FIGURES.items():
        if case in shown:
            one = shown[case]
            figures |= {
                f"{name}_mean": one.mean,
                f"{name}_p99": one.p99,
                f"{name}_makespan": one.makespan,
                f"{name}_resizes": one.resizes,
            }
    return figures


def _chart(shown: Mapping[Case, Means], own: Sequence[int]) -> Chart:
    bars = {case.name: one for case, one in shown.items() if case.load == 1.0 and case not in ABLATIONS}
    known = {policy.capitalize(): mean_published(policy, own) for policy in ("optimus", "pollux")}
    names = [*known, *bars]
    return Chart(
        "policy",
        "mean completion time, s",
        [
            Series(
                "mean",
                names,
                [*known.values(), *(one.mean for one in bars.values())],
                [*[0.0] * len(known), *(one.half for one in bars.values())],
            )
        ],
    )
