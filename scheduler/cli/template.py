"""Pods that are alike: how many one object makes of them, and what each would say.

Lives here: a template as a value, and the pods that follow from it. Never here: which kind makes which templates
(`manifest_pods`, `operator_pods`).
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
"""Pods of one manifest: more than any cluster has."""

LATER: Final = "those pods are made only when others of the gang are ready, and these wait for them"


@dataclass(frozen=True, slots=True)
class Template:
    """`count` pods, called NAME-FIRST …, each like `pod`. maker: who makes them, KIND/NAME.

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
    first: int = 0
    """Number of the first pod."""
    controller: str = ""
    """Which object owns the pods, where the maker makes objects that make pods; empty: the maker itself."""
    controllers: int = 1
    """How many such objects share the pods evenly."""
    path: str = "spec.template"
    """Where the pod template is written."""
    words: str = ""
    """Where its labels and annotations are written, if that is another place than the metadata at `path`."""
    group: Thing | None = None
    """A PodGroup that is made beside the pods, and is not in the manifests."""
    assumes: str = ""
    """What the manifests cannot tell, and what must be so for the pods to be a gang; its real name is unknown then."""

    def made_first(self, mates: Collection[str]) -> int:
        """How many of the pods are made before any pod of these templates is ready."""
        if self.name in self.after:
            return min(1, self.count)
        return 0 if self.after.intersection(mates) else self.count

    def names(self) -> list[str]:
        """What the pods are called here; most makers add a word of chance instead of a number."""
        if self.maker.startswith("Pod/"):
            return [self.name] * self.count
        return [f"{self.name}-{n}" for n in range(self.first, self.first + self.count)]

    def pods(self) -> Iterator[api.Pod]:
        """The pods, as they would be seen. Raises SettingsError where a field has a wrong type."""
        _check_texts(self.pod.get("metadata"), self.maker)
        for name in self.names():
            meta = {**(self.pod.get("metadata") or {}), "name": name, "namespace": self.namespace}
            yield built(api.Pod, {**self.pod, "metadata": meta, "spec": self.spec(name)}, self.maker)

    def spec(self, name: str) -> Any:
        """The spec of the pod of this name, with the volumes that its maker adds."""
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
    """What an object of YAML has there; None where there is none."""
    return found.get(key) if isinstance(found, dict) else None


def built(kind: type[Any], thing: Thing, maker: str) -> Any:
    """The object as this type. Raises SettingsError for a field of a wrong type."""
    try:
        return msgspec.convert(thing, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(maker, "its pods", str(error)) from None


def count(said: object, usual: int = 1) -> int:
    """A number of pods; the usual one where none is said. Raises ValueError for what is none."""
    if said is None:
        return usual
    if not isinstance(said, int) or isinstance(said, bool) or said < 0:
        raise ValueError(said)
    return said


def of_job(thing: Thing) -> Iterator[Template]:
    """The pods of a Job that are there at once."""
    spec = thing["spec"]
    at_once, completions = count(spec.get("parallelism")), spec.get("completions")
    yield Template(spec["template"], at_once if completions is None else min(at_once, count(completions)))


def _check_texts(meta: object, maker: str) -> None:
    """Raises SettingsError for a label or annotation that YAML does not read as a text, such as a bare number."""
    for place in ("labels", "annotations"):
        texts = at(meta, place)
        for key, value in texts.items() if isinstance(texts, dict) else ():
            if not isinstance(value, str):
                said = str(value).lower() if isinstance(value, bool) else str(value)
                plain = isinstance(value, bool | int | float)
                remedy = f'write it in quotes: "{said}"' if plain else "write a text, in quotes"
                raise SettingsError(f"{maker}: {place}: {key}", value, remedy)
