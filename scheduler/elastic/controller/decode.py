"""API objects as the master reads them: events of a job, the spec that it goes by, and why a node is about to go.

Lives here: which fields count. Never here: what follows, or what is wrong with a spec (`job.validation`,
`pod_template`). Decoding builds nothing that is not declared.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.elastic.controller.pod_template import CORE, SURPLUS, Owner
from scheduler.elastic.job.spec import Problem, Spec
from scheduler.elastic.job.status_json import accepted_spec, copied
from scheduler.elastic.job.validation import decode_spec, lowered
from scheduler.elastic.reconciler.job_events import SpecRefused, SpecSeen, WorkerSeen
from scheduler.errors import abridged, shortened
from scheduler.objects import api, labels, times

HINDRANCES: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RegistryUnavailable",
        "RunContainerError",
        "SignatureValidationFailed",
    }
)
"""Reasons of a waiting container that a person must mend; kubelet's own words. All others pass by themselves."""

OOM: Final = "OOMKilled"
PLAIN: Final = frozenset({"", "Error", "Completed", "ContainerStatusUnknown"})
"""Reasons of a container's end that say no more than its exit code."""

WORDS: Final = 192
"""Characters of a message of Kubernetes' that are kept: head and tail, for a runtime names the fault last."""

ENDED: Final = frozenset({"Succeeded", "Failed"})
"""Phases of a pod whose processes are gone."""


class Meta(msgspec.Struct, rename="camel"):
    """The head of an ElasticJob."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None


class Job(msgspec.Struct):
    """An ElasticJob as it came: spec and status are read by `elastic.job`."""

    metadata: Meta
    spec: Any = None
    status: Any = None

    @property
    def owner(self) -> Owner:
        return Owner(self.metadata.namespace, self.metadata.name, self.metadata.uid)


class AcceptedSpec:
    """The spec that one job goes by: as wanted, or, while that is refused, as it was accepted last.

    A user may write what no schema refuses while a job trains, or while no master runs; and a newer master may refuse
    what the one before took. The job's losses and its end have to be seen to all the same, so what was accepted is kept
    in the job's status. problems: what is wrong with a spec that can be read. refused: called for each that is.
    """

    def __init__(self, problems: Callable[[Spec], tuple[Problem, ...]], refused: Callable[[], None]) -> None:
        self.spec: Spec | None = None
        self.written: Any = None
        """`spec` as somebody wrote it, for the status; None where it is too long, or too deep, to be kept."""
        self._problems = problems
        self._refused = refused

    def read(self, job: Job) -> Iterator[SpecSeen | SpecRefused]:
        """What its reconciler is to hear of the spec: where none was accepted before, first of the one that the master
        before us accepted last.
        """
        spec, wrong = decode_spec(job.spec)
        found = wrong or (self._problems(spec) if spec else ())
        if spec is not None and not found:
            yield self._take(spec, job.spec, job)
            return
        self._refused()
        if self.spec is None:
            written = lowered(accepted_spec(job.status))
            former, _ = decode_spec(written)
            if former is not None:
                yield self._take(former, written, job)
            else:
                self.written = written  # a newer master, which accepted it, may come back
        yield SpecRefused(found, job.metadata.generation)

    def forget(self) -> None:
        """What the job goes by is read again."""
        self.spec = self.written = None

    def _take(self, spec: Spec, written: Any, job: Job) -> SpecSeen:
        self.spec, self.written = spec, copied(written)
        return SpecSeen(spec, job.metadata.generation)


class Known(NamedTuple):
    """A worker's pod: whose it is, and what is told of it."""

    owner: Owner
    """The ElasticJob that it says it is of; one of its own namespace, for no other can own it."""
    seen: WorkerSeen
    quorum: str
    """What it says of the gang's quorum."""


def known(pod: api.Pod) -> Known | None:
    """The worker that this pod is; None for any other pod, whatever its labels claim."""
    meta = pod.metadata
    said = meta.labels or {}
    owner = next((own for own in meta.owner_references or () if own.controller), None)
    if owner is None or owner.kind != labels.ELASTIC_KIND or not owner.api_version.startswith(labels.OURS):
        return None
    if said.get(labels.ELASTIC_JOB) != owner.name:
        return None
    notes = meta.annotations or {}
    cause, plain = _cause(pod)
    seen = WorkerSeen(
        uid=meta.uid,
        name=meta.name,
        node=pod.spec.node_name,
        role=SURPLUS if said.get(labels.ELASTIC_ROLE) == SURPLUS else CORE,
        phase=pod.status.phase or "Pending",
        gated=any(gate.name == labels.GATE for gate in pod.spec.scheduling_gates or ()),
        deleting=meta.deletion_timestamp is not None,
        waiting=_hindrance(pod.status),
        cause=cause,
        plain=plain,
        number=_whole(notes.get(labels.ELASTIC_NUMBER, "")),
        since=times.known(meta.creation_timestamp),
        avoids=tuple(filter(None, notes.get(labels.ELASTIC_AVOIDS, "").split(","))),
    )
    return Known(Owner(meta.namespace, owner.name, owner.uid), seen, notes.get(labels.MIN_MEMBERS, ""))


def _hindrance(status: api.PodStatus) -> str:
    """Why its containers do not start, when it takes a person to mend that."""
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason in HINDRANCES:
            return _told(waiting.reason, abridged(waiting.message, WORDS))
    return ""


def _cause(pod: api.Pod) -> tuple[str, bool]:
    """Why it ended, and whether that is the end of a process and no more, which the agent tells better.

    What Kubernetes says of the pod as a whole, else of its containers: want of memory, any other reason, an exit code.
    A container that trained ends before those that were there for it, so an init container comes last.
    """
    status = pod.status
    if status.reason:
        return _told(shortened(status.reason, 64), abridged(status.message, WORDS)), False
    ends = [
        (end, own, kind)
        for kind, every in (
            ("container", status.container_statuses),
            ("init container", status.init_container_statuses),
        )
        for own in every or ()
        if (end := own.state.terminated if own.state else None) is not None and end.exit_code != 0
    ]
    if not ends:
        return "", False
    end, own, kind = min(ends, key=lambda one: (one[0].reason != OOM, one[0].reason in PLAIN))
    who = f"{kind} {own.name}"
    if end.reason == OOM:
        return f"{OOM}: {who} {_memory(pod.spec, own)}", False
    how = f": {abridged(end.message, WORDS)}" if end.message else f" ended with code {end.exit_code}"
    return _told(shortened(end.reason, 64), who + how), end.reason in PLAIN


def _memory(spec: api.PodSpec, own: api.ContainerStatus) -> str:
    """Which limit it exceeded. The one in force may differ from the template's, after a resize in place."""
    written = next(
        (one for one in (*(spec.containers or ()), *(spec.init_containers or ())) if one.name == own.name),
        None,
    )
    for whose, what in (
        ("its", own.resources),
        ("its", written.resources if written else None),
        ("its pod's", spec.resources),
    ):
        limit = (what.limits or {}).get("memory") if what else None
        if limit is not None:
            return f"exceeded {whose} memory limit of {limit}"
    return "has no memory limit, and was killed when its node ran out of memory"


def _told(reason: str, message: str) -> str:
    return ": ".join(filter(None, (reason, message)))


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def doom(node: api.Node, taints: Iterable[str]) -> str:
    """Why this node is about to be emptied; empty when it is not. taints: keys that say so."""
    if node.metadata.deletion_timestamp is not None:
        return "the node is being deleted"
    found = {taint.key for taint in node.spec.taints or ()}
    named = next((key for key in taints if key in found), "")
    if named:
        return f"taint {named}"
    return "cordoned" if node.spec.unschedulable else ""
