"""Strict parsing of user-written labels and annotations, and the complaints about them.

Lives here: the parsers of single values; `PodMetadata`, which reads the labels and annotations of one object and keeps
the complaints; unknown keys with Gangwright's prefix. Never here: the meaning of keys (`gangs`). Why strict: an
annotation is untrusted text, and a misread number moves a whole gang. Why nothing raises: one bad pod must not block
the others.

A misspelled key, or a label in place of an annotation, would have no effect without notice, so it is a complaint. A
removed key is a complaint for one version. A key that resembles no known one is ignored.
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
"""Bytes of a value at most. A name has at most 253."""

LONGEST_JSON: Final = 16 * 1024
"""Bytes of a JSON document at most."""

SHOWN: Final = 64
"""Characters of an invalid value that messages show."""

MOST: Final = 100_000
"""More members than any cluster has pods. The policy's own limit is far lower."""

DAY: Final = 86400.0
YEAR: Final = 365 * DAY

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_FLAGS: Final = {"true": True, "false": False}


class Unfit(ValueError):  # noqa: N818 - never leaves this package
    """The value is invalid for the field. The text completes "must be …"."""


Parser = Callable[[str], T]


def shown(text: str) -> str:
    """The beginning of an untrusted text, on one line, without unprintable characters."""
    head = printable(text[:SHOWN])
    return head if len(text) <= SHOWN else f"{head}…"


def printable(text: str) -> str:
    """The text with unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def name(text: str) -> str:
    """A name in the syntax of labels and Kubernetes objects."""
    if not _NAME.fullmatch(text):
        raise Unfit("a name of at most 253 letters, digits, '-', '_' and '.'")
    return text


def text(text: str) -> str:
    """Any non-empty text."""
    if not text:
        raise Unfit("a non-empty text")
    return text


def count(text: str) -> int:
    """A whole number of members, at least 1."""
    number = int(text) if _WHOLE.fullmatch(text) else 0
    if not 1 <= number <= MOST:
        raise Unfit(f"a whole number from 1 to {MOST}")
    return number


def flag(text: str) -> bool:
    if text not in _FLAGS:
        raise Unfit("true or false")
    return _FLAGS[text]


def duration(least: float, most: float) -> Parser[float]:
    """Seconds, from a Go duration (`90s`, `1h30m`) or a plain number of seconds."""

    def parse(text: str) -> float:
        seconds = float(text) if _NUMBER.fullmatch(text) else durations.seconds(text)
        if seconds is None or not least <= seconds <= most:
            raise Unfit(f"a duration such as 90s, 5m or 1h30m, from {least:g}s to {most / 3600:g}h")
        return seconds

    return parse


def moment(text: str) -> float:
    """Seconds since the epoch, from an RFC 3339 time. A time without a zone is in UTC."""
    try:
        return times.seconds(text)
    except ValueError:
        raise Unfit("an RFC 3339 time such as 2026-03-01T09:30:00Z") from None


def word(table: Mapping[str, T]) -> Parser[T]:
    """One of the keys of a table."""

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
            raise Unfit(f"valid JSON ({shown(str(error))})") from None

    return parse


timeout: Final = duration(1.0, 7 * DAY)
runtime: Final = duration(1.0, 3 * YEAR)


class PodMetadata:
    """The labels and annotations of one object, parsed strictly.  complaints: what is wrong with them."""

    def __init__(self, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None) -> None:
        self.labels: Mapping[str, str] = labels or {}
        self.annotations: Mapping[str, str] = annotations or {}
        self.complaints: list[Complaint] = []

    @property
    def refused(self) -> bool:
        """A complaint is fatal, so the whole object is rejected."""
        return any(complaint.fatal for complaint in self.complaints)

    def complain(self, field: str, value: str, remedy: str, *, fatal: bool = True) -> None:
        self.complaints.append(Complaint(field, shown(value), remedy, fatal))

    def overlooked(self, field: str, value: str, why: str) -> None:
        """Complain of a value that Gangwright does not support. The rest of the object applies."""
        self.complain(field, value, f"ignored: {why}", fatal=False)

    def label(self, key: str, parse: Parser[T], *, fatal: bool = True) -> T | None:
        """The value of a label. None: it is missing or invalid."""
        return self.parsed(key, self.labels.get(key), parse, fatal=fatal)

    def annotation(
        self, key: str, parse: Parser[T], *, fatal: bool = True, longest: int = LONGEST
    ) -> T | None:
        """The value of an annotation. None: it is missing or invalid."""
        return self.parsed(key, self.annotations.get(key), parse, fatal=fatal, longest=longest)

    def parsed(
        self, key: str, said: str | None, parse: Parser[T], *, fatal: bool = True, longest: int = LONGEST
    ) -> T | None:
        """The value of a text under this key. None: it is missing or invalid."""
        if said is None:
            return None
        if len(said) > longest or len(said.encode("utf-8", "replace")) > longest:
            self.complain(key, said, f"must be at most {longest} bytes", fatal=fatal)
            return None
        try:
            return parse(said)
        except Unfit as unfit:
            self.complain(key, said, f"must be {unfit}", fatal=fatal)
            return None


LABELS: Final = frozenset({labels.GANG, labels.SURPLUS, labels.ELASTIC_JOB, labels.ELASTIC_ROLE})
"""Gangwright's keys that are labels. All others on a pod are annotations."""

KNOWN: Final = frozenset(
    value for value in vars(labels).values() if isinstance(value, str) and value.startswith(labels.OURS)
)

_WORDS: Final = sorted(
    own.removeprefix(labels.OURS)
    for own in (KNOWN & labels.SAID) | {labels.CHECKPOINTED_AT}
    if own not in {labels.ELASTIC_JOB, labels.ELASTIC_ROLE}
)
"""The keys that users may set on a pod, without the prefix. Sorted, so that a misspelling always matches the same key."""

CLOSE: Final = 0.75
"""The similarity of two words that makes one a misspelling: `stratgy` is one, `port` is not."""

REMOVED: Final[Mapping[str, str]] = {labels.OURS + "gain": "remove it; it no longer has any effect"}
"""Keys that the previous version read, and what to do instead."""

MOST_KEYS: Final = 8
"""Keys to check per pod, so that a pod with thousands of keys does not cost a second."""


def slips(
    written: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> list[tuple[str, str, str]]:
    """Key, value and fix for each of these labels and annotations that is ignored."""
    of_labels = _slips(written or {}, are_labels=True)
    return [*of_labels, *_slips(annotations or {}, are_labels=False)]


def _slips(texts: Mapping[str, str], *, are_labels: bool) -> Iterator[tuple[str, str, str]]:
    odd = [key for key in texts if key.startswith(labels.OURS) and not _is_read(key, are_labels=are_labels)]
    for key in odd[:MOST_KEYS]:
        meant = _meant(key)
        place = "label" if meant in LABELS else "annotation"
        remedy = REMOVED.get(key, f"use the {place} {meant}; this key is ignored" if meant else "")
        if remedy:
            yield key, texts[key][: SHOWN + 1], remedy


def _is_read(key: str, *, are_labels: bool) -> bool:
    return key in KNOWN and (key in LABELS) is are_labels


@lru_cache(maxsize=1024)
def _meant(key: str) -> str:
    """The known key that is most similar to this one. Empty: none is similar."""
    word = key.removeprefix(labels.OURS)[:64]
    return "".join(labels.OURS + own for own in get_close_matches(word, _WORDS, 1, CLOSE))
