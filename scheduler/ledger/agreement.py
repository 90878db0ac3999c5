"""Whether the members of a gang say the same of it, and what they say together.

Lives here: what must be said alike, who may leave what to the others, and where a person finds what is at odds. Never
here: who is a member, or what the gang needs (roster).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from scheduler.model.workload import Complaint, Membership

_SPOKEN: Final[tuple[tuple[str, str, Callable[[Membership], object]], ...]] = (
    ("quorum", "gangwright.io/min-members", lambda m: m.quorum),
    ("size", "gangwright.io/members", lambda m: m.size),
    ("strategy", "gangwright.io/strategy", lambda m: m.wish.strategy),
    ("level", "gangwright.io/level", lambda m: m.wish.level),
    ("required", "gangwright.io/level-required", lambda m: m.wish.required),
    ("timeout", "gangwright.io/timeout", lambda m: m.wish.timeout),
    ("start_timeout", "gangwright.io/start-timeout", lambda m: m.wish.start_timeout),
    ("pin", "gangwright.io/pin", lambda m: m.wish.pin),
    ("on_member_loss", "gangwright.io/on-member-loss", lambda m: m.wish.on_member_loss),
    ("give_way", "gangwright.io/preemption", lambda m: m.wish.give_way),
    ("format", "the gang's format", lambda m: m.format),
)
"""What all members must say alike, and where a person finds it if it was not said in the words of another format."""

_NOTHING: Final = "nothing"

_MAY_BE_SILENT: Final = frozenset({"quorum"})
"""What one member may leave to the others in every format: where it must not, the pod is refused by itself."""


def disagreement(said: Sequence[Membership]) -> Complaint | None:
    """Two values of one field; or a value of ours that only some members state.

    What another format says may be missing on some members, for there one of them speaks for all: YuniKorn's driver for
    its executors, the pod of which Volcano or KAI made the group; of Kueue's pods only some may ask for a topology.
    """
    for field, ours, get in _SPOKEN:
        stated = [
            (_plain(value), own.keys.get(field, ours)) for own in said if (value := get(own)) is not None
        ]
        where = dict(stated)
        silent = len(stated) < len(said) and field not in _MAY_BE_SILENT
        if silent and stated and all(key == ours for _, key in stated):
            where[_NOTHING] = ours
        if len(where) > 1:
            values = sorted(where)[:2]
            keys = dict.fromkeys(where[value] for value in values)
            return Complaint(" and ".join(keys), " and ".join(values), "one value on all members of the gang")
    return None


def together(said: Sequence[Membership]) -> Membership:
    """What members that do not disagree say, where not all of them say all of it."""
    first = said[0]
    wish = first.wish
    for other in dict.fromkeys(own.wish for own in said):
        wish = wish.over(other)
    return replace(
        first,
        quorum=next((own.quorum for own in said if own.quorum is not None), None),
        size=next((own.size for own in said if own.size is not None), None),
        wish=replace(wish, expected_runtime=first.wish.expected_runtime),
        keys=next((own.keys for own in said if own.quorum is not None), first.keys),
    )


def _plain(value: object) -> str:
    match value:
        case dict():
            return ",".join(
                f"{role}={least}" if role else str(least) for role, least in sorted(value.items())
            )
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return str(value)
