"""YuniKorn's gang scheduling: the application is the gang, and its task groups are the roles.

Pods that name no task group belong to no gang, even if they belong to an application.
"""

from typing import Annotated, Final

import msgspec

from scheduler.model.workload import GangKey, Membership, Wish
from scheduler.objects import labels as key
from scheduler.objects.gangs.form import Format, Levels, annotated, labeled
from scheduler.objects.parsing import LONGEST_JSON, MOST, PodMetadata, Unfit, json_of, name, text, timeout

NAME: Final = "yunikorn"

_TIMEOUT: Final = "placeholderTimeoutInSeconds"
_STYLE: Final = "gangSchedulingStyle"

_KEYS: Final = {
    "quorum": key.YUNIKORN_ROLES,
    "role": key.YUNIKORN_ROLE,
    "timeout": f"{key.YUNIKORN_PARAMETERS}: {_TIMEOUT}",
}
_NO_PLACEHOLDERS: Final = (
    "Gangwright creates no placeholders for executors, and only a running driver creates executors;"
    " remove the task group from the driver, and make the executors a gang of their own"
)


class _TaskGroup(msgspec.Struct, rename="camel"):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    min_member: Annotated[int, msgspec.Meta(ge=1, le=MOST)]


_groups: Final = json_of(list[_TaskGroup])


def _minima(said: str) -> dict[str, int]:
    groups = _groups(said)
    minima = {name(group.name): group.min_member for group in groups}
    if not minima or len(minima) != len(groups):
        raise Unfit("a list that names each task group once")
    return minima


def _read(sheet: PodMetadata, gang: GangKey, _levels: Levels) -> Membership:
    role = sheet.annotation(key.YUNIKORN_ROLE, name)
    minima = sheet.annotation(key.YUNIKORN_ROLES, _minima, longest=LONGEST_JSON)
    if minima is not None and role not in minima:
        remedy = f"must be one of the task groups: {', '.join(sorted(minima))}"
        sheet.complain(key.YUNIKORN_ROLE, role or "", remedy)
    if minima is not None and len(minima) > 1 and key.YUNIKORN_APP_SPARK in sheet.labels:
        sheet.overlooked(key.YUNIKORN_ROLES, sheet.annotations[key.YUNIKORN_ROLES], _NO_PLACEHOLDERS)
    return Membership(gang, NAME, role=role or "", quorum=minima, wish=_wish(sheet), keys=_KEYS)


def _wish(sheet: PodMetadata) -> Wish:
    said = sheet.annotation(key.YUNIKORN_PARAMETERS, text, fatal=False) or ""
    parameters = dict(part.split("=", 1) for part in said.split() if "=" in part)
    if parameters.get(_STYLE) == "Soft":
        sheet.overlooked(
            key.YUNIKORN_PARAMETERS,
            said,
            "a gang that does not fit waits; its pods are not placed one by one",
        )
    return Wish(timeout=sheet.parsed(_KEYS["timeout"], parameters.get(_TIMEOUT), timeout, fatal=False))


FORMAT: Final = Format(
    NAME,
    (
        *labeled(key.YUNIKORN_APP),
        *annotated(key.YUNIKORN_APP),
        *labeled(key.YUNIKORN_APP_LEGACY),
        *annotated(key.YUNIKORN_APP_LEGACY),
        *labeled(key.YUNIKORN_APP_SPARK),
    ),
    _read,
    beside=(key.YUNIKORN_ROLE, key.YUNIKORN_ROLES),
)
