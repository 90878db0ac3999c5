"""What people were told of a gang, and what they are still to be told.

Lives here: the notes, and how one gang or pod is called to another. Never here: when something is told, and in which
words (conditions).
"""

from dataclasses import dataclass
from typing import NamedTuple

from scheduler.model.workload import GangKey, Pod, Uid


@dataclass(slots=True)
class Notice:
    """The last time that people were told about a reason."""

    message: str
    at: float
    span: float
    since: float = 0.0
    """When they were first told these very words, in the ledger's time."""
    count: int = 0
    """How often since then."""
    uid: Uid = Uid("")
    """The member on which they were told."""


class Overlooked(NamedTuple):
    """Something that a member says and that has no effect: which field, and the sentence for people."""

    field: str
    text: str


class Failure(NamedTuple):
    """A write of a plan that the API server did not do, in words for people."""

    plan: str
    uid: Uid
    text: str


class GaveWay(NamedTuple):
    """The gang that it last gave way to."""

    gang: GangKey
    name: str
    """What people call that gang."""
    priority: int
    at: float
    """In the ledger's time."""


class Mishap(NamedTuple):
    """Something that befell a member, and that people are told once."""

    pod: Pod
    text: str
    """Name and all: `train-1 failed on n2`."""


def called(kind: str, name: str, uid: Uid, *, hidden: bool) -> str:
    """A gang or pod by its name; to a reader of another namespace, who may not know that, by the uid of a pod."""
    return f"a {kind} in another namespace (pod uid {uid})" if hidden else f"{kind} {name}"
