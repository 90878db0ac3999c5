"""`gangwright list`, `queue` and `explain`: the state of gangs, and its reasons.

The status service answers. With --offline this program does, from what its caller may read.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import quote

import msgspec
import typer
from rich.table import Table

from scheduler.cli import gang_table, screen
from scheduler.cli.gang_table import Order, lasting, ordered, starts
from scheduler.cli.options import (
    NO,
    Context,
    Everywhere,
    Form,
    GangName,
    Kubeconfig,
    Namespace,
    Offline,
    Reach,
    Server,
    Settings,
    Shown,
    scope,
    split,
)
from scheduler.cli.screen import by_gang, preempted, span
from scheduler.errors import KubeError, SettingsError
from scheduler.model import names
from scheduler.objects import labels
from scheduler.status.schemas import GangDetail, GangRow, MemberRow

if TYPE_CHECKING:
    from scheduler.cli.offline_answers import OfflineAnswers
    from scheduler.cli.status_client import StatusClient
    from scheduler.elastic.job.status import Status

IGNORED_FIELD: Final = "IgnoredField"
"""The reason of a notice about something without effect, for example a quorum beyond a ResourceQuota."""

PATIENCE: Final = 10.0
"""Seconds after which a gang that could start at once should have started: the service plans within one second."""

PREEMPTS: Final = {"waiting": "would preempt", "freeing": "is preempting"}
"""What a gang does with its victims, by its state. In any later state it has preempted them."""

_WHY_NOT: Final = (
    "is Gangwright running, and does it have write access? See the events with kubectl describe pod, "
    "and: kubectl -n gangwright-system get pods"
)


Labels: TypeAlias = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        help="Label selector for the first pod of gangs: KEY, !KEY, KEY=VALUE or KEY!=VALUE, joined by commas. "
        "Not supported with --offline.",
    ),
]


def list_(
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    selector: Labels = "",
    pending: Annotated[
        bool,
        typer.Option(
            "--pending", help="Only pending gangs, in queue order. Gangs that can't be placed come last."
        ),
    ] = False,
    sort: Annotated[
        Order, typer.Option("--sort", help="Sort key. The largest numbers and times come first.")
    ] = Order.PLACE,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Refresh every 2 seconds until Ctrl-C."),
    ] = False,
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """List gangs: place, state, GPUs, wait and expected start.

    GPUS is held/requested. For a gang without GPUs all its devices count. MEMBERS is bound/required, and +N members
    beyond the quorum. `-o wide` adds owner, priority and message. A gang has the labels of its first pod. Gangs without
    pods, and gangs whose names you may not read, have no labels.
    """
    if watch and output in {Form.JSON, Form.YAML}:
        raise SettingsError("--watch", output.value, "supports only tables. Leave out -o or --watch")
    terms = "".join(selector.split())
    if terms and not re.fullmatch(names.LABEL_SELECTOR, terms):
        raise SettingsError(
            "--selector", selector, "must be KEY, !KEY, KEY=VALUE or KEY!=VALUE, joined by commas"
        )
    reach = Reach(kubeconfig, context, settings, server, offline)
    within = scope(reach, namespace, everywhere=everywhere)
    answers = source(reach)

    def ask() -> list[GangRow]:
        if not pending:
            return ordered(answers.gangs(within or None, terms), sort)
        rows = [row for row in answers.queue(terms) if within in {"", row.namespace}]
        return rows if sort is Order.PLACE else ordered(rows, sort)

    if watch:
        _follow(answers, ask, wide=output is Form.WIDE, everywhere=everywhere)
        return
    rows = ask()
    if screen.document(rows, output):
        return
    screen.show(gang_table.grid(rows, answers.now, wide=output is Form.WIDE, everywhere=everywhere))
    _warn(answers)
    if any(row.state == "suspended" for row in rows):
        screen.note(
            "suspended gangs have no pods. Gangwright resumes those that it preempted (see -o wide); for others, use: "
            "gangwright resume NAMESPACE/GANG"
        )
    if not rows:
        kind = "pending gangs" if pending else "gangs"
        screen.note(f"no {kind} in {f'namespace {within}; use -A for all' if within else 'this cluster'}")


def _follow(
    answers: "OfflineAnswers | StatusClient",
    ask: Callable[[], list[GangRow]],
    *,
    wide: bool,
    everywhere: bool,
) -> None:
    from scheduler.cli.live_table import follow
    from scheduler.cli.status_client import StatusClient  # late: help comes without the Kubernetes client

    if not isinstance(answers, StatusClient):
        raise SettingsError(
            "--watch", "offline", "requires the status service. Leave out --watch or --offline"
        )
    told = ""

    def look() -> tuple[Table, object]:
        nonlocal told
        rows = ask()
        away = answers.away()
        if away and away != told:
            screen.note(away)
        told = away
        return gang_table.grid(rows, answers.now, wide=wide, everywhere=everywhere), lasting(rows)

    follow(look)


def queue(
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """List pending gangs in queue order, each with its reason.

    The same as `list --pending -A -o wide`.
    """
    shown = Form.WIDE if output is Form.TABLE else output
    list_(
        everywhere=True,
        pending=True,
        output=shown,
        kubeconfig=kubeconfig,
        context=context,
        settings=settings,
        server=server,
        offline=offline,
    )


def explain(
    gang: GangName,
    namespace: Namespace = "",
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """Explain why a gang waits, and what would let it start.

    It shows missing resources, the pods that the gang would preempt, and the nodes of its members. Exits with 1 if the
    gang is not found.
    """
    reach = Reach(kubeconfig, context, settings, server, offline)
    inside, name = split(gang, namespace, reach)
    answers = source(reach)
    found = answers.gang(inside, name)
    if found is None:
        _none(answers, reach, inside, name)
        raise typer.Exit(NO)
    if screen.document(found, output):
        return
    kind, _, owner = (found.gang.owner or "").partition("/")
    elastic = _elastic(reach, inside, owner) if kind == "ElasticJob" else None
    tell(found, answers.now, answers.seats(inside, name), elastic)
    if not _warn(answers) and offline and _is_overdue(found.gang):
        screen.note(f"the gang could start, but has not for {span(found.gang.wait_seconds)}: {_WHY_NOT}")


def source(reach: Reach) -> "OfflineAnswers | StatusClient":
    """The source of answers: the service, which is called when needed, or the cluster, which is read at once.

    Raises SettingsError for options that contradict each other.
    """
    if not reach.is_offline():
        from scheduler.cli.status_client import StatusClient  # late: help comes without it

        return StatusClient(reach)
    from scheduler.cli import cluster_document
    from scheduler.cli.offline_answers import OfflineAnswers

    found = cluster_document.reading(reach)
    return OfflineAnswers(found.document(), away=found.away)


def _warn(answers: "OfflineAnswers | StatusClient") -> bool:
    """Report what limits the answer. Returns whether no replica is active."""
    for text in answers.notes():
        screen.note(text)
    return bool(answers.away())


def _none(answers: "OfflineAnswers | StatusClient", reach: Reach, inside: str, name: str) -> None:
    """Report that the gang is not found, or that it has no pods because it is suspended."""
    said = f"gang {name} not found in namespace {inside}"
    for text in _elastic_words(_elastic(reach, inside, name), answers.now):
        screen.note(text)
    rows = answers.gangs(inside)
    for row in rows:
        if row.name == name and row.state == "suspended":
            screen.note(f"gang {name} is suspended: {row.message}")
            return
    whole = [row.name for row in rows if row.name and not row.alone and name.startswith(f"{row.name}-")]
    if whole:
        gang = max(whole, key=len)
        screen.note(f"{said}; if it is a pod of a gang, use: gangwright explain {inside}/{gang}")
        return
    from scheduler.cli.jobs import sleeping  # late: help comes without the Kubernetes client

    if asleep := asyncio.run(sleeping(reach, inside, name)):
        screen.note(
            f"{asleep[0]} is suspended, so it has no pods; to resume it: gangwright resume {inside}/{name}"
        )
        return
    screen.note(f"{said}; for all gangs, use: gangwright list -A; for those that ended: gangwright history")


def _elastic(reach: Reach, namespace: str, name: str) -> "Status | None":
    """The status of the ElasticJob of this name. Only it tells why a worker was lost.

    It is read with the caller's own rights because the status service doesn't know it. None if it can't be read.
    """
    from scheduler.kube.credentials import find_access  # late: a list comes without them
    from scheduler.kube.http_connection import HttpConnection, api_server

    async def reached() -> HttpConnection:
        return await api_server(await find_access(reach.kubeconfig, reach.context))

    path = f"/apis/{labels.OURS}v1alpha1/namespaces/{quote(namespace)}/elasticjobs/{quote(name)}"
    try:
        server = asyncio.run(reached())
        answer = server.ask("GET", path)
        server.close()
    except KubeError:
        return None
    if answer.status != HTTPStatus.OK:
        return None
    from scheduler.elastic.job.status_json import UnreadableStatus, decode_status  # late: it loads numpy

    try:
        return decode_status(msgspec.json.decode(answer.body, type=dict).get("status"))
    except (msgspec.MsgspecError, UnreadableStatus):
        return None


def _elastic_words(own: "Status | None", now: float) -> Iterator[str]:
    """The phase of an elastic job, and the failures by node."""
    if own is None:
        return
    yield f"elastic job: {own.phase}: {own.reason or '-'}"
    for bar in own.barred:
        avoided = f", excluded until {_clock(bar.until)}" if bar.until > now else ""
        yield f"node {bar.node} failed {bar.failures}×{avoided}: {bar.why}"


def _is_overdue(row: GangRow) -> bool:
    """Whether the gang could start at once by this program's plan, but the service has not started it."""
    from scheduler.cli.offline_answers import AT_ONCE  # late: help comes without numpy

    return row.state == "waiting" and AT_ONCE in (row.message or "") and (row.wait_seconds or 0.0) > PATIENCE


def tell(found: GangDetail, now: float, seats: dict[str, str], own: "Status | None" = None) -> None:
    """Show one gang as text. own: the status of its ElasticJob."""
    row = found.gang
    screen.line(
        f"{row.namespace}/{row.name} is {row.state}: {row.reason or 'not evaluated'}",
        gang_table.COLORS.get(row.state, ""),
    )
    if row.message:
        screen.line(f"  {row.message}")
    for text in _elastic_words(own, now):
        screen.line(f"  {text}")
    if found.preempted is not None:
        screen.line(f"  {preempted(found.preempted)}")
    for name, value in _facts(found, now):
        screen.line(f"  {name}: {value}")
    message = row.message or ""
    for short in (own for own in found.shortfalls if f"needs {own.needed} × {own.demand}" not in message):
        from scheduler.model.demand import blocked_nodes  # late, as it loads numpy

        blocked = blocked_nodes(short.blocked)
        best = f"the best {short.level}, {short.domain}, fits" if short.domain else "the cluster fits"
        screen.line(f"  missing: {short.needed} × {short.demand}; {best} {short.best}")
        if blocked:
            screen.line(f"  excluded nodes: {blocked}")
    for near in (one for one in found.nearest if one.best):
        said = f"  nearest {near.level}, {near.domain}, fits"
        screen.line(f"{said} {near.best} of {near.needed} × {near.demand}")
    if found.behind is not None:
        start = found.behind.start - now
        when = (
            f"it starts in about {span(start)}" if start > 0 else "it starts when its victims have terminated"
        )
        screen.line(f"  reserved for: {screen.gang_name(found.behind)}, ahead of this gang; {when}")
    for notice in (own for own in found.notices if own.reason == IGNORED_FIELD):
        screen.line(f"  warning: {notice.message}")
    if found.refusal is not None:
        screen.line(f"  fix: {found.refusal.field} = {found.refusal.value}: {found.refusal.remedy}")
    does = PREEMPTS.get(row.state, "preempted") if found.victims else "with preemption allowed, would preempt"
    for victim in by_gang(found.victims or found.would_cost):
        pods = f"{victim.pods} pod{'' if victim.pods == 1 else 's'}"
        screen.line(f"  {does}: {screen.gang_name(victim)} ({pods}, {victim.kind}, {victim.way})")
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
        f"{count.present} created, {count.needed or '?'} required, {count.bound} scheduled, {count.running} running",
    )
    yield "priority", str(row.priority)
    yield "placement", f"{wishes.strategy}, {wishes.level}, {'required' if wishes.required else 'preferred'}"
    if wishes.expected_runtime is not None:
        yield "expected to run", span(wishes.expected_runtime)
    if wishes.max_runtime is not None:
        left = f", reached in {span(max(0.0, found.ends_by - now))}" if found.ends_by is not None else ""
        yield "max runtime", f"{span(wishes.max_runtime)}{left}"
    if found.deadline is not None:
        yield "must be bound", f"within {span(found.deadline - now)}"
    if found.not_before is not None:
        yield "backing off", f"for {span(found.not_before - now)} (try {found.tries})"
    for bar in found.barred:
        yield "excluded node", f"{bar.node}, until {_clock(bar.until)}"


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%SZ")


def _member(own: MemberRow, seats: dict[str, str], said: str) -> list[str]:
    """The row of one member. said: the elastic master's message about it."""
    seat = own.node or (f"{seats[own.name]} (planned)" if own.name in seats else "-")
    notes = [*(["surplus"] if own.surplus else []), *filter(None, (own.reason, said))]
    return [own.name, own.state, own.phase, seat, own.role or "-", ", ".join(notes) or "-"]
