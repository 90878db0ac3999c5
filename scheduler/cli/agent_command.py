"""`gangwright agent`: the first process of a worker, or the archive that brings it into any image."""

from pathlib import Path
from typing import Annotated

import typer

from scheduler import errors


def agent(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="What trains, e.g. python train.py.")
    ] = None,
    install: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write the agent there as one file, and start nothing."),
    ] = None,
) -> None:
    """Run a training command as a worker of an ElasticJob.

    With --install it writes the agent as one file, for images that have none. What it must know it reads from the
    environment that the elastic master gives to a worker's pod. The file needs Python 3.8 and nothing else: python
    agent.pyz -- python train.py.
    """
    if install is not None:
        if command:
            raise errors.SettingsError("--install", str(install), "writes a file; it starts no command")
        _install(install)
        return
    from scheduler.elastic.agent.main import main

    raise typer.Exit(main(command or []))


def _install(place: Path) -> None:
    from scheduler.elastic.agent.archive import build

    try:
        build(place)
    except OSError as error:
        raise errors.SettingsError(
            "--install", str(place), f"must be a place to write a file: {error.strerror}"
        ) from error
