"""Manifests, and the pods that would follow from them.

Lives here: which part of which kind is a pod's template, and how many pods are made of it. Never here: what the pods
say of their gang (`objects`), or a call.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from scheduler.cli.options import a_namespace
from scheduler.elastic.job.decode import decode_spec
from scheduler.elastic.workers import Kit, Owner, Worker, manifest, problems
from scheduler.errors import SettingsError
from scheduler.objects import api
from scheduler.objects.labels import ELASTIC_KIND
from scheduler.objects.resources import RESOURCES

Thing: TypeAlias = dict[str, Any]

LARGEST: Final = 4 * 2**20
"""Bytes of a file that is read; the API server takes 3 MiB of one object at most."""

MOST: Final = 100_000
"""Pods of one manifest: more than any cluster has."""


@dataclass(frozen=True, slots=True)
class Template:
    """Pods that are alike: `count` of them, called NAME-0 …, each like `pod`. maker: who makes them, KIND/NAME."""

    pod: Thing
    count: int
    name: str
    namespace: str
    maker: str

    def names(self) -> list[str]:
        """What the pods are called here; most makers add a word of chance instead of a number."""
        return [self.name if self.maker.startswith("Pod/") else f"{self.name}-{n}" for n in range(self.count)]

    def pods(self) -> Iterator[api.Pod]:
        """The pods, as they would be seen. Raises SettingsError where a field has a wrong type."""
        _check_texts(self.pod.get("metadata"), self.maker)
        for name in self.names():
            meta = {**(self.pod.get("metadata") or {}), "name": name, "namespace": self.namespace}
            yield _built(api.Pod, {**self.pod, "metadata": meta}, self.maker)


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
        Template(pod, count, "-".join(filter(None, (meta["name"], part))), inside, maker)
        for part, pod, count in made
    ]
    if sum(own.count for own in found) > MOST:
        raise SettingsError(maker, sum(own.count for own in found), f"more pods than {MOST}")
    return found


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


_Made: TypeAlias = tuple[str, Thing, int]
"""The part of the name that tells these pods from others of the same object, their template, how many."""


def _pod(thing: Thing) -> Iterator[_Made]:
    yield "", thing, 1


def _job(thing: Thing) -> Iterator[_Made]:
    spec = thing["spec"]
    at_once = _count(spec.get("parallelism"))
    completions = spec.get("completions")
    yield "", spec["template"], at_once if completions is None else min(at_once, _count(completions))


def _cron_job(thing: Thing) -> Iterator[_Made]:
    yield from _job(thing["spec"]["jobTemplate"])


def _replicas(thing: Thing) -> Iterator[_Made]:
    yield "", thing["spec"]["template"], _count(thing["spec"].get("replicas"))


def _job_set(thing: Thing) -> Iterator[_Made]:
    for own in thing["spec"]["replicatedJobs"]:
        for _, pod, count in _job(own["template"]):
            yield own["name"], pod, count * _count(own.get("replicas"))


def _elastic_job(thing: Thing) -> Iterator[_Made]:
    """Its quorum, as the elastic master makes it; surplus comes later, where there is room."""
    owner = Owner("", str(thing["metadata"]["name"]), "")
    spec, wrong = decode_spec(thing.get("spec"))
    found = wrong or (problems(owner, spec) if spec else ())
    if spec is None or found:
        raise SettingsError(found[0].field, found[0].value, found[0].remedy)
    yield "", manifest(owner, spec, Worker(owner.name, 0), Kit("", "", "")), spec.min_workers


def _has_replica_specs(thing: Thing) -> bool:
    spec = thing.get("spec")
    return isinstance(spec, dict) and any(key.endswith("ReplicaSpecs") for key in spec)


def _replica_specs(thing: Thing) -> Iterator[_Made]:
    """Kubeflow's training jobs: a mapping from role to replicas and template."""
    for key, roles in thing["spec"].items():
        if key.endswith("ReplicaSpecs"):
            for role, own in roles.items():
                yield role.lower(), own["template"], _count(own.get("replicas"))


def _count(said: object) -> int:
    """A number of pods; one where none is said."""
    if said is None:
        return 1
    if not isinstance(said, int) or isinstance(said, bool) or said < 0:
        raise ValueError(said)
    return said


_RULES: Final[Mapping[str, Callable[[Thing], Iterator[_Made]]]] = {
    "Pod": _pod,
    "Job": _job,
    "CronJob": _cron_job,
    "JobSet": _job_set,
    ELASTIC_KIND: _elastic_job,
    **dict.fromkeys(("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"), _replicas),
}
