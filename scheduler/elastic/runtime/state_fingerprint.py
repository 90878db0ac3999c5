"""What a state is made of, so that two workers know before they synchronise whether they can.

A broadcast of four tensors to a worker that expects three never ends: an unbuilt Keras optimizer has one variable, a
built one three to five. So shapes and dtypes are compared at the barrier, where a difference is a sentence. Names do
not
count: Keras numbers layers by how many were made before. Pure.
"""

from __future__ import annotations

import hashlib
from typing import Sequence

LISTED = 40
"""Tensors that a description names one by one: enough to see where two models part."""


def digest(shapes: Sequence[str], attributes: Sequence[str]) -> str:
    """A hash over the tensors in their order and the names of the plain values."""
    text = "\n".join([*shapes, "--", *sorted(attributes)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def describe(shapes: Sequence[str], attributes: Sequence[str]) -> str:
    """The same for a person: how many tensors, which, and the names of the plain values."""
    listed = ", ".join(shapes[:LISTED]) + (", …" if len(shapes) > LISTED else "")
    return f"{len(shapes)} tensors ({listed}) and {', '.join(sorted(attributes)) or 'no plain values'}"


def shape(dtype: str, dimensions: Sequence[int]) -> str:
    """One tensor in words: `float32[3,3,16]`."""
    return f"{dtype}[{','.join(str(one) for one in dimensions)}]"
