"""The definition of a gang format: how its pods name their gang, and what else they specify.

Never here: a key of any format.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from scheduler.model.cluster import Level
from scheduler.model.workload import GangKey, Membership, Strategy, Wish
from scheduler.objects.parsing import PodMetadata, text

Levels: TypeAlias = tuple[Level, ...]


class Naming(NamedTuple):
    """The key that names a gang, and the name."""

    key: str
    gang: str


class Place(NamedTuple):
    """A label or an annotation."""

    key: str
    label: bool


def labeled(*keys: str) -> tuple[Place, ...]:
    return tuple(Place(key, label=True) for key in keys)


def annotated(*keys: str) -> tuple[Place, ...]:
    return tuple(Place(key, label=False) for key in keys)


@dataclass(frozen=True, slots=True)
class Format:
    """One format: where a pod names its gang (the first place with a name applies), and how to read the rest."""

    name: str
    named_in: tuple[Place, ...]
    read: Callable[[PodMetadata, GangKey, Levels], Membership]
    beside: tuple[str, ...] = ()
    """A pod of this format has one of these annotations. Empty: the name is enough."""
    empty: bool = False
    """An empty name also counts, as an invalid one."""

    def naming(self, pod: PodMetadata) -> Naming | None:
        """The key and name of this pod's gang. None: it does not use this format."""
        if self.beside and not any(key in pod.annotations for key in self.beside):
            return None
        for key, label in self.named_in:
            said = (pod.labels if label else pod.annotations).get(key)
            if said or (self.empty and said is not None):
                return Naming(key, said)
        return None


def placement(sheet: PodMetadata, levels: Levels, required_key: str, preferred_key: str) -> Wish:
    """The wish of a format that requires or prefers a level, by node label or by name."""
    for key, required in ((required_key, True), (preferred_key, False)):
        said = sheet.annotation(key, text, fatal=False)
        if said is not None:
            level = level_of(sheet, key, said, levels)
            return Wish(strategy=Strategy.PACK, level=level, required=required) if level else Wish()
    return Wish()


def placement_keys(sheet: PodMetadata, required_key: str, preferred_key: str) -> Mapping[str, str]:
    """The keys of the wish in such a format."""
    said = required_key if required_key in sheet.annotations else preferred_key
    return dict.fromkeys(("strategy", "level", "required"), said)


def level_of(sheet: PodMetadata, key: str, said: str, levels: Levels) -> str | None:
    """The level with this node label or name. A level that is not configured is a complaint."""
    for level in levels:
        if said in (level.label, level.name):
            return level.name
    known = ", ".join(level.label for level in levels)
    sheet.overlooked(key, said, f"no configured level uses this node label; use one of: {known}")
    return None
