"""Gangwright's own format: the label `gangwright.io/gang`, and annotations for the rest.

Invalid values are never guessed: the pod is rejected until they are fixed. The annotations for the placement (`wish`)
also apply to gangs that another format names, and to pods without a gang.
"""

from collections.abc import Mapping
from typing import Final

from scheduler.model.workload import GangKey, GiveWay, Membership, OnMemberLoss, Pin, Strategy, Wish
from scheduler.objects import labels as key
from scheduler.objects.gangs.form import Format, Levels, labeled
from scheduler.objects.parsing import MOST, PodMetadata, Unfit, count, flag, name, runtime, timeout, word

NAME: Final = "gangwright"

_strategy: Final = word({own.value: own for own in Strategy})
_pin: Final = word({own.value: own for own in Pin})
_give_way: Final = word({own.value: own for own in GiveWay})
_loss: Final = word({own.value: own for own in OnMemberLoss})

WHO: Final = (key.MIN_MEMBERS, key.MEMBERS, key.ROLE)
"""Annotations that have no effect without the gang's label."""


def quorum(text: str) -> Mapping[str, int]:
    """`5`, or a minimum for each role: `ps=1,worker=4`."""
    if "=" not in text:
        return {"": count(text)}
    minima: dict[str, int] = {}
    for part in text.split(","):
        role, _, number = part.strip().partition("=")
        if name(role) in minima:
            raise Unfit("a list that names each role once")
        minima[role] = count(number)
    if sum(minima.values()) > MOST:
        raise Unfit(f"a list of minima with a sum of at most {MOST}")
    return minima


def _read(sheet: PodMetadata, gang: GangKey, _levels: Levels) -> Membership:
    minima = sheet.annotation(key.MIN_MEMBERS, quorum)
    size = sheet.annotation(key.MEMBERS, count)
    role = sheet.annotation(key.ROLE, name) or ""
    if key.MIN_MEMBERS not in sheet.annotations:
        sheet.complain(key.MIN_MEMBERS, "", "is required; set the minimum number of members, such as 5")
    if minima is not None and "" not in minima and role not in minima:
        known = ", ".join(sorted(minima))
        sheet.complain(key.ROLE, role, f"must be one of the roles with a minimum: {known}")
    if minima is not None and size is not None and sum(minima.values()) > size:
        remedy = f"must be at most {size}, the value of {key.MEMBERS}"
        sheet.complain(key.MIN_MEMBERS, sheet.annotations[key.MIN_MEMBERS], remedy)
    return Membership(gang, NAME, role=role, quorum=minima, size=size)


def wish(sheet: PodMetadata) -> Wish:
    """What Gangwright's annotations specify about the placement."""
    return Wish(
        strategy=_strategy_of(sheet),
        level=sheet.annotation(key.LEVEL, name),
        required=sheet.annotation(key.LEVEL_REQUIRED, flag),
        timeout=sheet.annotation(key.TIMEOUT, timeout),
        start_timeout=sheet.annotation(key.START_TIMEOUT, timeout),
        expected_runtime=sheet.annotation(key.EXPECTED_RUNTIME, runtime),
        max_runtime=sheet.annotation(key.MAX_RUNTIME, runtime),
        pin=sheet.annotation(key.PIN, _pin),
        on_member_loss=sheet.annotation(key.ON_MEMBER_LOSS, _loss),
        give_way=sheet.annotation(key.PREEMPTION, _give_way),
    )


def _strategy_of(sheet: PodMetadata) -> Strategy | None:
    """The strategy. A value of the previous version is a complaint, and the nearest strategy applies."""
    said = sheet.annotations.get(key.STRATEGY)
    if said != "dot":
        return sheet.annotation(key.STRATEGY, _strategy)
    sheet.complain(key.STRATEGY, said, "use cosine, which applies now; dot was removed", fatal=False)
    return Strategy.COSINE


def surplus(sheet: PodMetadata) -> bool:
    """Whether the member is above the quorum."""
    return sheet.label(key.SURPLUS, flag) or False


def stray(sheet: PodMetadata) -> None:
    """Complain of annotations that have no effect without a gang."""
    for said in WHO:
        if said in sheet.annotations:
            sheet.complain(
                said, sheet.annotations[said], f"set the label {key.GANG}, or remove this annotation"
            )


FORMAT: Final = Format(NAME, labeled(key.GANG), _read, empty=True)
