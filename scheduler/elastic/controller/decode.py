"""API objects as the master reads them: events of a job, the spec that applies to it, and why a node is being drained.

Lives here: which fields count. Never here: the consequences, or the validation of a spec (`job.validation`,
`pod_template`). Decoding creates nothing that is not declared.
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
"""Reasons of a waiting container that a user has to fix, as the kubelet names them. All others pass by themselves."""

OOM: Final = "OOMKilled"
PLAIN: Final = frozenset({"", "Error", "Completed", "ContainerStatusUnknown"})
"""Reasons of a container's end that add nothing to its exit code."""

WORDS: Final = 192
"""Characters to keep of a message from Kubernetes: head and tail, because a runtime names the fault last."""

ENDED: Final = frozenset({"Succeeded", "Failed"})
"""Phases of a pod whose processes have ended."""


class Meta(msgspec.Struct, rename="camel"):
    """Metadata of an ElasticJob."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None


class Job(msgspec.Struct):
    """An ElasticJob as received; `elastic.job` decodes spec and status."""

    metadata: Meta
    spec: Any = None
    status: Any = None

    @property
    def owner(self) -> Owner:
        return Owner(self.metadata.namespace, self.metadata.name, self.metadata.uid)


class AcceptedSpec:
    """The spec that applies to one job: the wanted one, or, while that is rejected, the one accepted last.

    A user may write a spec that no schema rejects, while a job trains or while no master runs. A newer master may also
    reject what its predecessor accepted. The job's losses and its end must be handled all the same, so the accepted
    spec is kept in the job's status. problems: validates a decoded spec. refused: called for each rejected one.
    """

    def __init__(self, problems: Callable[[Spec], tuple[Problem, ...]], refused: Callable[[], None]) -> None:
        self.spec: Spec | None = None
        self.written: Any = None
        """`spec` as written, for the status; None if it is too long or too deep to be kept."""
        self._problems = problems
        self._refused = refused

    def read(self, job: Job) -> Iterator[SpecSeen | SpecRefused]:
        """Events about the spec for the reconciler. If none was accepted so far, the first event has the one that the
        previous master accepted last.
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
                self.written = written  # the newer master that accepted it may come back
        yield SpecRefused(found, job.metadata.generation)

    def forget(self) -> None:
        """Forget the spec; it is read again."""
        self.spec = self.written = None

    def _take(self, spec: Spec, written: Any, job: Job) -> SpecSeen:
        self.spec, self.written = spec, copied(written)
        return SpecSeen(spec, job.metadata.generation)


class Known(NamedTuple):
    """A worker's pod: its owner, and what is reported about it."""

    owner: Owner
    """The ElasticJob in its owner reference, of its own namespace, because no other can own it."""
    seen: WorkerSeen
    quorum: str
    """The quorum of the gang in its annotation."""


def known(pod: api.Pod) -> Known | None:
    """The worker that this pod is; None for any other pod, whatever its labels say."""
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
    """Why its containers do not start, if a user has to fix it."""
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason in HINDRANCES:
            return _told(waiting.reason, abridged(waiting.message, WORDS))
    return ""


def _cause(pod: api.Pod) -> tuple[str, bool]:
    """Why it ended, and whether that is only the exit of a process, which the agent reports better.

    The reason of the pod as a whole comes first, then those of its containers: out of memory, any other reason, an exit
    code. Init containers come last, because the training container ends before those that support it.
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
    how = f": {abridged(end.message, WORDS)}" if end.message else f" exited with code {end.exit_code}"
    return _told(shortened(end.reason, 64), who + how), end.reason in PLAIN


def _memory(spec: api.PodSpec, own: api.ContainerStatus) -> str:
    """Which limit it exceeded. After an in-place resize the current one may differ from the template's."""
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
    """Why this node is about to be drained; empty if it is not. taints: keys that indicate it."""
    if node.metadata.deletion_timestamp is not None:
        return "being deleted"
    found = {taint.key for taint in node.spec.taints or ()}
    named = next((key for key in taints if key in found), "")
    if named:
        return f"tainted with {named}"
    return "cordoned" if node.spec.unschedulable else ""
