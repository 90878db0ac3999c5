"""`gangwright defrag`: which moves would make room for the first gang that waits; with --yes they are made."""

from typing import Annotated

import typer

from scheduler.cli import screen
from scheduler.cli.options import NO, Context, Form, Kubeconfig, Offline, Reach, Server, Settings, Shown
from scheduler.errors import SettingsError
from scheduler.status.move_schemas import DefragAnswer


def defrag(
    yes: Annotated[bool, typer.Option("--yes", help="Make the moves.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", hidden=True)] = False,  # older scripts pass it
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """Show moves that give the first waiting gang its room.

    Only gangs move whose owners make lost pods again at no cost, and only onto seats that exist. With --yes the status
    service evicts their pods, with your rights. It keeps the seats of all of them, and those of the gang that waits.

    Ends with 0 when no gang waits for room, or the moves are found. Ends with 1 when no moves help.
    """
    if yes and offline:
        raise SettingsError("--yes", "--offline", "the status service makes the moves: leave out --offline")
    reach = Reach(kubeconfig, context, settings, server, offline)
    answer = _worked_out(reach) if reach.is_offline() else _asked(reach, dry_run=dry_run or not yes)
    if not screen.document(answer, output):
        _show(answer)
    if answer.head is not None and not answer.head.seats:
        raise typer.Exit(NO)


def _asked(reach: Reach, *, dry_run: bool) -> DefragAnswer:
    """What the status service says, and does unless it is a dry run."""
    from scheduler.cli.status_client import OFFLINE, StatusClient

    remote = StatusClient(reach, OFFLINE if dry_run else "")
    answer = remote.defrag(dry_run=dry_run)
    for text in remote.notes():
        screen.note(text)
    return answer


def _worked_out(reach: Reach) -> DefragAnswer:
    """What may be read of the cluster says, with the code of the service."""
    from scheduler.cli import cluster_document
    from scheduler.replay.decision_trace import judge
    from scheduler.status import move_views

    engine = judge(cluster_document.reading(reach).document()).engine
    head = engine.first_waiting()
    return move_views.defrag(engine.defrag(head) if head is not None else None)


def _show(answer: DefragAnswer) -> None:
    if answer.head is None:
        screen.note("no gang waits for room")
        return
    gang = f"{answer.head.namespace}/{answer.head.gang}"
    if not answer.head.seats:
        screen.line(f"no moves were found that give {gang} room: {answer.message}")
        return
    rows = [(own.namespace, own.gang, own.pod, own.source, own.target) for own in answer.moves]
    screen.table(("NAMESPACE", "GANG", "POD", "FROM", "TO"), rows)
    print()
    then = (
        f"the moves have begun; {gang} has these seats:"
        if answer.started
        else f"then {gang} would have room:"
    )
    screen.line(then)
    screen.table(("POD", "NODE"), answer.head.seats.items())
    if not answer.started:
        screen.note("nothing is moved; to make these moves: gangwright defrag --yes")
