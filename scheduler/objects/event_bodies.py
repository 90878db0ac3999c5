"""The visible status of a gang: events and the condition `gangwright.io/Seated`.

Lives here: how a reason and a message become an Event (`events.k8s.io/v1`) and a pod condition. Never here: the message
itself (`ledger`), or how often it is reported.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, SetCondition
from scheduler.objects import labels
from scheduler.objects.times import rfc3339

NOTE_LIMIT: Final = 1024
"""Bytes of an event's note that the API server accepts."""

ACTION: Final = "Placing"
"""The action of an event, which the API server requires."""

NORMAL: Final = frozenset(
    {
        Reason.SEATED,
        Reason.BOUND,
        Reason.SCORED,
        Reason.QUEUED,
        Reason.GATED,
        Reason.MISSING_MEMBERS,
        Reason.POD_DELETED,
        Reason.MOVED,
    }
)
"""Reasons that need no action from users. All others are warnings."""

_STEM: Final = 50
"""Characters of the object's name at the start of an event's name. The rest makes the event's name unique."""


def event(effect: Announce, now: float, *, of_owner: bool) -> dict[str, Any]:
    """The Event on the pod or on its owner. A repeated report updates the same Event. Its name and all fields except
    `series` stay unchanged, as the API server requires. `now`: seconds since the epoch.
    """
    own, namespace = effect.owner, effect.key.namespace
    pod = reference("v1", "Pod", namespace, effect.key.name, effect.uid)
    regarding, related = pod, None
    if of_owner and own is not None:
        regarding, related = reference(own.api_version, own.kind, namespace, own.name, own.uid), pod
    since = now if effect.since is None else effect.since
    said = f"{regarding['uid']} {effect.reason} {since} {effect.message}".encode("utf-8", "replace")
    name = stem(regarding["name"]) + blake2b(said, digest_size=8).hexdigest()
    told = body(
        {"namespace": namespace, "name": name},
        regarding,
        reporter=labels.REPORTER,
        action=ACTION,
        kind="Normal" if effect.reason in NORMAL else "Warning",
        reason=effect.reason.value,
        note=effect.message,
        at=since,
    )
    if related:
        told["related"] = related
    if effect.count > 1:
        told["series"] = {"count": effect.count, "lastObservedTime": rfc3339(now, "microseconds")}
    return told


def body(
    metadata: Mapping[str, str],
    regarding: Mapping[str, str],
    *,
    reporter: str,
    action: str,
    kind: str,
    reason: str,
    note: str,
    at: float,
) -> dict[str, Any]:
    """An Event as JSON. kind: Normal or Warning. at: seconds since the epoch."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": metadata,
        "eventTime": rfc3339(at, "microseconds"),
        "reportingController": reporter,
        "reportingInstance": reporter,
        "action": action,
        "reason": reason,
        "note": shortened(note),
        "type": kind,
        "regarding": regarding,
    }


def reference(version: str, kind: str, namespace: str, name: str, uid: str) -> dict[str, str]:
    """A reference to the object that an event is about."""
    return {"apiVersion": version, "kind": kind, "namespace": namespace, "name": name, "uid": uid}


def condition(effect: Announce | SetCondition, *, seated: bool, now: float) -> dict[str, Any]:
    """The pod condition with the gang's state. `now`: seconds since the epoch, written when the status changes."""
    told = {
        "type": labels.SEATED,
        "status": "True" if seated else "False",
        "reason": effect.reason.value,
        "message": effect.message,
    }
    if effect.turned:
        told["lastTransitionTime"] = rfc3339(now)
    return told


def disruption(effect: Announce, now: float) -> dict[str, Any]:
    """The Kubernetes condition of an evicted pod, with Gangwright's reason and message.

    It is written after the Eviction API accepts the eviction, because that writes the same condition with its own
    reason. `now`: seconds since the epoch.
    """
    return {
        "type": labels.DISRUPTED,
        "status": "True",
        "reason": labels.PREEMPTED_BY_GANG,
        "message": effect.message,
        "lastTransitionTime": rfc3339(now),
    }


def stem(name: str) -> str:
    """The prefix of the names of events on an object with this name."""
    return name[:_STEM].rstrip("-.") + "-"


def shortened(message: str) -> str:
    """The message, shortened to the API's limit, which counts bytes."""
    raw = message.encode("utf-8", "replace")
    if len(raw) <= NOTE_LIMIT:
        return raw.decode()
    return raw[: NOTE_LIMIT - 3].decode("utf-8", "ignore") + "…"
