"""Keys under our prefix that nobody reads: which of ours was meant.

A key that is misspelt, or stands among the labels and not the annotations, says nothing to anybody, and a gang would be
placed as if it were not there. Lives here: how such keys are found. Never here: what a value may say (`gangs`,
`notes`). A key that resembles none of ours is somebody else's affair.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from scheduler.objects import labels
from scheduler.objects.parsing import SHOWN

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
"""So much of two words must agree: `stratgy` is a slip, `port` is a word of somebody's."""

MOST: Final = 8
"""Keys of one pod that are looked at: whoever writes thousands must not cost us a second."""


def slips(texts: Mapping[str, str], *, are_labels: bool) -> Iterator[tuple[str, str, str]]:
    """Key, value, and what would be right, for each of these labels or annotations that nobody reads."""
    odd = [key for key in texts if key.startswith(labels.OURS) and not _is_read(key, are_labels=are_labels)]
    for key in odd[:MOST]:
        meant = _meant(key)
        if meant:
            place = "label" if meant in LABELS else "annotation"
            yield key, texts[key][: SHOWN + 1], f"write the {place} {meant}; this is not read"


def _is_read(key: str, *, are_labels: bool) -> bool:
    return key in KNOWN and (key in LABELS) is are_labels


@lru_cache(maxsize=1024)
def _meant(key: str) -> str:
    """The key of ours that is most like this one; empty where none is like it."""
    word = key.removeprefix(labels.OURS)[:64]
    return "".join(labels.OURS + own for own in get_close_matches(word, _WORDS, 1, CLOSE))
