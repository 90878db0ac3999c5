"""Pod templates: how many pods an object creates from them, and the content of each pod.

Lives here: a template as a value, and its pods. Never here: which kind has which templates (`manifest_pods`,
`operator_pods`).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.errors import SettingsError
from scheduler.model.workload import Complaint
from scheduler.objects import api

Thing: TypeAlias = dict[str, Any]

MOST: Final = 100_000
"""Largest number of pods of one manifest: more than any cluster has."""

LATER: Final = "those pods are created only after other members are ready, which in turn wait for them"


@dataclass(frozen=True, slots=True)
class Template:
    """`count` pods named NAME-FIRST …, each like `pod`. maker: the object that creates them, as KIND/NAME.

    A rule returns the templates of one object. There, `name` and `after` lack the object's own name.
    """

    pod: Thing
    count: int
    name: str = ""
    namespace: str = ""
    maker: str = ""
    after: frozenset[str] = frozenset()
    """Names of templates whose pods must be ready before these are created. Its own name: one by one."""
    awaits: Complaint | None = None
    """Field, value and fix, if `after` is not empty."""
    claims: tuple[str, ...] = ()
    """Volumes that every pod gets in addition to its template, each a claim named CLAIM-POD."""
    first: int = 0
    """Number of the first pod."""
    controller: str = ""
    """The object that owns the pods, if the maker creates objects that create pods. Empty: the maker itself."""
    controllers: int = 1
    """Number of such objects, which share the pods evenly."""
    path: str = "spec.template"
    """Path of the pod template."""
    words: str = ""
    """Path of its labels and annotations, if it is not the metadata at `path`."""
    group: Thing | None = None
    """A PodGroup that is created with the pods, and is not in the manifests."""
    assumes: str = ""
    """A condition, unknown from the manifests, under which the pods are a gang. The gang's real name is unknown then."""

    def made_first(self, mates: Collection[str]) -> int:
        """Number of pods that are created before any pod of these templates is ready."""
        if self.name in self.after:
            return min(1, self.count)
        return 0 if self.after.intersection(mates) else self.count

    def names(self) -> list[str]:
        """Names of the pods in this program. Most controllers add a random suffix instead of a number."""
        if self.maker.startswith("Pod/"):
            return [self.name] * self.count
        return [f"{self.name}-{n}" for n in range(self.first, self.first + self.count)]

    def pods(self) -> Iterator[api.Pod]:
        """The pods as the API server would show them. Raises SettingsError for a field with a wrong type."""
        _check_texts(self.pod.get("metadata"), self.maker)
        for name in self.names():
            meta = {**(self.pod.get("metadata") or {}), "name": name, "namespace": self.namespace}
            yield built(api.Pod, {**self.pod, "metadata": meta, "spec": self.spec(name)}, self.maker)

    def spec(self, name: str) -> Any:
        """The spec of the pod with this name, with the volumes that its controller adds."""
        spec: Any = self.pod.get("spec") or {}
        said = at(spec, "volumes") or []
        if not (self.claims and isinstance(spec, dict) and isinstance(said, list)):
            return spec
        kept = [volume for volume in said if at(volume, "name") not in self.claims]
        added = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}}
            for claim in self.claims
        ]
        return {**spec, "volumes": [*kept, *added]}

    def said(self, place: str) -> dict[str, Any]:
        """The labels, or the annotations, of its pods."""
        texts = at(self.pod.get("metadata"), place)
        return texts if isinstance(texts, dict) else {}


def at(found: object, key: str) -> object:
    """The value of a key in a YAML object. None if it is missing."""
    return found.get(key) if isinstance(found, dict) else None


def built(kind: type[Any], thing: Thing, maker: str) -> Any:
    """The object as this type. Raises SettingsError for a field with a wrong type."""
    try:
        return msgspec.convert(thing, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(maker, "its pods", str(error)) from None


def count(said: object, usual: int = 1) -> int:
    """A number of pods. Defaults to the usual one. Raises ValueError for an invalid number."""
    if said is None:
        return usual
    if not isinstance(said, int) or isinstance(said, bool) or said < 0:
        raise ValueError(said)
    return said


def of_job(thing: Thing) -> Iterator[Template]:
    """The pods of a Job that exist at the same time."""
    spec = thing["spec"]
    at_once, completions = count(spec.get("parallelism")), spec.get("completions")
    yield Template(spec["template"], at_once if completions is None else min(at_once, count(completions)))


def _check_texts(meta: object, maker: str) -> None:
    """Raise SettingsError for a label or annotation that YAML does not read as a string, for example a bare number."""
    for place in ("labels", "annotations"):
        texts = at(meta, place)
        for key, value in texts.items() if isinstance(texts, dict) else ():
            if not isinstance(value, str):
                said = str(value).lower() if isinstance(value, bool) else str(value)
                plain = isinstance(value, bool | int | float)
                remedy = (
                    f'must be a string. Write it in quotes: "{said}"'
                    if plain
                    else "must be a string in quotes"
                )
                raise SettingsError(f"{maker}: {place}: {key}", value, remedy)
