"""Our own annotations `seat` and `plan`: the text, and what it says. Writing and reading are each other's inverse.

Why strict: a rebuild after a restart believes what it reads here, and a user may have written it.
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
"""Bytes; a longer plan is written deflated. Up to some 500 members a person can read it as it is."""

DEFLATED: Final = "deflated:"
"""Begins a plan that is base64 of a zlib stream of the readable text."""

LARGEST_INFLATED: Final = 4 * 1024 * 1024
"""Bytes that a deflated plan may come to: three times what 4,096 members on nodes of the longest names come to."""

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
    """Uids by node, in order, so that the same plan is always the same text; deflated where it is long.

    victims: who has to leave before the seats are free; left out where there are more than an annotation can hold.
    4,096 members, each on a node of its own whose name of 63 characters ends in ten random ones, come to 176 kB.
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
        raise Unfit("a plan gives every member one seat")
    return PlanNote(said.plan, seats, tuple(map(Uid, said.victims)))


def _inflated(text: str) -> str | bytes:
    if not text.startswith(DEFLATED) or len(text) > LONGEST_PLAN:
        return text
    try:
        stream = zlib.decompressobj()
        inflated = stream.decompress(b64decode(text[len(DEFLATED) :], validate=True), LARGEST_INFLATED)
    except (zlib.error, ValueError) as error:
        raise Unfit(f"it is not what Gangwright writes ({shown(str(error))})") from None
    if not stream.eof:
        raise Unfit(f"it is cut off, or longer than {LARGEST_INFLATED} bytes when inflated")
    return inflated


def _decode(decoder: "msgspec.json.Decoder[T]", text: str | bytes) -> T:
    if isinstance(text, str) and len(text) > LONGEST_PLAN:
        raise Unfit(f"it is longer than {LONGEST_PLAN} bytes")
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unfit(f"it is not what Gangwright writes ({shown(str(error))})") from None
