"""Effects as calls to the API server: path, content type and body, to the byte.

Lives here: the API calls for each effect. Never here: sending or retrying them (`kube.actions`).

Every PATCH carries the pod's uid, which the API server compares (422 for another pod of the same name), so a repeated
call is harmless. The ungating PATCH is a strategic merge that deletes only Gangwright's gate. A merge PATCH would
remove other gates too, and server-side apply would keep this one.

A PATCH of a Job without a user's request also carries the version (409 for another version). Otherwise a change by the
Job's owner, who suspends or resumes it at the same moment, would be mistaken for Gangwright's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import msgspec

from scheduler.model import effects
from scheduler.model.workload import Owner, PodKey, Uid
from scheduler.objects import labels, pod_annotations
from scheduler.objects.affinity import narrowed, written
from scheduler.objects.event_bodies import condition, disruption, event
from scheduler.objects.times import rfc3339

STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `body` is JSON of the content type."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    params: Mapping[str, str] = field(default_factory=lambda: {"fieldManager": labels.FIELD_MANAGER})


def calls(effect: effects.Effect, now: float) -> tuple[Call, ...]:
    """The calls that carry out the effect, in order. `now`: seconds since the epoch, for the visible timestamps."""
    match effect:
        case effects.Announce():
            return _announce(effect, now)
        case effects.SetCondition():
            return (_add_condition(effect, condition(effect, seated=effect.seated, now=now)),)
        case effects.WritePlan():
            return (_write_plan(effect),)
        case effects.Ungate():
            return (_ungate(effect),)
        case effects.Nominate():
            status = {"nominatedNodeName": effect.node or None}
            return (_patch(effect.key, effect.uid, MERGE, {"status": status}, "/status"),)
        case effects.Evict():
            return (_evict(effect),)
        case effects.SuspendJob():
            return (_suspend(effect, now),)
        case effects.ResumeJob():
            return (_patch_job(effect.key, effect.owner, _UNMARKED, effect.version, suspend=False),)


def _patch(key: PodKey, uid: Uid, kind: str, change: dict[str, Any], sub: str = "") -> Call:
    metadata = {"uid": uid, **change.pop("metadata", {})}
    body = msgspec.json.encode({"metadata": metadata, **change})
    return Call("PATCH", pod_path(key) + sub, body, kind)


def pod_path(key: PodKey) -> str:
    return f"/api/v1/namespaces/{quote(key.namespace, safe='')}/pods/{quote(key.name, safe='')}"


def _write_plan(effect: effects.WritePlan) -> Call:
    text = pod_annotations.write_plan(effect.plan, effect.seats, effect.victims) if effect.seats else None
    return _patch(effect.key, effect.uid, MERGE, {"metadata": {"annotations": {labels.PLAN: text}}})


def _ungate(effect: effects.Ungate) -> Call:
    spec = _without_our_gate()
    if effect.pin:
        required = {"nodeSelectorTerms": written(narrowed(effect.affinity, effect.node))}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    annotations = {labels.SEAT: pod_annotations.write_seat(effect.node, effect.plan, pin=effect.pin)}
    return _patch(effect.key, effect.uid, STRATEGIC, {"metadata": {"annotations": annotations}, "spec": spec})


def let_go(key: PodKey, uid: Uid) -> Call:
    """Remove the gate from a pod on a user's request. kube-scheduler then places it alone, without a seat or pin."""
    return _patch(key, uid, STRATEGIC, {"spec": _without_our_gate()})


def _without_our_gate() -> dict[str, Any]:
    return {"schedulingGates": [{"$patch": "delete", "name": labels.GATE}]}


def _evict(effect: effects.Evict) -> Call:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": effect.key.name, "namespace": effect.key.namespace},
        "deleteOptions": {"preconditions": {"uid": effect.uid}},
    }
    return Call("POST", pod_path(effect.key) + "/eviction", msgspec.json.encode(body), JSON, {})


def _suspend(effect: effects.SuspendJob, now: float) -> Call:
    stays = effect.stays.value if effect.stays is not None else None  # None: from an earlier suspension
    said = {
        labels.PAUSED: rfc3339(now) if stays is None else None,
        labels.ATTAINED: f"{effect.attained:.0f}",
        labels.STAYS: stays,
    }
    return _patch_job(effect.key, effect.owner, said, effect.version, suspend=True)


_UNMARKED: Final = {labels.PAUSED: None, labels.STAYS: None}
"""Neither annotation stays on a running Job, or on a Job that Gangwright must not resume."""


def _patch_job(
    key: PodKey, owner: Owner, said: Mapping[str, str | None], version: str, *, suspend: bool
) -> Call:
    """Change a Job's `suspend`, which the API allows at any time. The uid is compared, as for pods. version: "": any."""
    metadata = {"uid": owner.uid, "annotations": said} | ({"resourceVersion": version} if version else {})
    body = msgspec.json.encode({"metadata": metadata, "spec": {"suspend": suspend}})
    path = f"/apis/batch/v1/namespaces/{quote(key.namespace, safe='')}/jobs/{quote(key.name, safe='')}"
    return Call("PATCH", path, body, MERGE)


def _announce(effect: effects.Announce, now: float) -> tuple[Call, ...]:
    """Events come first, because most users read those."""
    told = [_event(effect, now, of_owner=False)]
    if effect.owner is not None:
        told.append(_event(effect, now, of_owner=True))
    if effect.seated is not None:
        told.append(_add_condition(effect, condition(effect, seated=effect.seated, now=now)))
    if effect.disrupted:
        told.append(_add_condition(effect, disruption(effect, now)))
    return tuple(told)


def _add_condition(effect: effects.Announce | effects.SetCondition, told: dict[str, Any]) -> Call:
    return _patch(effect.key, effect.uid, STRATEGIC, {"status": {"conditions": [told]}}, "/status")


def _event(effect: effects.Announce, now: float, *, of_owner: bool) -> Call:
    """Server-side apply, which creates the event, updates it, and recreates it if it has expired."""
    told = event(effect, now, of_owner=of_owner)
    path = f"/apis/events.k8s.io/v1/namespaces/{quote(effect.key.namespace, safe='')}/events/{told['metadata']['name']}"
    params = {"fieldManager": labels.FIELD_MANAGER, "force": "true"}
    return Call("PATCH", path, msgspec.json.encode(told), APPLY, params)
