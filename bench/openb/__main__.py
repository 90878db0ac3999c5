"""`python -m bench.openb`."""

import json
import time
from typing import Annotated

import typer

from bench import ending
from bench.openb.mixes import MIXES, known, published
from bench.openb.policies import FIRST_FIT, POLICIES
from bench.openb.runs import STRATEGIES, Case, Ties
from bench.traces import TraceError


def main(
    *,
    mix: Annotated[str, typer.Option(help=f"Mix of pods: {', '.join(MIXES)}.")] = "default",
    seed: Annotated[int, typer.Option(help="Published order of arrivals, 42 to 51.")] = 42,
    by: Annotated[
        str,
        typer.Option(help=f"What chooses the nodes: {', '.join((*STRATEGIES, *POLICIES, FIRST_FIT))}."),
    ] = "pack",
    ties: Annotated[Ties, typer.Option(help="Which of equally good nodes is taken.")] = Ties.SHUFFLED,
) -> None:
    """Allocated GPUs when 100% and 130% of all GPUs were requested, in %, as one object of JSON."""
    paper = published(known(mix)).get((by, seed))
    begun = time.perf_counter()
    found = Case(mix, seed, by, ties).run()
    spent = round(time.perf_counter() - begun, 2)
    shown = {f"allocated_{at}": round(found.allocated[at], 2) for at in (100, 130)}
    beside = {f"published_{at}": paper[at] for at in (100, 130)} if paper else {}
    print(
        json.dumps({"arrived": found.arrived, "seated": found.seated, **shown, **beside, "seconds": spent}),
        flush=True,
    )


if __name__ == "__main__":
    ending.run(lambda: typer.run(main), TraceError)
