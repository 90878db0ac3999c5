"""Records of what was reported about a gang, and of what is still unreported.

Lives here: the records, and how messages name another gang or pod. Never here: when something is reported, and its text
(conditions).
"""

from dataclasses import dataclass
from typing import NamedTuple

from scheduler.model.workload import GangKey, Pod, Uid


@dataclass(slots=True)
class Notice:
    """The last report of a reason."""

    message: str
    at: float
    span: float
    since: float = 0.0
    """When this exact message was first reported, in the ledger's time."""
    count: int = 0
    """How often since then."""
    uid: Uid = Uid("")
    """The member that carried it."""


class Overlooked(NamedTuple):
    """A setting of a member that has no effect: its field and the message."""

    field: str
    text: str


class Failure(NamedTuple):
    """A plan's write that the API server rejected, as a message."""

    plan: str
    uid: Uid
    text: str


class GaveWay(NamedTuple):
    """The gang that preempted it last."""

    gang: GangKey
    name: str
    """The displayed name of that gang."""
    priority: int
    at: float
    """In the ledger's time."""


class Mishap(NamedTuple):
    """Something that happened to a member, reported once."""

    pod: Pod
    text: str
    """Including its name: `train-1 failed on n2`."""


def called(kind: str, name: str, uid: Uid, *, hidden: bool) -> str:
    """The name of a gang or pod. For readers in another namespace, who may not see it, the uid of a pod."""
    return f"a {kind} in another namespace (pod uid {uid})" if hidden else f"{kind} {name}"
