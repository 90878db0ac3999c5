"""Completion times on the workloads of Pollux (Qiao et al., OSDI 2021), beside the published ones.

Lives here: which cases are run, and how they are laid out. Never here: the simulation (`bench.pollux`).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bench.pollux.results import DEFAULT, OFTEN, Case, Means, Outcome, as_published, gain, means, simulate
from bench.pollux.training import MEASURED, PUBLISHED, ROUNDED
from bench.pollux.workload import WORKLOADS, mean_published
from bench.queue.running import in_order
from bench.tables.table import Cell, Chart, Profile, Series, Table

TIRESIAS: Final = Case("Tiresias", ROUNDED, rigid=True)
EXACT: Final = Case("Tiresias, epochs not rounded", PUBLISHED, rigid=True)
FAIR: Final = Case("Tiresias, decisions every 10 s, a change as measured", MEASURED, DEFAULT, rigid=True)
MASTER: Final = Case("Gangwright, decisions every 10 s, the default", MEASURED, DEFAULT)
OFTENER: Final = Case("Gangwright, decisions every 5 s", MEASURED, OFTEN)
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

QUICK: Final = (TIRESIAS, EXACT, FAIR, MASTER, MINUTE, PRICED, *ABLATIONS[::3])
"""Cases of the quick profile."""

HALVED: Final = tuple(
    replace(case, name=f"{case.name}, half of the jobs", load=0.5)
    for case in (TIRESIAS, MASTER, MINUTE, PRICED)
)
RESEATED: Final = tuple(
    replace(case, name=f"{case.name}; moved as it grows, not in the product", reseats=True)
    for case in (MASTER, PRICED, HALVED[1], HALVED[3])
)
FULL: Final = (TIRESIAS, EXACT, FAIR, MASTER, OFTENER, MINUTE, PRICED, *ABLATIONS, *HALVED, *RESEATED)

FIGURES: Final[Mapping[str, Case]] = {
    "tiresias": TIRESIAS,
    "tiresias_not_rounded": EXACT,
    "tiresias_measured": FAIR,
    "ours_measured": MASTER,
    "ours_often": OFTENER,
    "ours_minute": MINUTE,
    "ours_published_cost": PRICED,
    "equal_minute": ABLATIONS[0],
    "equal_published_cost": ABLATIONS[3],
    "unknown_minute": ABLATIONS[1],
    "unknown_published_cost": ABLATIONS[4],
    "oracle_minute": ABLATIONS[2],
    "oracle_published_cost": ABLATIONS[5],
    "tiresias_half": HALVED[0],
    "ours_measured_half": HALVED[1],
    "ours_minute_half": HALVED[2],
    "ours_published_cost_half": HALVED[3],
    "reseated_measured": RESEATED[0],
    "reseated_published_cost": RESEATED[1],
    "reseated_measured_half": RESEATED[2],
    "reseated_published_cost_half": RESEATED[3],
}
"""Name of a figure's case → the case. Each has `_mean`, `_p99`, `_makespan` and `_resizes`, if it was run."""


FULL_NOTES: Final = (
    "The default of the master, 10 s, was chosen because jobs are resized half as often again at 5 s, and end no sooner.",
    "Half of the jobs: a random half of each workload, so the published figures for load 0.5 do not apply.",
    (
        "With half of the jobs and 30 s a change, Tiresias is ahead. The difference is yolov3, which trains faster with four "
        "workers on one node than with eight on two. A job that has grown over several nodes is not moved together again."
    ),
    (
        "Moved as it grows: if the whole job then needs fewer nodes, all its workers get new ones at once. That is worth 2 to "
        "5%, hardly more than its interval. With one such move a decision, and newcomers that start before their "
        "predecessors leave, 0 to 2% remain, so Gangwright does not move jobs."
    ),
)


def make(profile: Profile, workers: int) -> Table:
    """Quick: the policies, and equal weights. Full: every ablation, and half of the jobs."""
    cases = QUICK if profile is Profile.QUICK else FULL
    runs = [(case, number) for case in cases for number in WORKLOADS]
    found = defaultdict[Case, list[Outcome]](list)
    for (case, _), outcome in zip(runs, in_order(simulate, [*zip(*runs, strict=True)], workers), strict=True):
        found[case].append(outcome)
    shown = {case: means(outcomes) for case, outcomes in found.items()}
    saved = {case: gain(found[case], found[other]) for case, other in ((MASTER, FAIR), (PRICED, EXACT))}
    same = sum(map(as_published, WORKLOADS))
    return Table(
        title="Pollux: completion times of elastic jobs",
        shows=(
            f"{len(WORKLOADS)} workloads with 160 jobs each on 16 nodes of 4 GPUs, simulated from measured step times. "
            "Tiresias keeps the sizes that users tuned; Gangwright resizes every job between one worker and the most "
            "in the traces, and knows its remaining work unless the table says otherwise. Pollux also changes the batch, and so the work, which Gangwright does not."
        ),
        columns=("policy", "mean, s", "± s", "p99, s", "makespan, s", "resizes a job", "published mean, s"),
        rows=[*_published(), *(_row(case, one) for case, one in shown.items())],
        figures=_figures(shown)
        | {
            "tiresias_over_published": shown[TIRESIAS].mean / mean_published("tiresias"),
            "tiresias_jobs_as_published": float(same),
            "ours_measured_saved_percent": saved[MASTER][0],
            "ours_published_cost_saved_percent": saved[PRICED][0],
        },
        notes=(
            "± is half the 95% interval over workloads, which differ in their jobs.",
            "Workload by workload, mean completion times are shorter than those of Tiresias at the same cost by "
            + " and by ".join(
                f"{mean:.1f}% ± {half:.1f} ({case.name})" for case, (mean, half) in saved.items()
            )
            + ".",
            (
                "A resize costs what was measured with real workers: newcomers start for 5 s beside the training, which "
                "then pauses for 0.5 s. Pollux charges 30 s for every change of a job's workers."
            ),
            (
                f"Tiresias ends {same} of 1280 jobs in the second that was published. For this, each epoch ends at a whole "
                "second, as in the simulation of Pollux's authors. Without it, one long job ends 6 hours earlier. "
                "The rows of Gangwright are not rounded."
            ),
            (
                "Workers that cannot share a batch evenly train a slightly different one, and need more or fewer "
                "iterations, as published. Step times are those of the exact placement, if it was measured."
            ),
            *(FULL_NOTES if profile is Profile.FULL else ()),
        ),
        charts=(_chart(shown),),
    )


def _published() -> list[list[Cell]]:
    names = {"optimus": "Optimus (published)", "pollux": "Pollux, which changes the batch (published)"}
    return [[name, *[None] * 5, round(mean_published(policy))] for policy, name in names.items()]


def _row(case: Case, one: Means) -> list[Cell]:
    published = round(mean_published("tiresias")) if case is TIRESIAS else None
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


def _chart(shown: Mapping[Case, Means]) -> Chart:
    bars = {case.name: one for case, one in shown.items() if case.load == 1.0 and case not in ABLATIONS}
    known = {policy.capitalize(): mean_published(policy) for policy in ("optimus", "pollux")}
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
