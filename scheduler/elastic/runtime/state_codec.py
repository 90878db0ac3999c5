"""A nest of dicts, lists, plain values and arrays as one JSON text and a table of arrays, and back. No pickle. Pure.

What a state holds beside its tensors is whatever a script put there: counters, lists, a sampler's dictionary. What has
no such form (an object of a class) is refused by name, for nobody should find out at a restore.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping

from .runtime_errors import CheckpointError

ARRAY, SCALAR, ITEMS, TUPLE = "$array", "$scalar", "$items", "$tuple"


def pack(tree: Any, as_array: Callable[[Any], Any]) -> tuple[str, dict[str, Any]]:
    """(JSON text, arrays by name). `as_array(leaf)` gives an array for what is a tensor, else None."""
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
    """The nest that `pack` was given; tensors come back as arrays."""

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
    """The array of a tensor. Raises CheckpointError when there is none, or a file would not give it back."""
    try:
        array = as_array(node)
    except TypeError as error:  # a tensor whose type or layout numpy does not know
        raise CheckpointError(f"{where or 'the state'} is nothing a checkpoint can hold: {error}") from error
    if not hasattr(array, "dtype"):  # none, or the bytes of a text
        raise CheckpointError(
            f"{where or 'the state'} is a {type(node).__name__}, which no checkpoint can hold"
        )
    if array.dtype.hasobject:
        raise CheckpointError(f"{where or 'the state'} is an array of objects, which no checkpoint can hold")
    return array


def _is_number(node: Any) -> bool:
    """A number of numpy's, which is not an array of no dimensions: it comes back as Python's, or as it was (a date, a
    complex number).
    """
    return hasattr(node, "item") and hasattr(node, "dtype") and not hasattr(node, "__len__")
