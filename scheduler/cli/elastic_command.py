"""`gangwright elastic`: the elastic master, which looks after ElasticJobs."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.daemon import flags_of, listening, settings_of, until_told
from scheduler.elastic.controller.elastic_master import run


def elastic(
    settings: Annotated[
        Path | None, typer.Option(help="Settings file; see extender_config/settings.yaml for all of them.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="One setting, e.g. rendezvous.port=0; stronger than file and environment.",
        ),
    ] = None,
) -> None:
    """Look after ElasticJobs: make and remove their workers, decide their sizes, and let workers meet.

    Prints one line of JSON with the addresses of rendezvous and probes once it holds the Lease and they are open.
    """
    chosen = settings_of(settings, flags_of(set_ or []))
    asyncio.run(until_told(run(chosen, listening)))
