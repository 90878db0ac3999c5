"""`gangwright defrag`: which moves would make room for the first gang that waits."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from scheduler.cli import cluster_document, screen
from scheduler.cli.options import NO, Context, Form, Kubeconfig, Reach, Settings, Shown
from scheduler.engine import Engine
from scheduler.engine.head import waits
from scheduler.model.departures import Defrag
from scheduler.model.workload import GangKey
from scheduler.replay.decision_trace import judge


def defrag(
    _dry_run: Annotated[bool, typer.Option("--dry-run", hidden=True)] = False,  # older scripts pass it
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
) -> None:
    """Show moves that give the first waiting gang its room.

    Nothing is moved: drain a node to have its gangs moved. Only gangs move whose owners make lost pods again at no cost,
    and only onto seats that are there. Ends with 0 when no gang waits for room or the moves are found, with 1 when no
    moves help.
    """
    engine = judge(cluster_document.reading(Reach(kubeconfig, context, settings)).document()).engine
    head = next((record.key for record in engine.ledger.pending.queue() if waits(record)), None)
    found = engine.defrag(head) if head is not None else None
    moves = list(_moves(engine, found)) if found is not None else []
    if not screen.document(_plain(found, moves), output):
        if found is None:
            screen.note("no gang waits for room")
        else:
            _show(found, moves)
    if found is not None and not found.seats:
        raise typer.Exit(NO)


class _Move(NamedTuple):
    """One pod of a gang, from node to node."""

    gang: GangKey
    pod: str
    before: str
    after: str


def _moves(engine: Engine, found: Defrag) -> Iterator[_Move]:
    for own in found.moves:
        members = engine.ledger.registry.gangs[own.gang].members.values()
        before = {member.pod.key: member.pod.node or "" for member in members}
        for pod, node in sorted(own.seats.items()):
            yield _Move(own.gang, pod.name, before[pod], node)


def _plain(found: Defrag | None, moves: Sequence[_Move]) -> dict[str, Any] | None:
    if found is None:
        return None
    told = [
        {
            "namespace": own.gang.namespace,
            "gang": own.gang.name,
            "pod": own.pod,
            "from": own.before,
            "to": own.after,
        }
        for own in moves
    ]
    seats = {pod.name: node for pod, node in sorted(found.seats.items())}
    head = {"namespace": found.gang.namespace, "gang": found.gang.name, "seats": seats}
    return {"head": head, "moves": told}


def _show(found: Defrag, moves: Sequence[_Move]) -> None:
    if not found.seats:
        screen.line(f"no moves were found that give {found.gang} room: {found.told}")
        return
    rows = [(own.gang.namespace, own.gang.name, own.pod, own.before, own.after) for own in moves]
    screen.table(("NAMESPACE", "GANG", "POD", "FROM", "TO"), rows)
    print()
    screen.line(f"then {found.gang} would have room:")
    screen.table(("POD", "NODE"), sorted((pod.name, node) for pod, node in found.seats.items()))
