"""A Pod of the API as a pod of the model.

Never here: the pod's demand (`pod_demand`, `device_claims`) or its gang (`gangs`). They are only combined here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from scheduler.model.cluster import Level
from scheduler.model.neighbors import labels_text
from scheduler.model.resources import combined
from scheduler.model.workload import (
    Complaint,
    Membership,
    Owner,
    Pending,
    Phase,
    PlanNote,
    Pod,
    PodKey,
    Preempted,
    SeatNote,
    Uid,
    gang_of_one,
)
from scheduler.objects import api, labels, pod_annotations, times
from scheduler.objects.device_claims import NO_DEVICES, Asked
from scheduler.objects.gangs import Reading, ours, read
from scheduler.objects.interner import Interner
from scheduler.objects.parsing import PodMetadata, Unfit, moment, printable, shown, slips
from scheduler.objects.pod_demand import wanted
from scheduler.objects.volumes import Volumes

_PHASES: Final = {"": Phase.PENDING, **{phase.value: phase for phase in Phase}}


def pod(
    found: api.Pod, volumes: Volumes, levels: tuple[Level, ...], interner: Interner, asked: Asked = NO_DEVICES
) -> Pod:
    """The pod. An invalid field becomes a complaint, and nothing raises.

    asked: what its device claims add to its demand.
    """
    meta, spec, status = found.metadata, found.spec, found.status
    reading = _reading(meta, levels, interner)
    seat, plan, marked = _marks(meta.annotations or {}, interner)
    sheet = PodMetadata(None, meta.annotations)
    saved_at = sheet.annotation(labels.CHECKPOINTED_AT, moment, fatal=False)
    want = wanted(found, volumes, seat.node if seat is not None and seat.pin else "", asked)
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    complaints = (*want.complaints, *reading.complaints, *marked, *sheet.complaints)
    bound, waits = _condition(status, "PodScheduled", "True"), _condition(status, labels.SEATED, "False")
    refused = _refused(status) if spec.node_name else ""
    (
        namespace,
        scheduler,
        node,
        nominated,
        pinned,
        stuck,
        refused,
        demand,
        affinity,
        unmodeled,
        complaints,
        neighbors,
    ) = interner.each(
        meta.namespace,
        spec.scheduler_name,
        spec.node_name,
        status.nominated_node_name or "",
        want.pinned or "",
        _stuck(status),
        refused,
        want.demand,
        want.affinity,
        want.unmodeled,
        complaints,
        want.neighbors,
    )
    return Pod(
        uid=Uid(meta.uid),
        key=PodKey(namespace, meta.name),
        demand=demand,
        scheduler=scheduler,
        node=node or None,
        phase=_PHASES.get(status.phase, Phase.UNKNOWN),
        deleting=meta.deletion_timestamp is not None,
        priority=spec.priority or 0,
        created=times.known(meta.creation_timestamp) or 0.0,
        gated=labels.GATE in gates,
        held_back=any(gate != labels.GATE for gate in gates),
        native_group=spec.scheduling_group is not None,
        membership=reading.membership,
        nominated=nominated or None,
        affinity=affinity,
        pinned=pinned or None,
        seat=seat,
        plan=plan,
        owner=_owner(meta.owner_references or (), interner),
        unmodeled=unmodeled,
        pending=_pending(status, heard=bool(want.unmodeled)),
        neighbors=neighbors,
        complaints=complaints,
        bound_at=times.known(bound.last_transition_time) if bound is not None else None,
        preempts=spec.preemption_policy != "Never",
        saved_at=saved_at,
        told=waits.reason or "" if waits is not None else None,
        stuck=stuck,
        labels=labels_text((meta.labels or {}) | dict.fromkeys(want.users, "")),
        preempted=_preempted(status.conditions or ()),
        refused=refused,
        disrupted=_condition(status, labels.DISRUPTED, "True") is not None,
    )


def place(found: api.Pod) -> str:
    """Where the pod uses resources: its node, else its seat, else the node that it is nominated for. Empty: nowhere."""
    said = (found.metadata.annotations or {}).get(labels.SEAT, "")
    try:
        seat = pod_annotations.read_seat(said).node if said else ""
    except Unfit:
        seat = ""
    return found.spec.node_name or seat or found.status.nominated_node_name or ""


def recounted(known: Pod, before: Asked, now: Asked, interner: Interner) -> Pod:
    """A bound pod whose claims have other devices than before."""
    requests = combined(combined(known.demand.requests, before.requests, -1), now.requests)
    return replace(known, demand=interner.one(replace(known.demand, requests=requests)))


_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container without a known problem. A volume that cannot be mounted looks the same."""


def _stuck(status: api.PodStatus) -> str:
    """The reason why the first waiting container does not start. Empty: unknown."""
    for own in [*(status.init_container_statuses or []), *(status.container_statuses or [])]:
        waiting = own.state.waiting if own.state is not None else None
        if waiting is not None and waiting.reason not in _STARTING:
            return waiting.reason
    return ""


_OWN_LIMIT: Final = "DeadlineExceeded"
"""The pod's own time limit, which is not a problem of the node."""

_LONGEST_REASON: Final = 64


def _refused(status: api.PodStatus) -> str:
    """Why the kubelet ended the pod before any of its containers started. Empty: one started, or it did not end the pod.

    The kubelet may reject the pod immediately (UnexpectedAdmissionError, OutOfcpu, NodeAffinity, Evicted or NodeShutdown
    for a node under pressure or shutting down), or end it while it waits (Evicted, Terminated, Preempting). The reasons
    are the same for a pod that ran, so the container statuses decide.
    """
    if status.phase != Phase.FAILED or not status.reason or status.reason == _OWN_LIMIT:
        return ""
    began = map(_began, [*(status.init_container_statuses or []), *(status.container_statuses or [])])
    return "" if any(began) else status.reason[:_LONGEST_REASON]


def _began(own: api.ContainerStatus) -> bool:
    """The container ran at least once. A container that is terminated without a start time never ran."""
    state = own.state
    ended = state is not None and state.terminated is not None and bool(state.terminated.started_at)
    return own.restart_count > 0 or ended or (state is not None and state.running is not None)


def _reading(meta: api.Meta, levels: tuple[Level, ...], interner: Interner) -> Reading:
    """What the pod specifies about its gang. It is parsed once for all pods of a namespace with the same metadata."""
    said = tuple(
        tuple((key, value) for key, value in texts.items() if _is_said(key)) if texts else ()
        for texts in (meta.labels, meta.annotations)
    )
    odd = tuple(slips(meta.labels, meta.annotations))
    if not any(said) and not odd:
        return NOTHING
    key = (Reading, meta.namespace, levels, said, odd)
    reading = interner.made(
        key, lambda: _with(read(meta.namespace, dict(said[0]), dict(said[1]), levels), odd)
    )
    if reading.alone is None:
        return reading
    own = gang_of_one(meta.namespace, Uid(meta.uid))
    return Reading(Membership(own, ours.NAME, quorum={"": 1}, wish=reading.alone), reading.complaints)


def _is_said(key: str) -> bool:
    return key in labels.SAID or key.startswith(labels.KAI_CONTAINER)


NOTHING: Final = Reading()


def _with(reading: Reading, odd: tuple[tuple[str, str, str], ...]) -> Reading:
    """The reading with complaints about these misspelled keys. They are not fatal."""
    said = (Complaint(key, shown(value), remedy, fatal=False) for key, value, remedy in odd)
    return reading._replace(complaints=(*reading.complaints, *said))


def _marks(
    annotations: dict[str, str], interner: Interner
) -> tuple[SeatNote | None, PlanNote | None, list[Complaint]]:
    """Gangwright's own annotations. An invalid one is ignored and becomes a complaint."""
    complaints: list[Complaint] = []
    seat = plan = None
    for key in (labels.SEAT, labels.PLAN):
        text = annotations.get(key)
        if text is None:
            continue
        try:
            if key == labels.SEAT:
                said = pod_annotations.read_seat(text)
                seat = SeatNote(interner.one(said.node), interner.one(said.plan), said.pin)
            else:
                plan = pod_annotations.read_plan(text)
        except Unfit as unfit:
            complaints.append(Complaint(key, shown(text), f"remove the annotation; {unfit}", fatal=False))
    return seat, plan, complaints


def _owner(references: Iterable[api.OwnerReference], interner: Interner) -> Owner | None:
    """The controller among the owners."""
    for own in references:
        if own.controller and own.uid:
            return interner.one(Owner(own.kind, own.name, own.uid, own.api_version))
    return None


_LINE: Final = 200
"""Characters of kube-scheduler's message that are kept."""


def _condition(status: api.PodStatus, kind: str, truth: str) -> api.Condition | None:
    found = (own for own in status.conditions or () if own.type == kind and own.status == truth)
    return next(found, None)


def _pending(status: api.PodStatus, *, heard: bool) -> Pending | None:
    """heard: also keep kube-scheduler's message. It changes often, so it is dropped for other pods."""
    own = _condition(status, "PodScheduled", "False")
    if own is None:
        return None
    said = _in_the_way(own.message or "") if heard and own.reason == "Unschedulable" else ""
    return Pending(own.reason or "", times.known(own.last_transition_time) or 0.0, said)


def _in_the_way(message: str) -> str:
    """The obstacles in kube-scheduler's message, on one line, without the part about preemption."""
    said = " ".join(message.partition("preemption:")[0].split()).rstrip(". ")
    return said if len(said) <= _LINE else f"{said[: _LINE - 1]}…"


def _preempted(conditions: Sequence[api.Condition]) -> Preempted | None:
    for own in conditions:
        if own.type == labels.DISRUPTED and own.reason == labels.PREEMPTED_BY_GANG:
            return Preempted(printable(own.message or ""), times.known(own.last_transition_time) or 0.0)
    return None
