"""Volcano: an annotation names a PodGroup. A pod without one may specify its minimum itself.

Volcano's topology uses tiers of HyperNodes, which may not match levels of node labels. Hard or soft topology applies at
the configured level. A highest tier is ignored.
"""

from typing import Final

from scheduler.model.workload import GangKey, Membership, Strategy, Wish
from scheduler.objects import labels as key
from scheduler.objects.gangs.form import Format, Levels, annotated
from scheduler.objects.parsing import PodMetadata, count, name, text, word

NAME: Final = "volcano"

MODES: Final = {"hard": True, "soft": False}
NO_TIERS: Final = f"tiers are not levels of this cluster; set a level in {key.LEVEL}"

_KEYS: Final = {
    "quorum": key.VOLCANO_MIN_MEMBER,
    "role": key.VOLCANO_ROLE,
    "strategy": key.VOLCANO_TOPOLOGY,
    "required": key.VOLCANO_TOPOLOGY,
}


def _read(sheet: PodMetadata, gang: GangKey, _levels: Levels) -> Membership:
    least = sheet.annotation(key.VOLCANO_MIN_MEMBER, count)
    role = sheet.annotation(key.VOLCANO_ROLE, name) or sheet.label(key.VOLCANO_ROLE, name)
    hard = sheet.annotation(key.VOLCANO_TOPOLOGY, word(MODES), fatal=False)
    tier = sheet.annotation(key.VOLCANO_TIER, text, fatal=False)
    if tier is not None:
        sheet.overlooked(key.VOLCANO_TIER, tier, NO_TIERS)
    return Membership(
        gang,
        NAME,
        role=role or "",
        quorum=None if least is None else {"": least},
        wish=topology(hard=hard),
        keys=_KEYS,
    )


def topology(*, hard: bool | None) -> Wish:
    """The wish for Volcano's hard or soft topology."""
    return Wish() if hard is None else Wish(strategy=Strategy.PACK, required=hard)


FORMAT: Final = Format(NAME, annotated(key.VOLCANO_GROUP, key.VOLCANO_GROUP_LEGACY), _read)
