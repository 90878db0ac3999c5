"""A snapshot: all facts about a cluster that decisions depend on, at one moment, as JSON.

Lives here: the format. Its facts are the model's own values, so nothing is translated or lost. Never here: verdicts,
which are computed again. The state of a running scheduler (backoffs, excluded nodes, estimates) is not included: it is
a snapshot of the cluster, not of a process.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Final, Literal

import msgspec

from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.neighbors import labels_text, read_labels
from scheduler.model.policy import Policy
from scheduler.model.workload import Budget, Group, OwnerTraits, Pod, Quota

VERSION: Final = 3
"""The version of the format. A reader accepts only its own version, because later versions may decide differently.

Version 1 has another spelling of `Pod.unmodeled`. Versions 1 and 2 have no rules about neighbors and no namespaces.
"""


class InvalidSnapshot(ValueError):  # noqa: N818 - never leaves the edges that read a file
    """These bytes are not a snapshot. The text names the problem and its place."""


class _Head(msgspec.Struct, frozen=True):
    kind: str
    version: int


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment.  taken: seconds since the epoch.  pods: in the order in which they were first seen."""

    kind: Literal["GangwrightSnapshot"] = "GangwrightSnapshot"
    version: int = VERSION
    gangwright: str
    """The version of Gangwright that created it."""
    taken: float
    redacted: bool = False
    policy: Policy
    nodes: tuple[Node, ...] = ()
    groups: tuple[Group, ...] = ()
    owners: tuple[OwnerTraits, ...] = ()
    quotas: tuple[Quota, ...] = ()
    budgets: tuple[Budget, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """By name, their labels that a selector reads."""
    pods: tuple[Pod, ...] = ()

    def events(self) -> list[ev.Event]:
        """The facts of the document as events. Pods come last, so that the objects that they refer to are known first."""
        return [
            *map(ev.NodeSeen, self.nodes),
            *map(ev.GroupSeen, self.groups),
            *map(ev.OwnerSeen, self.owners),
            *map(ev.QuotaSeen, self.quotas),
            *map(ev.BudgetSeen, self.budgets),
            *(ev.NamespaceSeen(name, labels) for name, labels in self.namespaces.items()),
            *map(ev.PodSeen, self.pods),
        ]


_HEAD: Final = msgspec.json.Decoder(_Head)
_DOCUMENT: Final = msgspec.json.Decoder(Document)


def document(events: Iterable[ev.Event], policy: Policy, now: float, gangwright: str) -> Document:
    """The document with the facts of these events. The last event about a pod or a node applies. Only labels that
    disruption budgets or other pods' rules read are kept.
    """
    told = list(events)
    budgets = tuple(event.budget for event in told if isinstance(event, ev.BudgetSeen))
    pods = {event.pod.uid: event.pod for event in told if isinstance(event, ev.PodSeen)}
    selectors = {own for pod in pods.values() for own in pod.neighbors.selectors}
    named = {own.key for budget in budgets for own in budget.selector or ()}
    named |= {key for selector in selectors for key in selector.keys}
    of_namespaces = {own.key for selector in selectors for own in selector.namespace_labels or ()}
    namespaces = {event.name: event.labels for event in told if isinstance(event, ev.NamespaceSeen)}
    nodes = {event.node.name: event.node for event in told if isinstance(event, ev.NodeSeen)}
    return Document(
        gangwright=gangwright,
        taken=now,
        policy=policy,
        nodes=tuple(nodes.values()),
        groups=tuple(event.group for event in told if isinstance(event, ev.GroupSeen)),
        owners=tuple(event.traits for event in told if isinstance(event, ev.OwnerSeen)),
        quotas=tuple(event.quota for event in told if isinstance(event, ev.QuotaSeen)),
        budgets=budgets,
        namespaces={
            name: {key: value for key, value in labels.items() if key in of_namespaces}
            for name, labels in namespaces.items()
            if labels is not None and of_namespaces
        },
        pods=tuple(replace(pod, labels=_only(pod.labels, named)) for pod in pods.values()),
    )


def _only(labels: str, named: Container[str]) -> str:
    return labels_text({key: value for key, value in read_labels(labels).items() if key in named})


def encode(found: Document) -> bytes:
    """The document as JSON. Equal documents are equal bytes."""
    return msgspec.json.encode(found, order="deterministic")


def decode(text: bytes) -> Document:
    """The document that `encode` wrote. Raises InvalidSnapshot, which names the problem and its place."""
    try:
        head = _HEAD.decode(text)
        if head.kind != "GangwrightSnapshot":
            raise InvalidSnapshot(f"kind: must be 'GangwrightSnapshot', not {head.kind[:64]!r}")
        if head.version != VERSION:
            raise InvalidSnapshot(f"version: must be {VERSION}, not {head.version}; take a new snapshot")
        return _DOCUMENT.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        whole = isinstance(error, msgspec.ValidationError)
        raise InvalidSnapshot(str(error) if whole else f"{error} (of {len(text)} bytes)") from error
