"""The strict reading of what people write into labels and annotations, and the complaints about it.

Lives here: the parsers of single values, `PodMetadata`, which reads one object's labels and annotations and keeps what is
wrong, and keys under our prefix that say nothing. Never here: which key means what (`gangs`). Why strict: an annotation
is a stranger's text, and a number read wrongly moves a whole gang. Why nothing raises: one bad pod must not hold up the
rest.

A key that is misspelled, or stands among the labels and not the annotations, says nothing, and a gang would be placed as
if it were not there. A key that was removed is told of for one version. A key that resembles none of ours is not our
affair.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from scheduler.model import durations
from scheduler.model.workload import Complaint
from scheduler.objects import labels, times

T = TypeVar("T")

LONGEST: Final = 256
"""Bytes of a value that is read at all; a name has at most 253."""

LONGEST_JSON: Final = 16 * 1024
"""Bytes of a value that is a JSON document."""

SHOWN: Final = 64
"""Characters of a wrong value that are shown to people."""

MOST: Final = 100_000
"""More members than any cluster has pods for; the policy's own limit is far below."""

DAY: Final = 86400.0
YEAR: Final = 365 * DAY

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_FLAGS: Final = {"true": True, "false": False}


class Unfit(ValueError):  # noqa: N818 - never leaves this room
    """The value is not what the field takes; the text says what would be right."""


Parser = Callable[[str], T]


def shown(text: str) -> str:
    """The beginning of a stranger's text, on one line, without anything unprintable."""
    head = printable(text[:SHOWN])
    return head if len(text) <= SHOWN else f"{head}…"


def printable(text: str) -> str:
    """The text, with all that a terminal would not simply print spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def name(text: str) -> str:
    """A name as labels and Kubernetes objects have it."""
    if not _NAME.fullmatch(text):
        raise Unfit("a name of at most 253 letters, digits, '-', '_' and '.'")
    return text


def text(text: str) -> str:
    """Any text that is not empty."""
    if not text:
        raise Unfit("something")
    return text


def count(text: str) -> int:
    """A whole number of members, at least one."""
    number = int(text) if _WHOLE.fullmatch(text) else 0
    if not 1 <= number <= MOST:
        raise Unfit(f"a whole number from 1 to {MOST}")
    return number


def flag(text: str) -> bool:
    if text not in _FLAGS:
        raise Unfit("true or false")
    return _FLAGS[text]


def duration(least: float, most: float) -> Parser[float]:
    """Seconds, from Go's way of writing (`90s`, `1h30m`) or a plain number of seconds."""

    def parse(text: str) -> float:
        seconds = float(text) if _NUMBER.fullmatch(text) else durations.seconds(text)
        if seconds is None or not least <= seconds <= most:
            raise Unfit(f"a duration such as 90s, 5m or 1h30m, from {least:g}s to {most / 3600:g}h")
        return seconds

    return parse


def moment(text: str) -> float:
    """Seconds since the epoch, of an RFC 3339 time; one that says no zone is in UTC."""
    try:
        return times.seconds(text)
    except ValueError:
        raise Unfit("an RFC 3339 time such as 2026-03-01T09:30:00Z") from None


def word(table: Mapping[str, T]) -> Parser[T]:
    """One of the words of a table."""

    def parse(text: str) -> T:
        if text not in table:
            raise Unfit("one of " + ", ".join(sorted(table)))
        return table[text]

    return parse


def json_of(kind: type[T]) -> Parser[T]:
    """A JSON document of this type."""
    decoder = msgspec.json.Decoder(kind)

    def parse(text: str) -> T:
        try:
            return decoder.decode(text.encode())
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Unfit(f"JSON that can be read ({shown(str(error))})") from None

    return parse


timeout: Final = duration(1.0, 7 * DAY)
runtime: Final = duration(1.0, 3 * YEAR)


class PodMetadata:
    """The labels and annotations of one object, read strictly; `complaints` holds what is wrong with them."""

    def __init__(self, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None) -> None:
        self.labels: Mapping[str, str] = labels or {}
        self.annotations: Mapping[str, str] = annotations or {}
        self.complaints: list[Complaint] = []

    @property
    def refused(self) -> bool:
        """Something is so wrong that the object cannot be honoured at all."""
        return any(complaint.fatal for complaint in self.complaints)

    def complain(self, field: str, value: str, remedy: str, *, fatal: bool = True) -> None:
        self.complaints.append(Complaint(field, shown(value), remedy, fatal))

    def overlooked(self, field: str, value: str, why: str) -> None:
        """The format says something here that Gangwright does not do; the rest is honoured."""
        self.complain(field, value, f"not honoured: {why}", fatal=False)

    def label(self, key: str, parse: Parser[T], *, fatal: bool = True) -> T | None:
        """What a label says; None where it is missing or wrong."""
        return self.parsed(key, self.labels.get(key), parse, fatal=fatal)

    def annotation(
        self, key: str, parse: Parser[T], *, fatal: bool = True, longest: int = LONGEST
    ) -> T | None:
        """What an annotation says; None where it is missing or wrong."""
        return self.parsed(key, self.annotations.get(key), parse, fatal=fatal, longest=longest)

    def parsed(
        self, key: str, said: str | None, parse: Parser[T], *, fatal: bool = True, longest: int = LONGEST
    ) -> T | None:
        """What a text found under this key says; None where there is none or it is wrong."""
        if said is None:
            return None
        if len(said) > longest or len(said.encode("utf-8", "replace")) > longest:
            self.complain(key, said, f"write at most {longest} bytes", fatal=fatal)
            return None
        try:
            return parse(said)
        except Unfit as unfit:
            self.complain(key, said, f"write {unfit}", fatal=fatal)
            return None


LABELS: Final = frozenset({labels.GANG, labels.SURPLUS, labels.ELASTIC_JOB, labels.ELASTIC_ROLE})
"""Ours that are labels; all others on a pod are annotations."""

KNOWN: Final = frozenset(
    value for value in vars(labels).values() if isinstance(value, str) and value.startswith(labels.OURS)
)

_WORDS: Final = sorted(
    own.removeprefix(labels.OURS)
    for own in (KNOWN & labels.SAID) | {labels.CHECKPOINTED_AT}
    if own not in {labels.ELASTIC_JOB, labels.ELASTIC_ROLE}
)
"""What a person may write on a pod, without the prefix; in order, so that the same slip always means the same."""

CLOSE: Final = 0.75
"""So much of two words must agree: `stratgy` is a slip, `port` is another's word."""

REMOVED: Final[Mapping[str, str]] = {labels.OURS + "gain": "remove it; it has no effect any more"}
"""Keys that the version before this one read, and what to write instead."""

MOST_KEYS: Final = 8
"""Keys of one pod that are looked at: a pod with thousands must not cost a second."""


def slips(
    written: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> list[tuple[str, str, str]]:
    """Key, value, and what would be right, for each of these labels and annotations that is not read."""
    of_labels = _slips(written or {}, are_labels=True)
    return [*of_labels, *_slips(annotations or {}, are_labels=False)]


def _slips(texts: Mapping[str, str], *, are_labels: bool) -> Iterator[tuple[str, str, str]]:
    odd = [key for key in texts if key.startswith(labels.OURS) and not _is_read(key, are_labels=are_labels)]
    for key in odd[:MOST_KEYS]:
        meant = _meant(key)
        place = "label" if meant in LABELS else "annotation"
        remedy = REMOVED.get(key, f"write the {place} {meant}; this is not read" if meant else "")
        if remedy:
            yield key, texts[key][: SHOWN + 1], remedy


def _is_read(key: str, *, are_labels: bool) -> bool:
    return key in KNOWN and (key in LABELS) is are_labels


@lru_cache(maxsize=1024)
def _meant(key: str) -> str:
    """The key of ours that is most like this one; empty where none is like it."""
    word = key.removeprefix(labels.OURS)[:64]
    return "".join(labels.OURS + own for own in get_close_matches(word, _WORDS, 1, CLOSE))
