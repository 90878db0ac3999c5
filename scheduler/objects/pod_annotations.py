"""Gangwright's annotations `seat` and `plan`: their text, and its meaning. Writing and reading are inverse to each other.

Why strict: a rebuild after a restart trusts these values, and a user may have written them.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, TypeVar

import msgspec

from scheduler.model.workload import PlanNote, SeatNote, Uid
from scheduler.objects.parsing import Unfit, shown

LONGEST_PLAN: Final = 256 * 1024
"""Bytes; the API server's limit for all annotations of an object."""

LONGEST_READABLE: Final = 32 * 1024
"""Bytes; a longer plan is written deflated. Up to about 500 members the plan is plain text."""

DEFLATED: Final = "deflated:"
"""The prefix of a plan that is base64 of a zlib stream of the plain text."""

LARGEST_INFLATED: Final = 4 * 1024 * 1024
"""The size limit of an inflated plan in bytes: three times the plan of 4,096 members on nodes with the longest names."""

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


class _Seat(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    node: _Text
    plan: _Text
    pin: bool = False


class _Plan(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    plan: _Text
    seats: dict[_Text, list[_Text]]
    victims: list[_Text] = []


_SEAT: Final = msgspec.json.Decoder(_Seat)
_PLAN: Final = msgspec.json.Decoder(_Plan)

T = TypeVar("T")


def write_seat(node: str, plan: str, *, pin: bool) -> str:
    return msgspec.json.encode(_Seat(node, plan, pin)).decode()


def write_plan(plan: str, seats: Mapping[Uid, str], victims: Iterable[Uid] = ()) -> str:
    """Uids by node, sorted, so that the same plan is always the same text. A long plan is deflated.

    victims: pods to preempt before the seats are free. They are left out if they do not fit in an annotation.
    The plan of 4,096 members, each on its own node with a name of 63 characters (the last ten random), takes 176 kB.
    """
    by_node: dict[str, list[str]] = {}
    for uid, node in sorted(seats.items()):
        by_node.setdefault(node, []).append(uid)
    seated = dict(sorted(by_node.items()))
    leaving: list[str] = sorted(victims)
    text = _packed(_Plan(plan, seated, leaving))
    return text if len(text) <= LONGEST_PLAN or not leaving else _packed(_Plan(plan, seated))


def _packed(plan: _Plan) -> str:
    text = msgspec.json.encode(plan)
    if len(text) <= LONGEST_READABLE:
        return text.decode()
    return DEFLATED + b64encode(zlib.compress(text, level=1)).decode()


def read_seat(text: str) -> SeatNote:
    """Raises Unfit."""
    said = _decode(_SEAT, text)
    return SeatNote(said.node, said.plan, said.pin)


def read_plan(text: str) -> PlanNote:
    """Raises Unfit, also for a pod that has two seats."""
    said = _decode(_PLAN, _inflated(text))
    seats = {Uid(uid): node for node, uids in said.seats.items() for uid in uids}
    if not seats or len(seats) != sum(map(len, said.seats.values())):
        raise Unfit("a plan must assign one node to every member")
    return PlanNote(said.plan, seats, tuple(map(Uid, said.victims)))


def _inflated(text: str) -> str | bytes:
    if not text.startswith(DEFLATED) or len(text) > LONGEST_PLAN:
        return text
    try:
        stream = zlib.decompressobj()
        inflated = stream.decompress(b64decode(text[len(DEFLATED) :], validate=True), LARGEST_INFLATED)
    except (zlib.error, ValueError) as error:
        raise Unfit(f"Gangwright did not write this value ({shown(str(error))})") from None
    if not stream.eof:
        raise Unfit(f"the value is truncated, or longer than {LARGEST_INFLATED} bytes when inflated")
    return inflated


def _decode(decoder: "msgspec.json.Decoder[T]", text: str | bytes) -> T:
    if isinstance(text, str) and len(text) > LONGEST_PLAN:
        raise Unfit(f"the value is longer than {LONGEST_PLAN} bytes")
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unfit(f"Gangwright did not write this value ({shown(str(error))})") from None
