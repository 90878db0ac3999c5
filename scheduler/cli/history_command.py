"""`gangwright history`: gangs that have finished."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from scheduler.cli import screen
from scheduler.cli.gangs import source
from scheduler.cli.options import (
    Context,
    Everywhere,
    Form,
    Kubeconfig,
    Namespace,
    Offline,
    Reach,
    Server,
    Settings,
    Shown,
    scope,
)
from scheduler.cli.screen import span
from scheduler.status.accounting import HistoryRow

HEAD = ("GANG", "OWNER", "WAITED", "RAN", "HOURS", "OUTCOME", "ENDED")


def history(
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1000, help="Number of gangs to show, latest first.")
    ] = 20,
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """List finished gangs: wait, runtime and device hours.

    WAITED is the time from the first pod to the bind of the quorum, RAN the time from there to the end. HOURS are
    device hours over all pods, or core hours for pods without devices. The status service keeps the history in memory,
    so it starts empty after a restart or a takeover by another replica.
    """
    reach = Reach(kubeconfig, context, settings, server, offline)
    within = scope(reach, namespace, everywhere=everywhere)
    answers = source(reach)
    found = answers.history(within or None, limit)
    if screen.document(found, output):
        return
    head = [*(["NAMESPACE"] if everywhere else []), *HEAD]
    screen.table(head, (_cells(own, everywhere=everywhere) for own in found.gangs))
    if found.since is not None:
        screen.note(
            f"shows gangs that finished since {_clock(found.since)}; the history is lost when the service restarts"
        )
    for text in answers.notes():
        screen.note(text)


def _cells(own: HistoryRow, *, everywhere: bool) -> list[str]:
    hours = ", ".join(f"{value:g} {name}" for name, value in own.hours.items())
    times = span(own.waited_seconds), span(own.ran_seconds) if own.ran_seconds else "-"
    cells = [own.name, own.owner or "-", *times, hours or "-", _how(own), _clock(own.ended)]
    return [own.namespace, *cells] if everywhere else cells


def _how(own: HistoryRow) -> str:
    if own.preempted is None:
        return own.outcome
    winner = own.preempted
    name = f"{winner.namespace}/{winner.gang}" if winner.gang else "a gang in another namespace"
    return f"{own.outcome} by {name}"


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
