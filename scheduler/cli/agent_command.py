"""`gangwright agent`: the first process of a worker, or the archive that adds it to any image."""

from pathlib import Path
from typing import Annotated

import typer

from scheduler import errors


def agent(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="Training command.")
    ] = None,
    install: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Path to write the agent to, as one file. No command is started."),
    ] = None,
) -> None:
    """Run a training command as a worker of an ElasticJob.

    With --install it writes the agent as one file, for images without Gangwright. The file requires only Python 3.8:
    python agent.pyz -- python train.py. The agent reads its configuration from the environment that the elastic master
    sets in a worker's pod.
    """
    if install is not None:
        if command:
            raise errors.SettingsError("--install", str(install), "starts no command. Remove the command")
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
            "--install", str(place), f"must be the path of a writable file: {error.strerror}"
        ) from error
