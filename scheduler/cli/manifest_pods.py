"""Manifests, and the pods that would follow from them.

Lives here: which part of which kind is a pod's template, and how many pods are made of it. Never here: what the pods
say of their gang (`objects`), or a call.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from scheduler.cli.options import a_namespace
from scheduler.elastic.controller.pod_template import Kit, Owner, Worker, manifest, problems
from scheduler.elastic.job.validation import decode_spec
from scheduler.errors import SettingsError
from scheduler.model.workload import Complaint
from scheduler.objects import api
from scheduler.objects.labels import ELASTIC_KIND
from scheduler.objects.owners import one_by_one
from scheduler.objects.watched_resources import RESOURCES

Thing: TypeAlias = dict[str, Any]

LARGEST: Final = 4 * 2**20
"""Bytes of a file that is read; the API server takes 3 MiB of one object at most."""

MOST: Final = 100_000
"""Pods of one manifest: more than any cluster has."""


LATER: Final = "those pods are made only when others of the gang are ready, and these wait for them"
APART: Final = f"give each replicated Job a gang of its own: {LATER}"


@dataclass(frozen=True, slots=True)
class Template:
    """Pods that are alike: `count` of them, called NAME-0 …, each like `pod`. maker: who makes them, KIND/NAME.

    A rule gives those of one object by what tells them apart: `name` and `after` are without the object's own name.
    """

    pod: Thing
    count: int
    name: str = ""
    namespace: str = ""
    maker: str = ""
    after: frozenset[str] = frozenset()
    """Names of templates whose pods must be ready before these are made; its own: they are made one by one."""
    awaits: Complaint | None = None
    """Field, value and remedy, where `after` is not empty."""
    claims: tuple[str, ...] = ()
    """Volumes that every pod gets beside those of its template, each a claim called CLAIM-POD."""

    def made_first(self, mates: Collection[str]) -> int:
        """How many of the pods are made before any pod of these templates is ready."""
        if self.name in self.after:
            return min(1, self.count)
        return 0 if self.after.intersection(mates) else self.count

    def names(self) -> list[str]:
        """What the pods are called here; most makers add a word of chance instead of a number."""
        return [self.name if self.maker.startswith("Pod/") else f"{self.name}-{n}" for n in range(self.count)]

    def pods(self) -> Iterator[api.Pod]:
        """The pods, as they would be seen. Raises SettingsError where a field has a wrong type."""
        _check_texts(self.pod.get("metadata"), self.maker)
        for name in self.names():
            meta = {**(self.pod.get("metadata") or {}), "name": name, "namespace": self.namespace}
            yield _built(api.Pod, {**self.pod, "metadata": meta, "spec": self.spec(name)}, self.maker)

    def spec(self, name: str) -> Any:
        """The spec of the pod of this name, with the volumes that its maker adds."""
        spec: Any = self.pod.get("spec") or {}
        said = _at(spec, "volumes") or []
        if not (self.claims and isinstance(spec, dict) and isinstance(said, list)):
            return spec
        kept = [volume for volume in said if _at(volume, "name") not in self.claims]
        added = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}}
            for claim in self.claims
        ]
        return {**spec, "volumes": [*kept, *added]}


def read(place: str) -> list[Thing]:
    """The documents of a file, of `-` for standard input, lists taken apart. Raises SettingsError."""
    try:
        text = sys.stdin.read(LARGEST + 1) if place == "-" else Path(place).read_text("utf-8")[: LARGEST + 1]
        if len(text) > LARGEST:
            raise SettingsError("-f", place, f"too long; at most {LARGEST // 2**20} MiB are read")
        found = list(yaml.safe_load_all(text))
    except OSError as error:
        raise SettingsError("-f", place, error.strerror or "cannot be read") from None
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise SettingsError("-f", place, f"is not YAML: {' '.join(str(error).split())}") from None
    things = [part for own in found if own is not None for part in _parts(own, place)]
    if not things:
        raise SettingsError("-f", place, "has no object in it")
    return things


def _parts(found: object, place: str) -> Iterator[Thing]:
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str) or "apiVersion" not in found:
        raise SettingsError(
            "-f", place, "every document must be a Kubernetes object, with apiVersion and kind"
        )
    if found["kind"].endswith("List") and isinstance(found.get("items"), list):
        for own in found["items"]:
            yield from _parts(own, place)
        return
    meta = found.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        remedy = "write a name, without which it cannot be applied again"
        raise SettingsError(f"{found['kind']}.metadata.name", _at(meta, "name"), remedy)
    yield found


def _at(found: object, key: str) -> object:
    return found.get(key) if isinstance(found, dict) else None


def templates(thing: Thing, namespace: str) -> list[Template]:
    """What pods follow from this object; none from kinds that are not known to make any. Raises SettingsError."""
    kind, meta = thing["kind"], thing["metadata"]
    maker = f"{kind}/{meta['name']}"
    inside = a_namespace(str(meta.get("namespace") or namespace))
    rule = _RULES.get(kind) or (_replica_specs if _has_replica_specs(thing) else None)
    if rule is None:
        return []
    try:
        made = list(rule(thing))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise SettingsError(maker, "its spec", f"is not that of a {kind}: its pods cannot be told") from None
    found = [
        replace(
            own,
            name=_joined(meta["name"], own.name),
            namespace=inside,
            maker=maker,
            after=frozenset(_joined(meta["name"], part) for part in own.after),
        )
        for own in made
    ]
    if sum(own.count for own in found) > MOST:
        raise SettingsError(maker, sum(own.count for own in found), f"more pods than {MOST}")
    return found


def _joined(name: str, part: str) -> str:
    return f"{name}-{part}" if part else name


def objects(thing: Thing, namespace: str) -> list[api.ApiObject]:
    """Beside its pods: the object itself, where it says something of them (a PodGroup). Raises SettingsError."""
    group = str(thing["apiVersion"])
    for row in RESOURCES:
        if thing["kind"] == "PodGroup" and row.path == f"/apis/{group}/podgroups":
            meta = {**thing["metadata"], "namespace": thing["metadata"].get("namespace") or namespace}
            return [_built(row.type, {**thing, "metadata": meta}, f"PodGroup/{meta['name']}")]
    return []


def _check_texts(meta: object, maker: str) -> None:
    """Raises SettingsError for a label or annotation that YAML does not read as a text, such as a bare number."""
    for place in ("labels", "annotations"):
        texts = _at(meta, place)
        for key, value in texts.items() if isinstance(texts, dict) else ():
            if not isinstance(value, str):
                said = str(value).lower() if isinstance(value, bool) else str(value)
                plain = isinstance(value, bool | int | float)
                remedy = f'write it in quotes: "{said}"' if plain else "write a text, in quotes"
                raise SettingsError(f"{maker}: {place}: {key}", value, remedy)


def _built(kind: type[Any], thing: Thing, maker: str) -> Any:
    try:
        return msgspec.convert(thing, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(maker, "its pods", str(error)) from None


def _pod(thing: Thing) -> Iterator[Template]:
    yield Template(thing, 1)


def _job(thing: Thing) -> Iterator[Template]:
    spec = thing["spec"]
    at_once = _count(spec.get("parallelism"))
    completions = spec.get("completions")
    yield Template(spec["template"], at_once if completions is None else min(at_once, _count(completions)))


def _cron_job(thing: Thing) -> Iterator[Template]:
    yield from _job(thing["spec"]["jobTemplate"])


def _replicas(thing: Thing) -> Iterator[Template]:
    yield Template(thing["spec"]["template"], _count(thing["spec"].get("replicas")))


def _stateful_set(thing: Thing) -> Iterator[Template]:
    spec = thing["spec"]
    awaits = one_by_one(str(spec.get("podManagementPolicy") or "OrderedReady"))
    claims = tuple(str(claim["metadata"]["name"]) for claim in spec.get("volumeClaimTemplates") or ())
    for own in _replicas(thing):
        yield replace(own, after=frozenset({""}) if awaits else frozenset(), awaits=awaits, claims=claims)


def _job_set(thing: Thing) -> Iterator[Template]:
    """A replicated Job may be made only once others are ready: all those before it, or those that it names."""
    spec = thing["spec"]
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    after: dict[str, frozenset[str]] = {}
    for own in spec["replicatedJobs"]:
        name = own["name"]
        named = [other["name"] for other in own.get("dependsOn") or ()]
        after[name] = frozenset(after if in_order else named).union(*(after.get(one, ()) for one in named))
        field, value = f"spec.replicatedJobs[{name}].dependsOn", ", ".join(named)
        remedy = f"leave it out, or {APART}"
        if in_order:
            field, value = "spec.startupPolicy.startupPolicyOrder", "InOrder"
            remedy = f"write AnyOrder, or {APART}"
        awaits = Complaint(field, value, remedy, fatal=False) if after[name] else None
        for one in _job(own["template"]):
            count = one.count * _count(own.get("replicas"))
            yield replace(one, count=count, name=name, after=after[name], awaits=awaits)


def _elastic_job(thing: Thing) -> Iterator[Template]:
    """Its quorum, as the elastic master makes it; surplus comes later, where there is room."""
    owner = Owner("", str(thing["metadata"]["name"]), "")
    spec, wrong = decode_spec(thing.get("spec"))
    found = wrong or (problems(owner, spec) if spec else ())
    if spec is None or found:
        raise SettingsError(found[0].field, found[0].value, found[0].remedy)
    yield Template(manifest(owner, spec, Worker(owner.name, 0), Kit("", "")), spec.min_workers)


def _has_replica_specs(thing: Thing) -> bool:
    spec = thing.get("spec")
    return isinstance(spec, dict) and any(key.endswith("ReplicaSpecs") for key in spec)


def _replica_specs(thing: Thing) -> Iterator[Template]:
    """Kubeflow's training jobs: a mapping from role to replicas and template."""
    policy = thing["spec"].get("launcherCreationPolicy")
    for key, roles in thing["spec"].items():
        if key.endswith("ReplicaSpecs"):
            for role, own in roles.items():
                made = Template(own["template"], _count(own.get("replicas")), role.lower())
                if policy == "WaitForWorkersReady" and role == "Launcher":
                    remedy = (
                        f"write AtStartup, or leave the gang's label off the launcher's template: {LATER}"
                    )
                    awaits = Complaint("spec.launcherCreationPolicy", policy, remedy, fatal=False)
                    made = replace(made, after=frozenset({"worker"}), awaits=awaits)
                yield made


def _count(said: object) -> int:
    """A number of pods; one where none is said."""
    if said is None:
        return 1
    if not isinstance(said, int) or isinstance(said, bool) or said < 0:
        raise ValueError(said)
    return said


_RULES: Final[Mapping[str, Callable[[Thing], Iterator[Template]]]] = {
    "Pod": _pod,
    "Job": _job,
    "CronJob": _cron_job,
    "JobSet": _job_set,
    ELASTIC_KIND: _elastic_job,
    "StatefulSet": _stateful_set,
    **dict.fromkeys(("Deployment", "ReplicaSet", "ReplicationController"), _replicas),
}
