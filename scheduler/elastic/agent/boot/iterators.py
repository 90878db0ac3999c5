"""Copies of Python's own iterators, with all that they draw from, so that the original stays where it is.

`copy.copy` is not enough: a copied `enumerate` draws from the iterator that the original draws from. Never here:
generators and iterators of libraries, which tell nothing of their place.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Tuple

SHARED = {itertools.groupby, type(itertools.tee("")[0])}
"""Types whose copies share more than what they draw from."""


Known = Dict[int, Tuple[Any, Any]]
"""Originals, by identity, with their copies; an original that lives on leaves its identity to no other."""


class NotCopied(Exception):  # noqa: N818 - read as a word where it is caught
    """An iterator, one that it draws from, or a tensor, cannot be copied."""


def is_iterator(value: Any) -> bool:
    """Whether it is one, of any kind. The type is asked: libraries have objects that answer to every name."""
    return hasattr(type(value), "__next__")


def copied(value: Any, inner: Callable[[Any], Any], known: Known) -> Any:
    """A copy at the same place. `inner` gives what the copy has in place of anything else that the original refers to.
    Two that draw from one do so still, by what is `known`.
    """
    if id(value) in known:
        return known[id(value)][1]
    if not _tells(value):
        raise NotCopied
    make, arguments, state = (*value.__reduce__(), None)[:3]

    def other(one: Any) -> Any:
        if type(one) is tuple:
            return tuple(other(part) for part in one)
        return copied(one, inner, known) if _tells(one) else inner(one)

    copy = make(*other(arguments))
    if state is not None:
        copy.__setstate__(_own(other(state)))
    known[id(value)] = value, copy
    return copy


def _tells(value: Any) -> bool:
    """Whether its `__reduce__` says all of its place. From Python 3.14 on those of itertools have none."""
    kind = type(value)
    return (
        is_iterator(value)
        and kind.__module__ in {"builtins", "itertools"}
        and "__reduce__" in vars(kind)
        and kind not in SHARED
    )


def _own(state: Any) -> Any:
    """`cycle` adds to its list of what it has seen."""
    return tuple(list(one) if type(one) is list else one for one in state) if type(state) is tuple else state
