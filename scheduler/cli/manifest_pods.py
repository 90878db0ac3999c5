"""Manifests, and the pods that controllers would create from them.

Lives here: the pod templates of built-in kinds, and how many pods each creates. The kinds of operators are in
`operator_pods`. Never here: what the pods say about their gang (`objects`), or a call.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from scheduler.cli.operator_pods import RULES, has_replica_specs, replica_specs
from scheduler.cli.options import a_namespace
from scheduler.cli.template import MOST, Template, Thing, at, built, count, of_job
from scheduler.elastic.controller.pod_template import Kit, Owner, Worker, manifest, problems
from scheduler.elastic.job.validation import decode_spec
from scheduler.errors import SettingsError
from scheduler.objects.labels import ELASTIC_KIND
from scheduler.objects.owners import one_by_one
from scheduler.objects.watched_resources import RESOURCES, WatchedObject

LARGEST: Final = 4 * 2**20
"""Largest size of a file in bytes. The API server accepts at most 3 MiB per object."""


def read(place: str) -> list[Thing]:
    """The documents of a file, or of standard input for `-`. Lists are expanded. Raises SettingsError."""
    try:
        text = sys.stdin.read(LARGEST + 1) if place == "-" else Path(place).read_text("utf-8")[: LARGEST + 1]
        if len(text) > LARGEST:
            raise SettingsError("-f", place, f"must not be larger than {LARGEST // 2**20} MiB")
        found = list(yaml.safe_load_all(text))
    except OSError as error:
        raise SettingsError("-f", place, error.strerror or "can't be read") from None
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise SettingsError("-f", place, f"must be YAML: {' '.join(str(error).split())}") from None
    things = [part for own in found if own is not None for part in _parts(own, place)]
    if not things:
        raise SettingsError("-f", place, "contains no object")
    return things


def _parts(found: object, place: str) -> Iterator[Thing]:
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str) or "apiVersion" not in found:
        raise SettingsError("-f", place, "must contain only Kubernetes objects, with apiVersion and kind")
    if found["kind"].endswith("List") and isinstance(found.get("items"), list):
        for own in found["items"]:
            yield from _parts(own, place)
        return
    meta = found.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        remedy = "is required, because the object can't be applied again without it"
        raise SettingsError(f"{found['kind']}.metadata.name", at(meta, "name"), remedy)
    yield found


def templates(thing: Thing, namespace: str) -> list[Template]:
    """The pods that follow from this object. Empty for kinds that are not known to create pods. Raises SettingsError."""
    kind, meta = thing["kind"], thing["metadata"]
    maker = f"{kind}/{meta['name']}"
    inside = a_namespace(str(meta.get("namespace") or namespace))
    rule = _RULES.get(kind) or RULES.get(kind) or (replica_specs if has_replica_specs(thing) else None)
    if rule is None:
        return []
    try:
        made = list(rule(thing))
        if not all(isinstance(own.pod, dict) for own in made):
            raise TypeError(maker)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise SettingsError(
            maker, "its spec", f"must be a valid spec of a {kind}: its pods are unknown"
        ) from None
    found = [
        replace(
            own,
            name=_joined(meta["name"], own.name),
            namespace=inside,
            maker=maker,
            after=frozenset(_joined(meta["name"], part) for part in own.after),
            group=own.group and {**own.group, "metadata": {**own.group["metadata"], "namespace": inside}},
        )
        for own in made
    ]
    if sum(own.count for own in found) > MOST:
        raise SettingsError(maker, sum(own.count for own in found), f"must create at most {MOST} pods")
    return found


def _joined(name: str, part: str) -> str:
    return f"{name}-{part}" if part else name


DESCRIBING: Final = {
    "PodGroup": "podgroups",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
}
"""Kinds that describe pods, with their plurals."""


def objects(thing: Thing, namespace: str) -> list[WatchedObject]:
    """The object itself, if it describes pods. Raises SettingsError."""
    kind, group = thing["kind"], str(thing["apiVersion"])
    for row in RESOURCES:
        if kind in DESCRIBING and row.path == f"/apis/{group}/{DESCRIBING[kind]}":
            meta = {**thing["metadata"], "namespace": thing["metadata"].get("namespace") or namespace}
            return [built(row.type, {**thing, "metadata": meta}, f"{kind}/{meta['name']}")]
    return []


def _pod(thing: Thing) -> Iterator[Template]:
    yield Template(thing, 1, path="")


def _cron_job(thing: Thing) -> Iterator[Template]:
    path = "spec.jobTemplate.spec.template"
    yield from (replace(own, path=path) for own in of_job(thing["spec"]["jobTemplate"]))


def _replicas(thing: Thing) -> Iterator[Template]:
    yield Template(thing["spec"]["template"], count(thing["spec"].get("replicas")))


def _stateful_set(thing: Thing) -> Iterator[Template]:
    spec = thing["spec"]
    awaits = one_by_one(str(spec.get("podManagementPolicy") or "OrderedReady"))
    claims = tuple(str(claim["metadata"]["name"]) for claim in spec.get("volumeClaimTemplates") or ())
    for own in _replicas(thing):
        yield replace(own, after=frozenset({""}) if awaits else frozenset(), awaits=awaits, claims=claims)


def _elastic_job(thing: Thing) -> Iterator[Template]:
    """Its quorum, as the elastic master creates it. Surplus workers follow later if capacity is free."""
    owner = Owner("", str(thing["metadata"]["name"]), "")
    spec, wrong = decode_spec(thing.get("spec"))
    found = wrong or (problems(owner, spec) if spec else ())
    if spec is None or found:
        raise SettingsError(found[0].field, found[0].value, found[0].remedy)
    yield Template(manifest(owner, spec, Worker(owner.name, 0), Kit("", "")), spec.min_workers)


_RULES: Final[Mapping[str, Callable[[Thing], Iterator[Template]]]] = {
    "Pod": _pod,
    "Job": of_job,
    "CronJob": _cron_job,
    ELASTIC_KIND: _elastic_job,
    "StatefulSet": _stateful_set,
    **dict.fromkeys(("Deployment", "ReplicaSet", "ReplicationController"), _replicas),
}
