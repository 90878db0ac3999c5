"""`gangwright list`, `queue` and `explain`: where gangs stand, and why.

The status service that was named answers, or this program, from what its caller may read.
"""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec
import typer
from rich.text import Text

from scheduler.cli import screen
from scheduler.cli.options import (
    NO,
    Context,
    Everywhere,
    Form,
    GangName,
    Kubeconfig,
    Namespace,
    Reach,
    Server,
    Settings,
    Shown,
    scope,
    split,
)
from scheduler.cli.screen import span
from scheduler.errors import KubeError
from scheduler.status.schemas import Forecast, GangDetail, GangRow, MemberRow, PreemptedRow

if TYPE_CHECKING:
    from scheduler.cli.offline_answers import OfflineAnswers
    from scheduler.cli.status_client import StatusClient
    from scheduler.elastic.job.status import Status

COLOURS: Final = {
    "running": "green",
    "bound": "green",
    "held": "cyan",
    "waiting": "yellow",
    "gathering": "yellow",
    "refused": "red",
    "leaving": "dim",
    "suspended": "dim",
    "over": "dim",
}
"""By state, beside the word: nothing is told by colour alone."""

PATIENCE: Final = 10.0
"""Seconds after which a gang that finds room at once should have been given it: the service plans within one."""

_WHY_NOT: Final = (
    "does Gangwright run, and may it write? See its events with kubectl describe pod, "
    "and: kubectl -n gangwright-system get pods"
)


def list_(
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
) -> None:
    """Show the gangs: place in the queue, state, reason, how long they wait, when they start."""
    reach = Reach(kubeconfig, context, settings, server)
    within = scope(reach, namespace, everywhere=everywhere)
    answers = source(reach)
    rows = sorted(answers.gangs(within or None), key=_place)
    if screen.document(rows, output):
        return
    _show(rows, answers.now, wide=output is Form.WIDE, everywhere=everywhere)
    _warn(answers)
    if any(row.state == "suspended" for row in rows):
        screen.note(
            "a gang that is suspended has no pods; where Gangwright does not resume it (-o wide says so), "
            "to go on: gangwright resume NAMESPACE/GANG"
        )
    if not rows:
        screen.note(f"no gangs in {f'namespace {within}; -A shows all' if within else 'this cluster'}")


def queue(
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
) -> None:
    """Show who waits, in the order in which gangs are asked about, and why.

    Behind those that have a place come gangs that cannot be seated yet: their members are missing, or they are refused.
    """
    answers = source(Reach(kubeconfig, context, settings, server))
    rows = answers.queue()
    if screen.document(rows, output):
        return
    _show(rows, answers.now, wide=True, everywhere=True)
    _warn(answers)
    if not rows:
        screen.note("nobody waits")


def explain(
    gang: GangName,
    namespace: Namespace = "",
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
) -> None:
    """Say why a gang is where it is, what it lacks, and where its members are.

    Ends with 1 when there is no such gang.
    """
    reach = Reach(kubeconfig, context, settings, server)
    inside, name = split(gang, namespace, reach)
    answers = source(reach)
    found = answers.gang(inside, name)
    if found is None:
        _none(answers, reach, inside, name)
        raise typer.Exit(NO)
    if screen.document(found, output):
        return
    tell(found, answers.now, answers.seats(inside, name), _elastic(reach, inside, name))
    if not _warn(answers) and not server and _is_overdue(found.gang):
        screen.note(f"there is room, and nothing happened for {span(found.gang.wait_seconds)}: {_WHY_NOT}")


def source(reach: Reach) -> "OfflineAnswers | StatusClient":
    """Who answers: the cluster is read at once, the service only when it is asked."""
    if reach.server:
        from scheduler.cli.status_client import StatusClient  # late: help comes without the Kubernetes client

        return StatusClient(reach)
    from scheduler.cli import cluster_document
    from scheduler.cli.offline_answers import OfflineAnswers

    found = cluster_document.reading(reach)
    return OfflineAnswers(found.document(), away=found.away)


def _warn(answers: "OfflineAnswers | StatusClient") -> bool:
    """What is shown comes to nothing while nobody acts: whether that is so, and it was said."""
    away = answers.away()
    if away:
        screen.note(away)
    return bool(away)


def _none(answers: "OfflineAnswers | StatusClient", reach: Reach, inside: str, name: str) -> None:
    """No such gang: perhaps it has no pods while it is suspended."""
    said = f"no gang {name} in namespace {inside}"
    for text in _elastic_words(_elastic(reach, inside, name), answers.now):
        screen.note(text)
    rows = answers.gangs(inside)
    for row in rows:
        if row.name == name and row.state == "suspended":
            screen.note(f"{said}: {row.message}")
            return
    whole = [row.name for row in rows if row.name and not row.alone and name.startswith(f"{row.name}-")]
    if whole:
        gang = max(whole, key=len)
        screen.note(f"{said}; a pod of a gang? Then: gangwright explain {inside}/{gang}")
        return
    if not reach.server:
        from scheduler.cli.jobs import sleeping  # late: help comes without the Kubernetes client

        if asleep := asyncio.run(sleeping(reach, inside, name)):
            screen.note(
                f"{asleep[0]} is suspended, so it has no pods; to go on: gangwright resume {inside}/{name}"
            )
            return
    screen.note(f"{said}; `gangwright list -A` names all")


def _elastic(reach: Reach, inside: str, name: str) -> "Status | None":
    """The status of the ElasticJob of this name: nodes and pods alone do not tell why a worker was lost.

    None where there is none that can be read. The status service is not asked for it.
    """
    return None if reach.server else asyncio.run(_elastic_status(reach, inside, name))


async def _elastic_status(reach: Reach, namespace: str, name: str) -> "Status | None":
    from scheduler.elastic.controller.requests import (
        JOBS,
        inside,
    )  # late: help comes without the Kubernetes client
    from scheduler.elastic.job.status_json import UnreadableStatus, decode_status

    async with await reach.client() as client:
        try:
            job = await client.request("GET", inside(JOBS, namespace, name))
            return decode_status(msgspec.json.decode(job, type=dict).get("status"))
        except (KubeError, msgspec.MsgspecError, UnreadableStatus):
            return None


def _elastic_words(own: "Status | None", now: float) -> Iterator[str]:
    """How an elastic job is, and what failed on which node."""
    if own is None:
        return
    yield f"elastic job: {own.phase}: {own.reason or '-'}"
    for bar in own.barred:
        avoided = f", avoided until {_clock(bar.until)}" if bar.until > now else ""
        yield f"node {bar.node} failed {bar.failures}×{avoided}: {bar.why}"


def _place(row: GangRow) -> tuple[bool, int, str, str]:
    """Who waits first, in order; all others by name."""
    return row.position is None, row.position or 0, row.namespace or "", row.name or row.id


def _is_overdue(row: GangRow) -> bool:
    """This program finds room for the gang at once, and the service has not used it."""
    from scheduler.cli.offline_answers import AT_ONCE  # late: help comes without numpy

    return row.state == "waiting" and AT_ONCE in (row.message or "") and (row.wait_seconds or 0.0) > PATIENCE


def _show(rows: Iterable[GangRow], now: float, *, wide: bool, everywhere: bool) -> None:
    head = ["PLACE", *(["NAMESPACE"] if everywhere else []), "GANG", "STATE", "MEMBERS", "WAITED", "STARTS"]
    head += ["REASON", *(["PRIORITY", "MESSAGE"] if wide else [])]
    screen.table(head, (_cells(row, now, wide=wide, everywhere=everywhere) for row in rows))


def _cells(row: GangRow, now: float, *, wide: bool, everywhere: bool) -> list[str | Text]:
    cells: list[str | Text] = [str(row.position or "-")]
    cells += [row.namespace or "(hidden)"] if everywhere else []
    state = Text(screen.printable(row.state), style=COLOURS.get(row.state, ""))
    cells += [row.name or row.id, state, _count(row), span(row.wait_seconds)]
    cells += [starts(row.forecast, now), row.reason or "-"]
    return [*cells, "-" if row.priority is None else str(row.priority), row.message or "-"] if wide else cells


def _count(row: GangRow) -> str:
    """Bound of quorum, and how many members there are beyond it."""
    needed = row.members.needed
    if needed is None:
        return f"{row.members.present}/?"
    beyond = row.members.present - needed
    return f"{row.members.bound}/{needed}" + (f"+{beyond}" if beyond > 0 else "")


def starts(forecast: Forecast | None, now: float) -> str:
    """When, from now on, with the bounds that hold in four of five cases."""
    if forecast is None:
        return "-"
    middle, low, high = (max(0.0, time - now) for time in (forecast.middle, forecast.low, forecast.high))
    if high <= 0:
        return "now"
    return f"in {span(middle)} ({span(low)} … {span(high)})"


def tell(found: GangDetail, now: float, seats: dict[str, str], own: "Status | None" = None) -> None:
    """All about one gang, for reading. own: the status of the ElasticJob that it is."""
    row = found.gang
    screen.line(
        f"{row.namespace}/{row.name} is {row.state}: {row.reason or 'not judged'}", COLOURS.get(row.state, "")
    )
    if row.message:
        screen.line(f"  {row.message}")
    for text in _elastic_words(own, now):
        screen.line(f"  {text}")
    if found.preempted is not None:
        screen.line(f"  {preempted(found.preempted)}")
    for name, value in _facts(found, now):
        screen.line(f"  {name}: {value}")
    for short in found.shortfalls:
        from scheduler.model.demand import ruled_out  # late, as it loads numpy

        blocked = ruled_out(short.blocked)
        best = f"the best {short.level}, {short.domain}, has" if short.domain else "there is"
        screen.line(f"  lacks: {short.needed} × {short.demand}; {best} room for {short.best}")
        if blocked:
            screen.line(f"  in the way: {blocked}")
    for near in (one for one in found.nearest if one.best):
        said = f"  nearest {near.level}, {near.domain}, has room for"
        screen.line(f"{said} {near.best} of {near.needed} × {near.demand}")
    if found.behind is not None:
        start = span(max(0.0, found.behind.start - now))
        screen.line(f"  the room is reserved for: {screen.gang_name(found.behind)}, in {start}")
    if found.refusal is not None:
        screen.line(f"  to mend: {found.refusal.field} = {found.refusal.value}: {found.refusal.remedy}")
    for victim in found.victims:
        said = f"  would take the room of: {screen.gang_name(victim)}"
        screen.line(f"{said} ({victim.pods} pods, {victim.way}, {victim.kind})")
    for victim in () if found.victims else found.would_cost:
        said = f"  if it might preempt, this would cost: {screen.gang_name(victim)}"
        screen.line(f"{said} ({victim.pods} pods, {victim.kind})")
    print()
    head = ("MEMBER", "STATE", "PHASE", "NODE", "ROLE", "NOTES")
    words = {worker.name: worker.reason for worker in own.members} if own else {}
    screen.table(head, (_member(one, seats, words.get(one.name, "")) for one in found.members))


def _facts(found: GangDetail, now: float) -> Iterator[tuple[str, str]]:
    row, count, wishes = found.gang, found.gang.members, found.wishes
    if row.position is not None:
        yield "place in the queue", str(row.position)
    if row.wait_seconds is not None:
        yield "has waited", span(row.wait_seconds)
    if row.forecast is not None:
        yield "starts", starts(row.forecast, now)
    yield (
        "members",
        f"{count.present} there, {count.needed or '?'} needed, {count.bound} bound, {count.running} running",
    )
    yield "priority", str(row.priority)
    yield "placement", f"{wishes.strategy}, {wishes.level}, {'required' if wishes.required else 'preferred'}"
    if wishes.expected_runtime is not None:
        yield "expected to run", span(wishes.expected_runtime)
    if wishes.max_runtime is not None:
        left = f", ended in {span(max(0.0, found.ends_by - now))}" if found.ends_by is not None else ""
        yield "may run", f"{span(wishes.max_runtime)} at most{left}"
    if found.deadline is not None:
        yield "must be bound", f"within {span(found.deadline - now)}"
    if found.not_before is not None:
        yield "backs off", f"for {span(found.not_before - now)} (try {found.tries})"
    for bar in found.barred:
        yield "barred node", f"{bar.node}, until {_clock(bar.until)}"


def preempted(own: PreemptedRow) -> str:
    """Which gang it gave way to last, and when."""
    when = datetime.fromtimestamp(own.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if own.id is None:
        return f"was preempted at {when}: {own.message}"
    winner = f"{own.namespace}/{own.gang}" if own.gang else f"gang {own.id} of another namespace"
    return f"was preempted by {winner} (priority {own.priority}) at {when}"


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%SZ")


def _member(own: MemberRow, seats: dict[str, str], said: str) -> list[str]:
    """said: what the elastic master says of it."""
    seat = own.node or (f"{seats[own.name]} (would be)" if own.name in seats else "-")
    notes = [*(["surplus"] if own.surplus else []), *filter(None, (own.reason, said))]
    return [own.name, own.state, own.phase, seat, own.role or "-", ", ".join(notes) or "-"]
