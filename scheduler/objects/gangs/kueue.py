"""Kueue's groups of plain pods: a name and a total count. All pods of the group are required."""

from typing import Final

from scheduler.model.workload import GangKey, Membership
from scheduler.objects import labels as key
from scheduler.objects.gangs.form import Format, Levels, annotated, labeled, placement, placement_keys
from scheduler.objects.parsing import PodMetadata, count

NAME: Final = "kueue"

_UNKNOWN: Final = (key.KUEUE_SLICE, key.KUEUE_SLICES, key.KUEUE_SPREAD)


def _read(sheet: PodMetadata, gang: GangKey, levels: Levels) -> Membership:
    total = sheet.annotation(key.KUEUE_TOTAL, count)
    if key.KUEUE_TOTAL not in sheet.annotations:
        sheet.complain(key.KUEUE_TOTAL, "", "is required; set the number of pods in the group")
    for field in _UNKNOWN:
        if field in sheet.annotations:
            sheet.overlooked(field, sheet.annotations[field], "a gang is placed as a whole")
    return Membership(
        gang,
        NAME,
        quorum=None if total is None else {"": total},
        size=total,
        wish=placement(sheet, levels, key.KUEUE_REQUIRED, key.KUEUE_PREFERRED),
        keys={
            "quorum": key.KUEUE_TOTAL,
            "size": key.KUEUE_TOTAL,
            **placement_keys(sheet, key.KUEUE_REQUIRED, key.KUEUE_PREFERRED),
        },
    )


FORMAT: Final = Format(NAME, (*labeled(key.KUEUE_GROUP), *annotated(key.KUEUE_GROUP)), _read)
