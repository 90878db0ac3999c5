"""Koordinator, in its three variants: a label that names a PodGroup; two labels; annotations.

Gather strategies name layers. A layer with the name of a configured level applies.
"""

from typing import Any, Final

from scheduler.model.workload import GangKey, Membership, Strategy, Wish
from scheduler.objects import labels as key
from scheduler.objects.gangs.form import Format, Levels, annotated, labeled
from scheduler.objects.parsing import LONGEST_JSON, PodMetadata, count, json_of, text, timeout

NAME: Final = "koordinator"

_KEYS: Final = {
    "size": key.KOORDINATOR_TOTAL,
    "timeout": key.KOORDINATOR_WAIT,
    **dict.fromkeys(("strategy", "level", "required"), key.KOORDINATOR_TOPOLOGY),
}
_REQUIRED: Final = {"MustGather": True, "PreferGather": False}
_json: Final = json_of(dict[str, Any])
_names: Final = json_of(list[str])


def _read(sheet: PodMetadata, gang: GangKey, levels: Levels) -> Membership:
    least, size = _sizes(sheet)
    return Membership(
        gang,
        NAME,
        quorum=None if least is None else {"": least},
        size=size,
        wish=wish(sheet, gang, levels),
        keys=_KEYS | {"quorum": key.KOORDINATOR_LIGHT_MIN if _is_light(sheet) else key.KOORDINATOR_MIN},
    )


def _is_light(sheet: PodMetadata) -> bool:
    return bool(sheet.labels.get(key.KOORDINATOR_LIGHT))


def _sizes(sheet: PodMetadata) -> tuple[int | None, int | None]:
    if key.KOORDINATOR_GROUP in sheet.labels:
        return None, None
    if _is_light(sheet):
        return _needed(sheet, key.KOORDINATOR_LIGHT_MIN, sheet.label(key.KOORDINATOR_LIGHT_MIN, count)), None
    least = _needed(sheet, key.KOORDINATOR_MIN, sheet.annotation(key.KOORDINATOR_MIN, count))
    return least, total(sheet, least)


def _needed(sheet: PodMetadata, field: str, least: int | None) -> int | None:
    if field not in sheet.labels and field not in sheet.annotations:
        sheet.complain(field, "", "is required; set the minimum number of members")
    return least


def total(sheet: PodMetadata, least: int | None) -> int | None:
    """The specified size. Koordinator replaces a size below the minimum with the minimum."""
    size = sheet.annotation(key.KOORDINATOR_TOTAL, count)
    if size is None or least is None or size >= least:
        return size
    sheet.overlooked(key.KOORDINATOR_TOTAL, str(size), f"the value is below the minimum of {least}")
    return least


def wish(sheet: PodMetadata, gang: GangKey, levels: Levels) -> Wish:
    """What the annotations of a pod or PodGroup specify about the placement."""
    if (mode := sheet.annotation(key.KOORDINATOR_MODE, text, fatal=False)) == "NonStrict":
        sheet.overlooked(key.KOORDINATOR_MODE, mode, "the quorum is always placed as a whole")
    bundle = sheet.annotation(key.KOORDINATOR_GROUPS, _names, fatal=False, longest=LONGEST_JSON) or []
    if any(other not in (str(gang), gang.name) for other in bundle):
        said = sheet.annotations[key.KOORDINATOR_GROUPS]
        sheet.overlooked(
            key.KOORDINATOR_GROUPS, said, "gangs are placed one by one; use one gang name with roles"
        )
    place = _gathered(sheet, levels)
    waiting = sheet.annotation(key.KOORDINATOR_WAIT, timeout, fatal=False)
    return Wish(place.strategy, place.level, place.required, waiting)


def _gathered(sheet: PodMetadata, levels: Levels) -> Wish:
    field = key.KOORDINATOR_TOPOLOGY
    spec = sheet.annotation(field, _json, fatal=False, longest=LONGEST_JSON)
    rules = spec.get("gatherStrategy") if spec else None
    if not rules:
        return Wish()
    names = {level.name for level in levels} | {level.label for level in levels}
    known = [
        (rule["layer"], _REQUIRED[rule["strategy"]])
        for rule in (rules if isinstance(rules, list) else ())
        if isinstance(rule, dict)
        and isinstance(rule.get("layer"), str)
        and isinstance(rule.get("strategy"), str)
        and rule["layer"] in names
        and rule["strategy"] in _REQUIRED
    ]
    if not isinstance(rules, list) or len(known) != 1 or len(rules) != 1:
        sheet.overlooked(
            field, sheet.annotations[field], f"set exactly one layer, one of {', '.join(sorted(names))}"
        )
        return Wish()
    said, required = known[0]
    level = next(level.name for level in levels if said in (level.name, level.label))
    return Wish(strategy=Strategy.PACK, level=level, required=required)


FORMAT: Final = Format(
    NAME,
    (*labeled(key.KOORDINATOR_GROUP, key.KOORDINATOR_LIGHT), *annotated(key.KOORDINATOR_GANG)),
    _read,
)
