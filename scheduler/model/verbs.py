"""The extender endpoints' calls and answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler.model.decision import Reason
from scheduler.model.workload import PodKey, Uid

MAX_SCORE: Final = 10
"""kube-scheduler's MaxExtenderPriority. It multiplies a score by 10 and by the extender's weight."""


@dataclass(frozen=True, slots=True)
class _Call:
    """The pod of every call."""

    uid: Uid
    key: PodKey
    scheduler: str
    native_group: bool


@dataclass(frozen=True, slots=True)
class FilterCall(_Call):
    """Which candidates fit this pod?"""

    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Allowed:
    """These nodes fit. Every other candidate is rejected for a constant reason."""

    nodes: tuple[str, ...]
    reason: Reason
    otherwise: Reason = Reason.NODE_RESERVED


@dataclass(frozen=True, slots=True)
class Refused:
    """None fits now, and preemption by kube-scheduler would not help."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer is possible. kube-scheduler retries on its own schedule."""

    reason: Reason


Answer: TypeAlias = Allowed | Refused | Failed


@dataclass(frozen=True, slots=True)
class PrioritizeCall(_Call):
    """How good is each candidate for this pod?"""

    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods of one node that kube-scheduler would delete for the preemptor."""

    uids: tuple[Uid, ...]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptCall(_Call):
    """May these victims be preempted for this pod? An empty tuple of uids is valid from 1.38 on."""

    candidates: Mapping[str, Victims]
