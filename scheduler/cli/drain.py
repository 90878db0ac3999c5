"""`gangwright drain`: gangs move away from a node, onto seats that were found first."""

import time
from typing import Annotated, Final

import typer

from scheduler.cli import screen
from scheduler.cli.options import (
    NO,
    OK,
    Context,
    Form,
    Kubeconfig,
    Reach,
    Server,
    Settings,
    Shown,
    duration_of,
)
from scheduler.cli.remote import POD, Remote
from scheduler.clock import steady
from scheduler.status.shapes import DrainAnswer

EVERY: Final = 2.0
"""Seconds between two questions to the service, with --wait."""


def drain(
    node: Annotated[str, typer.Argument(help="The node.")],
    wait: Annotated[
        bool, typer.Option("--wait", help="Ask again until nothing of ours is left on it.")
    ] = False,
    timeout: Annotated[str, typer.Option(help="How long to wait at most, such as 90s or 1h.")] = "10m",
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = POD,
) -> None:
    """Move gangs away from a node; none is taken below its quorum, and none whose new seats were not found first.

    The status service does it, with your rights. Ends with 0 when nothing of ours is left on the node, with 1 while
    something is.
    """
    remote = Remote(Reach(kubeconfig, context, settings, server or POD))
    until = steady() + (duration_of("--timeout", timeout) if wait else 0.0)
    answer = remote.drain(node)
    while not answer.done and steady() < until:
        time.sleep(min(EVERY, max(0.0, until - steady())))
        answer = remote.drain(node)
    _show(answer, output)
    raise typer.Exit(OK if answer.done else NO)


def _show(answer: DrainAnswer, output: Form) -> None:
    if output in {Form.JSON, Form.YAML}:
        screen.document(answer, output)
        return
    moves = [(own.namespace, own.name, str(own.pods), own.outcome) for own in answer.moves]
    if moves:
        screen.table(("NAMESPACE", "GANG", "PODS", "WHAT HAPPENS"), moves)
    screen.line(f"node {answer.node}: {'nothing of ours is left' if answer.done else 'not empty yet'}")
