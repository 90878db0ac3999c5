"""`gangwright`: what all commands have in common. Each family of commands has a module; `commands` lists them.

`kubectl gangwright` is the same program: kubectl finds `kubectl-gangwright` on the PATH.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Final

import typer

import scheduler
from scheduler import errors
from scheduler.cli.commands import OPERATION, Commands

NEXT: Final = (
    (errors.Unreachable, "check that the cluster runs and that --context is right: kubectl cluster-info"),
    (errors.Unauthorized, "authentication failed; log in to the cluster again"),
    (
        errors.Conflict,
        "another manager owns some of these fields; take them over with submit --force-conflicts",
    ),
    (
        errors.Forbidden,
        "ask an administrator for this right; list your rights with: kubectl auth can-i --list",
    ),
)
"""What to do next, by error. The first match counts."""

_EXITS: Final = "Exit codes: 0 success, 1 negative result (would wait, not found), 2 error."

app = typer.Typer(
    cls=Commands,
    name="gangwright",
    help="Gang scheduling for Kubernetes, on the stock kube-scheduler.",
    epilog=_EXITS,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_show_locals=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(scheduler.__version__)
        raise typer.Exit


@app.callback()  # without it typer would treat the only registered command as the whole program
def gangwright(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options before the command."""


@app.command(rich_help_panel=OPERATION)
def version() -> None:
    """Print the version."""
    print(scheduler.__version__)


def main(words: Sequence[str] | None = None) -> None:
    """Run the command given by these words. Defaults to the program's arguments.

    An error is shown as one line and its fix as another, never as a traceback.
    """
    _show_all_characters()
    try:
        app(args=words)
    except errors.GangwrightError as error:
        _fail(error)
    except ExceptionGroup as group:
        first = errors.first_of(group)
        if not isinstance(first, errors.GangwrightError):
            raise
        _fail(first)


def _show_all_characters() -> None:
    """Show a character that the terminal doesn't support as an escape. Otherwise it would end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(error: errors.GangwrightError) -> None:
    from rich.console import Console
    from rich.text import Text

    from scheduler.cli.options import WRONG
    from scheduler.cli.screen import printable

    # A Text, not markup: input is shown as written, square brackets included.
    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(("gangwright:", "bold red"), f" {printable(str(error))}"))
    advice = next((text for kind, text in NEXT if isinstance(error, kind)), None)
    if advice:
        console.print(Text(f"  {advice}", style="dim"))
    sys.exit(WRONG)
