"""KAI: an annotation names a PodGroup, created by its pod grouper or by hand. A label names the subgroup."""

from typing import Final

from scheduler.model.workload import GangKey, Membership
from scheduler.objects import labels as key
from scheduler.objects.gangs.form import Format, Levels, annotated, placement, placement_keys
from scheduler.objects.parsing import PodMetadata, count, name

NAME: Final = "kai"

_OF_CONTAINER: Final = (".gpu-memory.request", ".gpu-memory.limit")

_NO_FRACTIONS: Final = (
    "unsupported: a fraction of a GPU; request whole GPUs, or a MIG or time-slicing resource that your nodes have, "
    "or leave the pod to KAI"
)


def refuse_fractions(sheet: PodMetadata) -> None:
    """Reject a pod that asks KAI for a part of a GPU. It requests no GPU, so kube-scheduler would place it without one.

    Any pod may have these annotations, also without a gang. The names of those for one container are KAI's own:
    `nvidia.com/container.<container>.gpu-memory.request`.
    """
    for own, value in sheet.annotations.items():
        of_container = own.startswith(key.KAI_CONTAINER) and own.endswith(_OF_CONTAINER)
        if of_container or own in {key.KAI_FRACTION, key.KAI_MEMORY, key.KAI_DEVICES}:
            sheet.complain(own, value, _NO_FRACTIONS)
            return


def _read(sheet: PodMetadata, gang: GangKey, levels: Levels) -> Membership:
    least = sheet.annotation(key.KAI_MIN_MEMBER, count)
    role = sheet.label(key.KAI_ROLE, name)
    if key.KAI_SEGMENT in sheet.annotations:
        sheet.overlooked(key.KAI_SEGMENT, sheet.annotations[key.KAI_SEGMENT], "a gang is placed as a whole")
    return Membership(
        gang,
        NAME,
        role=role or "",
        quorum=None if least is None else {"": least},
        wish=placement(sheet, levels, key.KAI_REQUIRED, key.KAI_PREFERRED),
        keys={
            "quorum": key.KAI_MIN_MEMBER,
            "role": key.KAI_ROLE,
            **placement_keys(sheet, key.KAI_REQUIRED, key.KAI_PREFERRED),
        },
    )


FORMAT: Final = Format(NAME, annotated(key.KAI_GROUP), _read)
