"""The coscheduling plugin of scheduler-plugins: a label names a PodGroup, which specifies the rest."""

from typing import Final

from scheduler.model.workload import GangKey, Membership
from scheduler.objects import labels as key
from scheduler.objects.gangs.form import Format, Levels, labeled
from scheduler.objects.parsing import PodMetadata

NAME: Final = "scheduler-plugins"


def _read(_sheet: PodMetadata, gang: GangKey, _levels: Levels) -> Membership:
    return Membership(gang, NAME)


FORMAT: Final = Format(NAME, labeled(key.PLUGINS_GROUP), _read)
