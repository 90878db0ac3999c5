"""What people read about a gang: events and the condition `gangwright.io/Seated`.

Lives here: how a reason and a message become an Event (`events.k8s.io/v1`) and a pod condition. Never here: the
message itself (`ledger`), or how often anything is told.
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
"""What was being done; the API server wants a word."""

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
"""Reasons that ask nothing of anybody; all others are warnings."""

_STEM: Final = 50
"""Characters of a name that an event's own name begins with; the rest tells it from all others."""


def event(effect: Announce, now: float, *, of_owner: bool) -> dict[str, Any]:
    """The Event on the pod, or on its owner; the same one for all that is said again. Its name and all but `series` stay as
    they were, which the API server demands. `now`: seconds since the epoch.
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
    """Which object an event is about."""
    return {"apiVersion": version, "kind": kind, "namespace": namespace, "name": name, "uid": uid}


def condition(effect: Announce | SetCondition, *, seated: bool, now: float) -> dict[str, Any]:
    """The pod condition that says how the gang stands; its time is that of its last turn. `now`: seconds since the
    epoch.
    """
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
    """Kubernetes' own condition of a pod that is evicted, with our reason and our words.

    It is written once the Eviction API has taken the pod, for that writes the same condition with a reason of its own.
    `now`: seconds since the epoch.
    """
    return {
        "type": labels.DISRUPTED,
        "status": "True",
        "reason": labels.PREEMPTED_BY_GANG,
        "message": effect.message,
        "lastTransitionTime": rfc3339(now),
    }


def stem(name: str) -> str:
    """What the name of an event on an object of this name begins with."""
    return name[:_STEM].rstrip("-.") + "-"


def shortened(message: str) -> str:
    """The message within the API's limit, which counts bytes."""
    raw = message.encode("utf-8", "replace")
    if len(raw) <= NOTE_LIMIT:
        return raw.decode()
    return raw[: NOTE_LIMIT - 3].decode("utf-8", "ignore") + "…"
