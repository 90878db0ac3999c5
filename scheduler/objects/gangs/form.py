"""What a gang format is: how its pods name their gang, and what else they say.

Never here: a key of any format.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from scheduler.model.topology import Level
from scheduler.model.workload import GangKey, Membership, Strategy, Wish
from scheduler.objects.parsing import PodMetadata, text

Levels: TypeAlias = tuple[Level, ...]


class Naming(NamedTuple):
    """Where a gang is named, and how."""

    key: str
    gang: str


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `naming` tells where the pod names a gang, and is cheap; `read` tells the rest."""

    name: str
    naming: Callable[[PodMetadata], Naming | None]
    read: Callable[[PodMetadata, GangKey, Levels], Membership]


def first(*places: Naming | None) -> Naming | None:
    """The first place that names something."""
    return next((place for place in places if place is not None), None)


def in_label(sheet: PodMetadata, key: str) -> Naming | None:
    return Naming(key, sheet.labels[key]) if sheet.labels.get(key) else None


def in_annotation(sheet: PodMetadata, key: str) -> Naming | None:
    return Naming(key, sheet.annotations[key]) if sheet.annotations.get(key) else None


def placement(sheet: PodMetadata, levels: Levels, required_key: str, preferred_key: str) -> Wish:
    """The wish of a format that names a level it requires, or one it prefers, by node label or by name."""
    for key, required in ((required_key, True), (preferred_key, False)):
        said = sheet.annotation(key, text, fatal=False)
        if said is not None:
            level = level_of(sheet, key, said, levels)
            return Wish(strategy=Strategy.PACK, level=level, required=required) if level else Wish()
    return Wish()


def placement_keys(sheet: PodMetadata, required_key: str, preferred_key: str) -> Mapping[str, str]:
    """Where such a format says its wish."""
    said = required_key if required_key in sheet.annotations else preferred_key
    return dict.fromkeys(("strategy", "level", "required"), said)


def level_of(sheet: PodMetadata, key: str, said: str, levels: Levels) -> str | None:
    """The level that this node label, or this name, is of; a complaint where nobody configured it."""
    for level in levels:
        if said in (level.label, level.name):
            return level.name
    known = ", ".join(level.label for level in levels)
    sheet.overlooked(key, said, f"no level of this cluster has that node label; it has {known}")
    return None
