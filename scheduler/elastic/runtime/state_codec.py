"""The form of a state in a checkpoint, and its comparison at the barrier. Pure.

A checkpoint holds nested dicts, lists, plain values and arrays as one JSON text and a table of arrays, without pickle.
In addition to its tensors, a state holds what the script put there: counters, lists, a sampler's dictionary. An object
of another class has no such form and is rejected by name when it is saved, not when it is restored.

The barrier compares the composition of states, so that two workers know whether they can synchronize before they do. A
broadcast of four tensors to a worker that expects three never ends: an unbuilt Keras optimizer has one variable, a
built one three to five. So shapes and dtypes are compared. Names do not count, because Keras numbers layers by the
number created before.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Callable, Mapping, Sequence

from .runtime_errors import CheckpointError

ARRAY, SCALAR, ITEMS, TUPLE = "$array", "$scalar", "$items", "$tuple"

LISTED = 40
"""Maximum tensors in a description: enough to see where two models differ."""


def pack(tree: Any, as_array: Callable[[Any], Any]) -> tuple[str, dict[str, Any]]:
    """(JSON text, arrays by name). `as_array(leaf)` returns an array for a tensor, else None."""
    arrays: dict[str, Any] = {}

    def go(node: Any, where: str) -> Any:
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if isinstance(node, Mapping):
            return {ITEMS: [[go(key, where), go(value, f"{where}.{key}")] for key, value in node.items()]}
        if isinstance(node, (list, tuple)):
            listed = [go(one, f"{where}[{number}]") for number, one in enumerate(node)]
            return {TUPLE: listed} if isinstance(node, tuple) else listed
        if _is_number(node) and isinstance(node.item(), (bool, int, float, str)):
            return node.item()
        array = _array(node, where, as_array)
        name = f"a{len(arrays)}"
        arrays[name] = array
        return {SCALAR if _is_number(node) else ARRAY: name}

    return json.dumps(go(tree, "")), arrays


def unpack(text: str, arrays: Mapping[str, Any]) -> Any:
    """The nested value that was passed to `pack`; tensors come back as arrays."""

    def go(node: Any) -> Any:
        if isinstance(node, list):
            return [go(one) for one in node]
        if not isinstance(node, dict):
            return node
        if ARRAY in node:
            return arrays[node[ARRAY]]
        if SCALAR in node:
            return arrays[node[SCALAR]][()]
        if TUPLE in node:
            return tuple(go(one) for one in node[TUPLE])
        return {go(key): go(value) for key, value in node[ITEMS]}

    return go(json.loads(text))


def _array(node: Any, where: str, as_array: Callable[[Any], Any]) -> Any:
    """The array of a tensor. Raises CheckpointError if there is none, or if a file cannot hold it."""
    try:
        array = as_array(node)
    except TypeError as error:  # a tensor whose type or layout numpy does not know
        raise CheckpointError(f"a checkpoint cannot hold {where or 'the state'}: {error}") from error
    if not hasattr(array, "dtype"):  # None, or the bytes of a string
        raise CheckpointError(
            f"a checkpoint cannot hold {where or 'the state'}: its type is {type(node).__name__}"
        )
    if array.dtype.hasobject:
        raise CheckpointError(f"a checkpoint cannot hold {where or 'the state'}: it is an array of objects")
    return array


def _is_number(node: Any) -> bool:
    """Whether it is a numpy scalar, not an array without dimensions. It comes back as a Python number, or unchanged (a
    date, a complex number).
    """
    return hasattr(node, "item") and hasattr(node, "dtype") and not hasattr(node, "__len__")


def digest(shapes: Sequence[str], attributes: Sequence[str]) -> str:
    """A hash over the tensors in their order and the names of the plain values."""
    text = "\n".join([*shapes, "--", *sorted(attributes)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def describe(shapes: Sequence[str], attributes: Sequence[str]) -> str:
    """The same as readable text: the number of tensors, their shapes, and the names of the plain values."""
    listed = ", ".join(shapes[:LISTED]) + (", …" if len(shapes) > LISTED else "")
    return f"{len(shapes)} tensors ({listed}) and {', '.join(sorted(attributes)) or 'no plain values'}"


def shape(dtype: str, dimensions: Sequence[int]) -> str:
    """Text for one tensor: `float32[3,3,16]`."""
    return f"{dtype}[{','.join(str(one) for one in dimensions)}]"
