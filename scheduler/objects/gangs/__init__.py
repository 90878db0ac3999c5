"""The readers of gang formats: which gang a pod belongs to, in any supported format.

Lives here: one small file per format, tried in a fixed order, and the rule for pods with two formats. Never here: the
groups themselves (`groups`), or which members exist. Nothing in here raises: invalid input becomes a complaint.

Why an invalid pod still belongs to the gang that it names: the pods of one invalid template then show as one gang in
every list. The ledger does not count such a pod, so it does not affect the gang's valid members.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from scheduler.model.workload import Complaint, GangKey, Membership, Wish
from scheduler.objects.gangs import kai, koordinator, kueue, ours, scheduler_plugins, volcano, yunikorn
from scheduler.objects.gangs.form import Format, Levels
from scheduler.objects.parsing import PodMetadata, name, shown

FORMATS: Final[tuple[Format, ...]] = tuple(
    own.FORMAT for own in (ours, scheduler_plugins, volcano, koordinator, kueue, yunikorn, kai)
)
"""In order of precedence: if two formats name the same gang, the first one applies."""


class Reading(NamedTuple):
    """What a pod specifies about its gang.  alone: the wish of a pod without a gang for its own placement."""

    membership: Membership | None = None
    complaints: tuple[Complaint, ...] = ()
    alone: Wish | None = None


def read(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str], levels: Levels
) -> Reading:
    """What these labels and annotations of a pod specify about its gang."""
    sheet = PodMetadata(labels, annotations)
    kai.refuse_fractions(sheet)
    found = [(form, naming) for form in FORMATS if (naming := form.naming(sheet)) is not None]
    wish = ours.wish(sheet)
    if not found:
        ours.stray(sheet)
        alone = None if wish == Wish() or sheet.refused else wish
        return Reading(None, tuple(sheet.complaints), alone)
    form, naming = found[0]
    gang = sheet.parsed(naming.key, naming.gang, name)
    for _, other in found[1:]:  # two formats with different gangs are ambiguous
        if other.gang != naming.gang:
            said = f"{shown(naming.gang)} and {shown(other.gang)}"
            sheet.complain(naming.key, said, f"name only one gang; {other.key} names another")
    if gang is None:
        return Reading(None, tuple(sheet.complaints))
    membership = form.read(sheet, GangKey(namespace, gang), levels)
    if form is not ours.FORMAT:
        ours.stray(sheet)
    whole = replace(
        membership,
        surplus=ours.surplus(sheet),
        wish=wish.over(membership.wish),
        refused=sheet.refused,
        keys={said: key for said, key in membership.keys.items() if getattr(wish, said, None) is None},
    )
    return Reading(whole, tuple(sheet.complaints))
