"""`gangwright simulate`: the live code on the live state, without changes."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from scheduler.cli import cluster_document, manifest_pods, screen, snapshot_command
from scheduler.cli.cluster_document import Reading
from scheduler.cli.offline_answers import AT_ONCE, EVERYTHING, OfflineAnswers
from scheduler.cli.options import (
    NO,
    WRONG,
    Context,
    Form,
    Kubeconfig,
    Namespace,
    Offline,
    Reach,
    Server,
    Settings,
    Shown,
)
from scheduler.cli.status_client import RefusedError, StatusClient
from scheduler.cli.submission import Wish, gang_of, is_of_storage, priorities, tell, wish
from scheduler.cli.template import Thing
from scheduler.cli.training_runtimes import with_runtimes
from scheduler.cli.trial_requests import trials
from scheduler.clock import steady
from scheduler.errors import SettingsError
from scheduler.ledger.phase import State
from scheduler.model.decision import TEXT, Place, Reason, Refuse
from scheduler.model.policy import Policy
from scheduler.model.workload import GangKey, Pod, PodKey, Uid
from scheduler.replay import Document
from scheduler.status import gang_views
from scheduler.status.operator_api import cannot_tell, would_leave
from scheduler.status.schemas import GangDetail, TrialAnswer, TrialRequest, VictimRow

RUNS: Final = "runs"
STARTS: Final = "starts now"
WOULD_PREEMPT: Final = "would preempt"
WAITS: Final = "waits"
REFUSED: Final = "refused"
UNKNOWN: Final = "cannot tell"

STANDS: Final[Mapping[str, str]] = {
    State.RUNNING: RUNS,
    State.BOUND: RUNS,
    State.HELD: STARTS,
    State.FREEING: WOULD_PREEMPT,
    State.REFUSED: REFUSED,
}
"""The answer about an existing gang, by its state. In any other state it waits."""

REFUSALS: Final = frozenset({Reason.INVALID_SPEC, Reason.CONFLICT, Reason.UNKNOWN_LEVEL})
"""Reasons that do not change while the gang waits. The service reports no more about a rejection."""


GONE: Final = frozenset({"leaving", "ended"})
"""States that the members of a finished gang may have."""


class Outcome(msgspec.Struct, frozen=True):
    """The result for one gang. starts: it would start now or after its victims have terminated, or it runs already.
    reason: empty if it would preempt, because nothing is preempted yet.  seats: the node by pod.
    """

    namespace: str
    gang: str
    starts: bool
    answer: str
    reason: str
    message: str
    pods: int
    seats: dict[str, str] = {}
    victims: list[VictimRow] = []


def simulate(
    file: Annotated[
        str, typer.Option("--filename", "-f", help='Manifests to simulate ("-" for standard input).')
    ] = "",
    taken: Annotated[
        Path | None, typer.Option("--snapshot", help="Snapshot to use instead of the cluster.")
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Trace of all decisions, as one JSON object per line.")
    ] = False,
    namespace: Namespace = "",
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """Check whether a job would start now, without changes.

    The answer shows the nodes of its pods, or what is missing. With -f the pods of the manifests are added to a copy of
    the cluster or snapshot. A gang that exists already is shown as it is. Without -f all pending gangs of the snapshot
    are simulated.

    Exits with 0 if all gangs would start, now or after the named victims have terminated, or run already. Exits with 1
    if a gang would wait. Exits with 2 if the result is unknown because the planner does not model a field of the pods,
    or if the manifests create no pods.
    """
    reach = Reach(kubeconfig, context, settings, server, offline)
    asks = not reach.is_offline() and taken is None
    if trace and asks:
        raise SettingsError("--trace", trace, "requires a local computation. Add --offline or --snapshot")
    if not file:
        if taken is None:
            raise SettingsError(
                "-f", "", "is required without --snapshot. Name manifests, a snapshot, or both"
            )
        answers = OfflineAnswers(snapshot_command.load(taken))
        keys = dict.fromkeys(own.gang.key for own in answers.judged.steps)
        _show([_outcome(answers, key) for key in keys], output, answers if trace else None)
        return
    things = manifest_pods.read(file)
    inside = reach.namespace(namespace or ("" if taken is None else "default"))
    remote = StatusClient(reach) if asks else None
    if taken is None:
        policy = remote.policy() if remote is not None else None
        document, wanted = asyncio.run(_live(things, inside, reach, policy))
    else:
        document = snapshot_command.load(taken)
        reading = Reading(document.policy, document.taken)
        wanted = wish(things, inside, reading, None, document.taken)
    tell(wanted)
    if not wanted.made:  # no answer is possible
        raise typer.Exit(WRONG)
    if remote is not None:
        said, rest = _there(wanted, partial(_known, remote))
        said |= {
            key: _answered(key, trial, remote.simulate(trial))
            for key, trial in trials(rest, rest.made).items()
        }
        _show(_certain(wanted, said), output, notes=remote.notes())
        return
    there = {gang_of(pod) for pod in document.pods}
    said, rest = ({}, wanted)
    if not there.isdisjoint(wanted.gangs):
        said, rest = _there(wanted, OfflineAnswers(document).gang)
    answers = OfflineAnswers(document, rest.events)
    said |= {key: _of_wish(answers, key, pods) for key, pods in rest.gangs.items()}
    notes = answers.notes() if taken is None else ()
    _show(_certain(wanted, said), output, answers if trace else None, notes)


async def _live(
    things: list[Thing], namespace: str, reach: Reach, policy: Policy | None
) -> tuple[Document, Wish]:
    """The cluster, and the submission. policy: that of the service, which knows the rest; None: all is read here."""
    async with await reach.client() as client:
        if policy is None:
            chosen = await cluster_document.policy(client, reach.settings)
            reading = await cluster_document.read(client, chosen)
        else:
            reading = Reading(policy, steady())
        document = reading.document()
        resolved = await with_runtimes(client, things, namespace)
        return document, wish(resolved, namespace, reading, await priorities(client), document.taken)


def _known(remote: StatusClient, namespace: str, name: str) -> GangDetail | None:
    """An existing gang. None if its pods may not be listed: then only new pods can be simulated."""
    try:
        return remote.gang(namespace, name)
    except RefusedError as refused:
        if refused.status == 403:
            return None
        raise


def _there(
    wanted: Wish, look: Callable[[str, str], GangDetail | None]
) -> tuple[dict[GangKey, Outcome], Wish]:
    """The outcomes of gangs that exist already, and the rest of the submission.

    Existing pods replace as many submitted ones, by role. Additional submitted pods would join the gang.
    """
    said: dict[GangKey, Outcome] = {}
    there: set[PodKey] = set()
    for key, pods in wanted.gangs.items():
        found = look(*key) if wanted.is_named(pods) else None
        if found is None or not any(own.state not in GONE for own in found.members):
            continue
        left = Counter(own.role for own in found.members if own.state != "leaving" and own.phase != "Failed")
        for pod in pods:
            role = pod.membership.role if pod.membership else ""
            if left[role] > 0:
                left[role] -= 1
                there.add(pod.key)
        if all(pod.key in there for pod in pods):
            said[key] = _as_it_is(key, found)
    return said, wanted.without(there)


def _as_it_is(key: GangKey, found: GangDetail) -> Outcome:
    """The outcome of a gang that exists already, from its row."""
    row, answer = found.gang, STANDS.get(found.gang.state, WAITS)
    place = f", place {row.position} in the queue" if row.position is not None else ""
    return Outcome(
        namespace=key.namespace,
        gang=row.name or key.name,
        starts=answer in {RUNS, STARTS, WOULD_PREEMPT},
        answer=answer,
        reason=row.reason or "",
        message=f"a gang with this name already exists and is {row.state}{place}"
        + (f": {row.message}" if row.message else ""),
        pods=len(found.members),
        seats={own.name: own.node for own in found.members if own.node},
        victims=found.victims if answer == WOULD_PREEMPT else [],
    )


def _certain(wanted: Wish, said: Mapping[GangKey, Outcome]) -> list[Outcome]:
    """The outcomes in the order of the submission, without unfounded positive answers.

    A gang whose members wait for each other waits, whatever capacity is free. The answer already includes fields that
    the planner does not model, except for an existing gang or an earlier version of the service. Claims are left to the
    answer, because they were not read here if the service gave it.
    """
    outcomes = []
    for key, pods in wanted.gangs.items():
        if (own := said.get(key)) is None:
            continue  # the service simulated all pods without a gang together
        fields = dict.fromkeys(f for pod in pods for f in pod.unmodeled if not is_of_storage(f))
        if own.answer in {STARTS, WOULD_PREEMPT, UNKNOWN} and key in wanted.held_up:
            own = _no(own, WAITS, Reason.MISSING_MEMBERS, wanted.held_up[key])
        elif own.answer in {STARTS, WOULD_PREEMPT} and fields:
            own = _no(own, UNKNOWN, Reason.UNSUPPORTED_FIELD, cannot_tell(fields))
        outcomes.append(own)
    return outcomes


def _no(own: Outcome, answer: str, reason: Reason, message: str) -> Outcome:
    return msgspec.structs.replace(
        own, starts=False, answer=answer, reason=reason, message=message, seats={}, victims=[]
    )


def _answered(key: GangKey, asked: TrialRequest, said: TrialAnswer) -> Outcome:
    """The outcome from the service's answer. With victims, the gang would start only after a preemption."""
    no = REFUSED if said.reason in REFUSALS else UNKNOWN if said.reason == Reason.UNSUPPORTED_FIELD else WAITS
    answer = (WOULD_PREEMPT if said.victims else STARTS) if said.starts else no
    return Outcome(
        namespace=key.namespace,
        gang=key.name,
        starts=said.starts,
        answer=answer,
        reason="" if answer == WOULD_PREEMPT else said.reason,
        message=said.message,
        pods=int(sum(own.count for own in asked.pods)),
        seats={own.pod: own.node for own in said.seats},
        victims=list(said.victims),
    )


def _of_wish(answers: OfflineAnswers, key: GangKey, pods: list[Pod]) -> Outcome:
    """The outcome of a submitted gang. A gang with the name of an existing one joins it."""
    at = answers.judged.engine.ledger.registry.gang_of.get(pods[0].uid)
    if at is None:
        reason = Reason.OTHER_SCHEDULER
        return Outcome(key.namespace, key.name, False, WAITS, reason, TEXT[reason], len(pods))
    return _outcome(answers, at)


def _outcome(answers: OfflineAnswers, key: GangKey) -> Outcome:
    judged = answers.judged
    record = judged.engine.ledger.registry.gangs[key]
    row = gang_views.row(judged.engine, record, EVERYTHING, answers.now)
    decision, room = judged.decision(key), judged.room(key)
    seats: Mapping[Uid, str] = {}
    answer = REFUSED if isinstance(decision or record.spec, Refuse) else WAITS
    reason, message = row.reason or "", row.message or ""
    if isinstance(decision, Place):
        seats, answer, reason, message = decision.seats, STARTS, Reason.SEATED, AT_ONCE
    elif room is not None:
        seats, answer, reason, message = room.seats, WOULD_PREEMPT, "", would_leave(room.victims)
    own = Outcome(
        namespace=key.namespace,
        gang=gang_views.name_of(record),
        starts=bool(seats),
        answer=answer,
        reason=reason,
        message=message,
        pods=len(record.members),
        seats={record.members[uid].pod.key.name: node for uid, node in seats.items()},
        victims=answers.victims(key),
    )
    fields = dict.fromkeys(f for member in record.members.values() for f in member.pod.unmodeled)
    return _no(own, UNKNOWN, Reason.UNSUPPORTED_FIELD, cannot_tell(fields)) if fields and own.starts else own


def _show(
    outcomes: list[Outcome],
    output: Form,
    traced: OfflineAnswers | None = None,
    notes: Iterable[str] = (),
) -> None:
    """Show the outcomes or the trace of decisions, and notes on them. Then exit with the right code."""
    if traced is not None:
        sys.stdout.write(traced.judged.trace().decode())
    elif not screen.document(outcomes, output):
        if outcomes:
            _table(outcomes, wide=output is Form.WIDE)
        else:
            screen.note("no pending gangs")
        for text in notes:
            screen.note(text)
    # A gang that waits makes the answer negative, even if others are unknown.
    if any(not own.starts and own.answer != UNKNOWN for own in outcomes):
        raise typer.Exit(NO)
    if any(own.answer == UNKNOWN for own in outcomes):
        raise typer.Exit(WRONG)


def _table(outcomes: list[Outcome], *, wide: bool) -> None:
    head = ("NAMESPACE", "GANG", "PODS", "ANSWER", "NODES", "REASON", "MESSAGE")
    screen.table(
        head,
        (
            [
                own.namespace,
                own.gang,
                str(own.pods),
                own.answer,
                str(len(set(own.seats.values()))) if own.starts else "-",
                own.reason or "-",
                own.message,
            ]
            for own in outcomes
        ),
    )
    costs = [
        (own.gang, screen.gang_name(one), str(one.pods), one.kind, one.way)
        for own in outcomes
        for one in screen.by_gang(own.victims)
    ]
    if costs:
        print()
        screen.table(("GANG", "WOULD PREEMPT", "PODS", "KIND", "METHOD"), costs)
    seats = [(own.gang, pod, node) for own in outcomes for pod, node in own.seats.items()]
    if seats and (wide or len(outcomes) == 1):
        print()
        screen.table(("GANG", "POD", "NODE"), seats)
