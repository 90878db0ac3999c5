"""`gangwright drain`: move gangs off a node, to nodes that were reserved for them first."""

import time
from typing import Annotated, Final

import typer

from scheduler import errors
from scheduler.cli import screen
from scheduler.cli.options import NO, OK, Context, Form, Kubeconfig, Reach, Server, Shown, duration_of
from scheduler.cli.status_client import MissingServiceError, RefusedError, StatusClient
from scheduler.clock import steady
from scheduler.status.schemas import DrainAnswer, Move

EVERY: Final = 2.0
"""Seconds between two requests to the service, with --wait."""

NEXT: Final = (
    "if pods are still moving, run the command again or use --wait",
    "if pods can't move, free capacity on other nodes or stop their owner, then run it again",
)
HIDDEN: Final = ("the remaining pods are in namespaces whose pods you may not list",)
"""What to do next if the node is not empty."""

FOR_GOOD: Final = frozenset({400, 401, 403, 404})
"""Answers of the service that a retry does not change: it is not allowed, or the node does not exist."""


def drain(
    node: Annotated[str, typer.Argument(help="Name of the node.")],
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until no pod of Gangwright is left on the node.")
    ] = False,
    timeout: Annotated[str, typer.Option(help="Longest wait, for example 90s or 1h.")] = "10m",
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    server: Server = "",
) -> None:
    """Evict gangs from a cordoned node onto reserved nodes.

    No gang is taken below its quorum. The status service moves them, with your rights. Exits with 0 if no pod of
    Gangwright is left on the node, and with 1 otherwise.
    """
    remote = StatusClient(Reach(kubeconfig, context, server=server), advice="")
    until = steady() + (duration_of("--timeout", timeout) if wait else 0.0)
    answer = remote.drain(node)
    told: list[Move] = []
    while not answer.done and steady() < until:
        if answer.moves != told:
            _tell(told := answer.moves)
        _pause(until)
        answer = _again(remote, node, until)
    _show(answer, output)
    raise typer.Exit(OK if answer.done else NO)


def _again(remote: StatusClient, node: str, until: float) -> DrainAnswer:
    """The next answer of a service that answered before. If the service restarts, wait for it: it loses its
    reservations, and continues at the next request.
    """
    told = ""
    while True:
        try:
            return remote.drain(node)
        except errors.GangwrightError as error:
            if not _passes(error) or steady() >= until:
                raise
            if told != str(error):
                screen.note(f"retrying: {error}")
            told = str(error)
        _pause(until)


def _passes(error: errors.GangwrightError) -> bool:
    """Whether a retry may have another result."""
    if isinstance(error, RefusedError | MissingServiceError):
        return error.status not in FOR_GOOD
    return not isinstance(error, errors.Forbidden | errors.Unauthorized)


def _pause(until: float) -> None:
    time.sleep(min(EVERY, max(0.0, until - steady())))


def _tell(moves: list[Move]) -> None:
    """Report the moves that are still under way."""
    for own in moves:
        screen.note(f"{own.namespace}/{own.name}, {own.pods} on the node: {own.outcome}")


def _show(answer: DrainAnswer, output: Form) -> None:
    if screen.document(answer, output):
        return
    moves = [(own.namespace, own.name, str(own.pods), own.outcome) for own in answer.moves]
    if moves:
        screen.table(("NAMESPACE", "GANG", "PODS", "OUTCOME"), moves)
    screen.line(f"node {answer.node}: {'no pods of Gangwright are left' if answer.done else 'not empty yet'}")
    for step in () if answer.done else NEXT if moves else HIDDEN:
        screen.note(step)
