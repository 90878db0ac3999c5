"""`gangwright defrag`: moves that let the first waiting gang start. With --yes they are started."""

from typing import Annotated

import typer

from scheduler.cli import screen
from scheduler.cli.options import NO, Context, Form, Kubeconfig, Offline, Reach, Server, Settings, Shown
from scheduler.errors import SettingsError
from scheduler.status.move_schemas import DefragAnswer


def defrag(
    yes: Annotated[
        bool, typer.Option("--yes", help="Start the moves. By default they are only shown.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", hidden=True)] = False,  # older scripts pass it
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """Plan moves that let the first waiting gang start.

    Only gangs whose pods are recreated at no cost are moved, and only to nodes with free capacity. With --yes the
    status service evicts their pods, with your rights. It reserves the new nodes for them, and the nodes of the waiting
    gang.

    Exits with 0 if no gang waits for resources or moves were found, and with 1 if no moves help.
    """
    if yes and offline:
        raise SettingsError(
            "--yes",
            "--offline",
            "must not be combined: the status service makes the moves. Leave out --offline",
        )
    reach = Reach(kubeconfig, context, settings, server, offline)
    answer = _worked_out(reach) if reach.is_offline() else _asked(reach, dry_run=dry_run or not yes)
    if not screen.document(answer, output):
        _show(answer)
    if answer.head is not None and not answer.head.seats:
        raise typer.Exit(NO)


def _asked(reach: Reach, *, dry_run: bool) -> DefragAnswer:
    """The answer of the status service, which starts the moves unless it is a dry run."""
    from scheduler.cli.status_client import OFFLINE, StatusClient

    remote = StatusClient(reach, OFFLINE if dry_run else "")
    answer = remote.defrag(dry_run=dry_run)
    for text in remote.notes():
        screen.note(text)
    return answer


def _worked_out(reach: Reach) -> DefragAnswer:
    """The answer from what the caller may read of the cluster, computed with the code of the service."""
    from scheduler.cli import cluster_document
    from scheduler.replay.decision_trace import judge
    from scheduler.status import move_views

    engine = judge(cluster_document.reading(reach).document()).engine
    head = engine.first_waiting()
    return move_views.defrag(engine.defrag(head) if head is not None else None)


def _show(answer: DefragAnswer) -> None:
    if answer.head is None:
        screen.note("no gang waits for resources")
        return
    gang = f"{answer.head.namespace}/{answer.head.gang}"
    if not answer.head.seats:
        screen.line(f"no moves found that let {gang} start: {answer.message}")
        return
    rows = [(own.namespace, own.gang, own.pod, own.source, own.target) for own in answer.moves]
    screen.table(("NAMESPACE", "GANG", "POD", "FROM", "TO"), rows)
    print()
    then = (
        f"the moves have started; these nodes are reserved for {gang}:"
        if answer.started
        else f"then {gang} would start on these nodes:"
    )
    screen.line(then)
    screen.table(("POD", "NODE"), answer.head.seats.items())
    if not answer.started:
        screen.note("nothing was moved; to start these moves: gangwright defrag --yes")
