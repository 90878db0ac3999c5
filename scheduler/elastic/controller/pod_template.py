"""A worker's pod, built from its job's template: pure.

Lives here: what the master adds to every worker: the gang's labels, the gate, the agent delivered by an init container,
the environment that the agent reads, and the token that authenticates the worker. Never here: when a worker is created,
or a call.

The master's fields override the template: volumes and containers with the prefix `gangwright-`, variables that identify
the worker, the scheduler, the restart policy. All labels and annotations under `gangwright.io/` are reserved for the
master. The scheduler, and the master itself, identify workers by them, so a template that has one is rejected. The rest
of the template is unchanged.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from scheduler.elastic.job.spec import Problem, Spec
from scheduler.errors import shortened
from scheduler.objects import labels
from scheduler.settings import Workers

Thing: TypeAlias = dict[str, Any]

FOLDER: Final = "/gangwright"
ARCHIVE: Final = f"{FOLDER}/agent.pyz"
"""Path of the agent in the worker."""

TOKEN_FOLDER: Final = "/var/run/secrets/gangwright"  # noqa: S105 - a path, not a token
TOKEN: Final = "token"  # noqa: S105 - a file name
AGENT: Final = "gangwright-agent"
"""Name of the init container that delivers the agent, and of the volume that holds it."""

TOKEN_VOLUME: Final = "gangwright-token"  # noqa: S105 - a volume's name
ARCHIVE_ROOM: Final = "16Mi"
"""Size limit of the volume; the archive takes a hundredth of it."""

INSTALL: Final = ("python", "-m", "scheduler.elastic.agent.archive", ARCHIVE)
"""Command of the init container, in Gangwright's own image. Not the command line, whose imports would delay workers."""

INSTALL_ROOM: Final = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
"""The container ends before the worker starts, so it adds nothing to the pod's total requests."""

LONGEST_JOB: Final = 63
"""Maximum length of a job's name, because it is a label of its workers."""

CORE: Final = "core"
SURPLUS: Final = "surplus"

CHOICES: Final = frozenset({"GANGWRIGHT_IFACE", "GANGWRIGHT_GLOO_TIMEOUT"})
"""Variables that are written only if the template does not set them. The template may also set variables of the agent
that are never written here."""

FILLED_IN: Final = {
    "GANGWRIGHT_POD": "metadata.name",
    "GANGWRIGHT_POD_UID": "metadata.uid",
    "GANGWRIGHT_POD_IP": "status.podIP",
    "GANGWRIGHT_NODE": "spec.nodeName",
}
"""Variables that the kubelet fills in from fields of the pod."""

MOUNTS: Final = (
    {"name": AGENT, "mountPath": FOLDER, "readOnly": True},
    {"name": TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True},
)

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_NAME: Final = "metadata.name"


class Owner(NamedTuple):
    """The ElasticJob."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def selector(self) -> str:
        """The label selector that matches its workers and no other pods."""
        return f"{labels.ELASTIC_JOB}={self.name}"


class Worker(NamedTuple):
    """A worker to be created."""

    name: str
    number: int
    role: str = CORE
    avoid: tuple[str, ...] = ()
    """Nodes that it must not be bound to."""


@dataclass(frozen=True, slots=True)
class Kit:
    """What the workers of all jobs share."""

    master: str
    """`https://HOST:PORT` of the rendezvous."""
    ca: str
    """PEM of the authority that issued its certificate."""
    scheduler: str = "gangwright"
    audience: str = "gangwright-elastic"
    settings: Workers = Workers()

    @property
    def port(self) -> int:
        """Port of the rendezvous."""
        return urlsplit(self.master).port or 443


def worker_name(job: str, number: int, chance: str) -> str:
    """The pod's name. `chance`: a few random letters, so that no name is reused after a restart of the master."""
    return f"{job}-{number}-{chance}"


def problems(owner: Owner, spec: Spec) -> tuple[Problem, ...]:
    """Why this job's template cannot be used for workers."""
    return tuple(_mistakes(owner, spec.template)) or _unfit(owner, spec)


def _mistakes(owner: Owner, template: Thing) -> Iterator[Problem]:
    if len(owner.name) > LONGEST_JOB:
        remedy = f"must have at most {LONGEST_JOB} characters, because it is a label of the job's workers"
        yield Problem("metadata.name", owner.name, remedy)
    pod, metadata = _object(template.get("spec")), _object(template.get("metadata"))
    written = pod.get("containers")
    first = written[0] if isinstance(written, list) and written else None
    command = _object(first).get("command")
    if not isinstance(first, dict):
        remedy = "the first container trains; it must be an object with name, image and command"
        yield Problem.of("spec.template.spec.containers", written, remedy)
    elif not (isinstance(command, list) and command and all(isinstance(word, str) for word in command)):
        remedy = "is required, for example [python, train.py]; the agent runs it and does not know the image's command"
        yield Problem.of("spec.template.spec.containers[0].command", command, remedy)
    grace = pod.get("terminationGracePeriodSeconds")
    if grace is not None and not (type(grace) is int and grace >= 1):
        remedy = "must be at least 1 whole second, in which a worker leaves cleanly, or be removed"
        yield Problem.of("spec.template.spec.terminationGracePeriodSeconds", grace, remedy)
    remedy = f"remove it; names that begin with {labels.OURS} are reserved for the elastic master"
    for kind in ("labels", "annotations"):
        said = _object(metadata.get(kind))
        for key in sorted(filter(_ours, said)):
            yield Problem.of(f"spec.template.metadata.{kind}[{shortened(key, 96)}]", said[key], remedy)


def _object(written: object) -> Mapping[str, Any]:
    """The object, or an empty one if it is something else."""
    return written if isinstance(written, dict) else {}


def _ours(key: str) -> bool:
    return key.startswith(labels.OURS)


def _unfit(owner: Owner, spec: Spec) -> tuple[Problem, ...]:
    """Any other fault of a template that cannot become a pod."""
    try:
        manifest(owner, spec, Worker("probe", 0, SURPLUS, avoid=("node",)), Kit("", ""))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        said = shortened(f"{type(error).__name__}: {error}", 64)
        return (Problem("spec.template", said, "must be a PodTemplateSpec, as in a Job"),)
    return ()


def manifest(owner: Owner, spec: Spec, worker: Worker, kit: Kit) -> Thing:
    """The Pod. Raises TypeError, ValueError, LookupError or AttributeError for an invalid template."""
    template = dict(spec.template)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(dict(template.get("metadata") or {}), owner, spec, worker),
        "spec": _spec(dict(template["spec"]), owner, spec, worker, kit),
    }


def _metadata(written: Thing, owner: Owner, spec: Spec, worker: Worker) -> Thing:
    return {
        "name": worker.name,
        "namespace": owner.namespace,
        "labels": {
            **_theirs(written.get("labels")),
            labels.GANG: owner.name,
            labels.ELASTIC_JOB: owner.name,
            labels.ELASTIC_ROLE: worker.role,
            **({labels.SURPLUS: "true"} if worker.role == SURPLUS else {}),
        },
        "annotations": {**_theirs(written.get("annotations")), **_annotations(spec, worker)},
        "ownerReferences": [reference(owner)],
    }


def _theirs(written: Mapping[str, Any] | None) -> Thing:
    return {key: value for key, value in dict(written or {}).items() if not _ours(key)}


def reference(owner: Owner) -> Thing:
    """The owner reference to the ElasticJob, so that the object is deleted with it."""
    return {
        "apiVersion": f"{labels.OURS}v1alpha1",
        "kind": labels.ELASTIC_KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _annotations(spec: Spec, worker: Worker) -> dict[str, str]:
    """The gang's annotations for the scheduler."""
    said: dict[str, str | None] = {
        labels.MIN_MEMBERS: str(spec.min_workers),
        labels.ELASTIC_NUMBER: str(worker.number),
        labels.STRATEGY: spec.strategy,
        labels.LEVEL: spec.level,
        labels.LEVEL_REQUIRED: "true" if spec.level_required else None,
        labels.ELASTIC_AVOIDS: ",".join(worker.avoid) or None,
    }
    return {key: str(value) for key, value in said.items() if value is not None}


def _spec(written: Thing, owner: Owner, spec: Spec, worker: Worker, kit: Kit) -> Thing:
    first, *others = written["containers"]
    grace = written.get("terminationGracePeriodSeconds")
    grace = round(kit.settings.grace) if grace is None else grace
    ours = {
        "schedulerName": kit.scheduler,
        "schedulingGates": [*_unlike(written.get("schedulingGates"), labels.GATE), {"name": labels.GATE}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace,
        "containers": [_trainer(dict(first), owner, spec, kit, grace), *others],
        "initContainers": [_install(kit), *_unlike(written.get("initContainers"), AGENT)],
        "volumes": [*_unlike(written.get("volumes"), AGENT, TOKEN_VOLUME), *_volumes(kit)],
    }
    # A worker needs no token of the API server, and no variables for each Service.
    whole = {"automountServiceAccountToken": False, "enableServiceLinks": False, **written, **ours}
    whole.pop("nodeName", None)  # the API rejects it together with a gate
    if worker.avoid:
        whole["affinity"] = _avoiding(dict(whole.get("affinity") or {}), worker.avoid)
    if worker.role == SURPLUS:
        whole["priorityClassName"] = spec.surplus_priority_class_name
        for key in ("priority", "preemptionPolicy"):  # admission derived them from the template's own class
            whole.pop(key, None)
    return whole


def _unlike(things: list[Thing] | None, *names: str) -> list[Thing]:
    return [thing for thing in things or () if thing.get("name") not in names]


# The container that trains


def _trainer(container: Thing, owner: Owner, spec: Spec, kit: Kit, grace: int) -> Thing:
    return {
        **container,
        "command": [kit.settings.interpreter, ARCHIVE, "--", *(container.get("command") or ())],
        "env": _environment(container.get("env") or [], owner, spec, kit, grace),
        "volumeMounts": [*_unlike(container.get("volumeMounts"), AGENT, TOKEN_VOLUME), *MOUNTS],
    }


def _environment(written: list[Thing], owner: Owner, spec: Spec, kit: Kit, grace: int) -> list[Thing]:
    """The master's variables come first, so that the template's own may refer to them."""
    values = {
        "GANGWRIGHT_MASTER": kit.master,
        "GANGWRIGHT_JOB": owner.key,
        "GANGWRIGHT_JOB_UID": owner.uid,
        "GANGWRIGHT_CA": kit.ca,
        "GANGWRIGHT_TOKEN_FILE": f"{TOKEN_FOLDER}/{TOKEN}",
        "GANGWRIGHT_GRACE": str(grace),
        "GANGWRIGHT_CHECKPOINT": spec.checkpoint.path,
        "GANGWRIGHT_CHECKPOINT_EVERY": f"{spec.checkpoint.every:g}",
        "GANGWRIGHT_GLOO_TIMEOUT": f"{kit.settings.gloo_timeout:g}",
        "GANGWRIGHT_IFACE": kit.settings.interface,
    }
    said = {variable["name"] for variable in written} & CHOICES
    ours: list[Thing] = [{"name": name, "value": value} for name, value in values.items() if name not in said]
    ours += [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in FILLED_IN.items()
    ]
    names = {own["name"] for own in ours}
    return [*ours, *(own for own in written if own["name"] not in names)]


# The agent and the token


def _install(kit: Kit) -> Thing:
    return {
        "name": AGENT,
        "image": kit.settings.image,
        "imagePullPolicy": kit.settings.pull_policy.value,
        "command": [*INSTALL],
        "resources": INSTALL_ROOM,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": AGENT, "mountPath": FOLDER}],
    }


def _volumes(kit: Kit) -> list[Thing]:
    token = {"path": TOKEN, "audience": kit.audience, "expirationSeconds": round(kit.settings.token_life)}
    return [
        {"name": AGENT, "emptyDir": {"sizeLimit": ARCHIVE_ROOM}},
        {"name": TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}},
    ]


# Nodes to avoid


def _avoiding(affinity: Thing, nodes: tuple[str, ...]) -> Thing:
    """The same affinity, without these nodes. Terms are alternatives, so each of them must exclude every node."""
    node = dict(affinity.get("nodeAffinity") or {})
    written = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    # The API allows one value for each requirement here.
    without = [{"key": _NODE_NAME, "operator": "NotIn", "values": [name]} for name in nodes]
    terms = [_narrowed(term, without) for term in written] if written else [{"matchFields": without}]
    return {**affinity, "nodeAffinity": {**node, _REQUIRED: {"nodeSelectorTerms": terms}}}


def _narrowed(term: Thing, without: list[Thing]) -> Thing:
    """A term without conditions matches no node, and must stay that way."""
    more = {"matchFields": [*(term.get("matchFields") or ()), *without]}
    return term | more if any(term.values()) else term
