"""PodGroups of the formats as groups of the model.

Lives here: what a group specifies for the gang of the pods that name it. Never here: a pod. The objects come from
third-party custom resource definitions, so any field may be missing or hold any value. Nothing in here raises.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from scheduler.model.workload import GangKey, Group, Strategy, Wish
from scheduler.objects import api
from scheduler.objects.gangs import kai, koordinator, scheduler_plugins, volcano
from scheduler.objects.gangs.form import Levels, level_of
from scheduler.objects.parsing import MOST, PodMetadata, Unfit, name, timeout

Spec: TypeAlias = Mapping[str, Any]
_Says: TypeAlias = tuple[Mapping[str, int], int | None, Wish]
_Reader: TypeAlias = Callable[[PodMetadata, Spec, GangKey, Levels], _Says]

MIN: Final = "spec.minMember"
MIN_TASKS: Final = "spec.minTaskMember"
SUBGROUPS: Final = "spec.subGroups"


def group(found: api.PodGroup, levels: Levels) -> Group:
    """The group. An invalid field becomes a complaint."""
    meta = found.metadata
    sheet = PodMetadata(meta.labels, meta.annotations)
    key = GangKey(meta.namespace, meta.name)
    form, read = _READERS[type(found)]
    spec = found.spec if isinstance(found.spec, dict) else {}
    if found.spec is not None and not isinstance(found.spec, dict):
        sheet.complain("spec", _text(found.spec), "must be an object")
    quorum, size, wish = read(sheet, spec, key, levels)
    return Group(key, form, quorum, size, wish, tuple(sheet.complaints))


def format_of(kind: type[api.PodGroup]) -> str:
    """The format that a type of PodGroup belongs to."""
    return _READERS[kind][0]


def _plugins(sheet: PodMetadata, spec: Spec, _key: GangKey, _levels: Levels) -> _Says:
    return {"": _least(sheet, spec)}, None, _timeout(sheet, spec)


def _koordinator(sheet: PodMetadata, spec: Spec, key: GangKey, levels: Levels) -> _Says:
    least = _least(sheet, spec)
    size = koordinator.total(sheet, least)
    return {"": least}, size, koordinator.wish(sheet, key, levels).over(_timeout(sheet, spec))


def _volcano(sheet: PodMetadata, spec: Spec, _key: GangKey, _levels: Levels) -> _Says:
    least = _least(sheet, spec)
    said = _part(sheet, spec, "minTaskMember")
    tasks = {task: _number(sheet, f"{MIN_TASKS}.{task}", minimum, 0) for task, minimum in said.items()}
    topology = _part(sheet, spec, "networkTopology")
    mode = topology.get("mode", "hard") if topology else None
    hard = volcano.MODES.get(mode) if isinstance(mode, str) else None
    for field in ("highestTierAllowed", "highestTierName"):
        if field in topology:
            sheet.overlooked(f"spec.networkTopology.{field}", _text(topology[field]), volcano.NO_TIERS)
    return _task_quorum(sheet, least, tasks), None, volcano.topology(hard=hard)


def _task_quorum(sheet: PodMetadata, least: int, minima: dict[str, int]) -> Mapping[str, int]:
    """Volcano uses the tasks only if their minima do not exceed the group's. Tasks with a minimum of 0 are left out."""
    tasks = {task: minimum for task, minimum in minima.items() if minimum}
    total = sum(tasks.values())
    if not tasks or least < total:
        return {"": least}
    if least > total:
        sheet.overlooked(MIN_TASKS, _text(tasks), f"its sum is {total}, but {MIN} is {least}")
        return {"": least}
    return tasks


def _kai(sheet: PodMetadata, spec: Spec, _key: GangKey, levels: Levels) -> _Says:
    topology = _part(sheet, spec, "topologyConstraint")
    return _subgroups(sheet, spec) or {"": _least(sheet, spec)}, None, _constrained(sheet, topology, levels)


def _subgroups(sheet: PodMetadata, spec: Spec) -> Mapping[str, int]:
    """Flat subgroups are roles. A tree of subgroups is unsupported."""
    said = spec.get("subGroups") or []
    if not said:
        return {}
    flat = isinstance(said, list) and all(isinstance(own, dict) and not own.get("parent") for own in said)
    if not flat:
        sheet.overlooked(SUBGROUPS, _text(said), f"a tree of subgroups is unsupported; {MIN} applies")
        return {}
    minima: dict[str, int] = {}
    for own in said:
        role = _name(sheet, f"{SUBGROUPS}.name", own.get("name"))
        least = _number(sheet, f"{SUBGROUPS}.minMember", own.get("minMember", 1), 1)
        minima[role] = minima.get(role, 0) + least
    return minima


def _constrained(sheet: PodMetadata, topology: Spec, levels: Levels) -> Wish:
    for field, required in (("requiredTopologyLevel", True), ("preferredTopologyLevel", False)):
        said = topology.get(field)
        if isinstance(said, str) and said:
            level = level_of(sheet, f"spec.topologyConstraint.{field}", said, levels)
            return Wish(strategy=Strategy.PACK, level=level, required=required) if level else Wish()
    return Wish()


# Single values


def _least(sheet: PodMetadata, spec: Spec) -> int:
    """A group that states no minimum needs one member."""
    return max(1, _number(sheet, MIN, spec.get("minMember"), 0))


def _timeout(sheet: PodMetadata, spec: Spec) -> Wish:
    said = spec.get("scheduleTimeoutSeconds")
    text = None if said is None else _text(said)
    return Wish(timeout=sheet.parsed("spec.scheduleTimeoutSeconds", text, timeout, fatal=False))


def _part(sheet: PodMetadata, spec: Spec, field: str) -> Spec:
    """An object inside the spec."""
    said = spec.get(field)
    if isinstance(said, dict):
        return said
    if said is not None:
        sheet.complain(f"spec.{field}", _text(said), "must be an object", fatal=False)
    return {}


def _number(sheet: PodMetadata, field: str, said: object, least: int) -> int:
    """A whole number, or `least` if it is missing or invalid. An invalid number is a complaint."""
    if said is None:
        return least
    if isinstance(said, int) and not isinstance(said, bool) and least <= said <= MOST:
        return said
    sheet.complain(field, _text(said), f"must be a whole number from {least} to {MOST}")
    return least


def _name(sheet: PodMetadata, field: str, said: object) -> str:
    try:
        return name(said if isinstance(said, str) else "")
    except Unfit as unfit:
        sheet.complain(field, _text(said), f"must be {unfit}")
        return ""


def _text(said: object) -> str:
    return said if isinstance(said, str) else repr(said)


_READERS: Final[Mapping[type, tuple[str, _Reader]]] = {
    api.PluginsPodGroup: (scheduler_plugins.NAME, _plugins),
    api.KoordinatorPodGroup: (koordinator.NAME, _koordinator),
    api.VolcanoPodGroup: (volcano.NAME, _volcano),
    api.KaiPodGroup: (kai.NAME, _kai),
}

KINDS: Final = tuple(_READERS)
"""The types of PodGroups that are read."""
