"""`gangwright drain`: gangs move away from a node, onto seats that were found first."""

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
"""Seconds between two questions to the service, with --wait."""

NEXT: Final = (
    "what moves is gone in a moment: ask again, or with --wait",
    "what stays needs room elsewhere, or its owner to end it: then ask again",
)
HIDDEN: Final = ("what is left on it is in namespaces whose pods you may not list",)
"""What a person does next, where the node is not empty."""

FOR_GOOD: Final = frozenset({400, 401, 403, 404})
"""Answers of the service that asking again does not change: it may not be done, or there is no such node."""


def drain(
    node: Annotated[str, typer.Argument(help="The node.")],
    wait: Annotated[
        bool, typer.Option("--wait", help="Ask again until nothing of ours is left on it.")
    ] = False,
    timeout: Annotated[str, typer.Option(help="How long to wait at most, such as 90s or 1h.")] = "10m",
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    server: Server = "",
) -> None:
    """Move gangs off a cordoned node, onto seats found first.

    No gang is taken below its quorum. The status service moves them, with your rights. Ends with 0 when nothing of ours
    is left on the node, with 1 while something is.
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
    """The next answer of a service that answered before. One that starts again is waited for: it forgets the seats that
    it kept, and goes on when it is asked.
    """
    told = ""
    while True:
        try:
            return remote.drain(node)
        except errors.GangwrightError as error:
            if not _passes(error) or steady() >= until:
                raise
            if told != str(error):
                screen.note(f"asked again: {error}")
            told = str(error)
        _pause(until)


def _passes(error: errors.GangwrightError) -> bool:
    """It may be different a moment later."""
    if isinstance(error, RefusedError | MissingServiceError):
        return error.status not in FOR_GOOD
    return not isinstance(error, errors.Forbidden | errors.Unauthorized)


def _pause(until: float) -> None:
    time.sleep(min(EVERY, max(0.0, until - steady())))


def _tell(moves: list[Move]) -> None:
    """What is waited for, beside the answer."""
    for own in moves:
        screen.note(f"{own.namespace}/{own.name}, {own.pods} on it: {own.outcome}")


def _show(answer: DrainAnswer, output: Form) -> None:
    if screen.document(answer, output):
        return
    moves = [(own.namespace, own.name, str(own.pods), own.outcome) for own in answer.moves]
    if moves:
        screen.table(("NAMESPACE", "GANG", "PODS", "WHAT HAPPENS"), moves)
    screen.line(f"node {answer.node}: {'nothing of ours is left' if answer.done else 'not empty yet'}")
    for step in () if answer.done else NEXT if moves else HIDDEN:
        screen.note(step)
