"""What befell members of a gang, told together.

Lives here: the sentence about many of them, and when it may be said: one notice a gang and reason in `announce_every`,
like everything that people are told. What befalls others meanwhile is told with the next. Never here: what counts as a
mishap, and what is done about it (healing).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from scheduler.ledger.gang import GangRecord
from scheduler.ledger.messages import Mishap, Notice, Sequel
from scheduler.model.decision import TEXT, Reason
from scheduler.model.effects import Announce
from scheduler.model.policy import Policy

TOLD: Final = 3
"""Members of one gang of which people are told by name at a time."""

_HEADED: Final = frozenset({Reason.NOT_STARTED})
"""Reasons whose text goes before what befell which member."""


def note(record: GangRecord, why: Reason, befell: Iterable[Mishap], sequel: Sequel) -> None:
    """This is to be told as soon as it may be."""
    record.untold.setdefault(why, {}).setdefault(sequel, []).extend(befell)


def due(record: GangRecord, policy: Policy, now: float) -> Iterator[Announce]:
    """What is to be said now: of each reason all that is unsaid, on the first that it befell."""
    for why in [why for why in record.untold if now >= _may_say(record, why, policy)]:
        untold = record.untold.pop(why)
        head = f"{TEXT[why]}: " if why in _HEADED else ""
        text = head + ". ".join(_sentence(befell, sequel) for sequel, befell in untold.items())
        record.notices[why] = Notice(text, now, policy.announce_every)
        pod = next(iter(untold.values()))[0].pod
        yield Announce(record.key, pod.uid, pod.key, pod.owner, why, text)


def next_due(record: GangRecord, policy: Policy) -> float:
    """When something unsaid may be said."""
    return min((_may_say(record, why, policy) for why in record.untold), default=float("inf"))


def _may_say(record: GangRecord, why: Reason, policy: Policy) -> float:
    said = record.notices.get(why)
    return float("-inf") if said is None else said.at + policy.announce_every


def _sentence(befell: Sequence[Mishap], sequel: Sequel) -> str:
    """What befell the first few, how many they are, and what follows for all of them."""
    text = ", ".join(own.text for own in befell[:TOLD])
    if len(befell) > 1:
        text = f"{len(befell)} members: {text}"
    if len(befell) > TOLD:
        text = f"{text} and {len(befell) - TOLD} more"
    follows = sequel.one if len(befell) == 1 else sequel.many
    return f"{text}; {follows}" if follows else text
