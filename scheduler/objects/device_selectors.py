"""Which devices a selector selects: CEL expressions over the attributes of a device.

Lives here: `Selectors`, which keeps what expressions result in. Never here: the evaluation of CEL (`device_cel`), which
is loaded with the first expression; requests, classes or nodes.

A cluster has many more devices than kinds of devices, and every device has unique attributes (a UUID). So the result of
an expression is kept by the values that it has read: a tree with one level per attribute read. Everything is bounded: the
length of an expression, the steps of one evaluation and of all evaluations.

Kubernetes rejects a claim whose expression fails on a device that it tries. Here the expression is unsupported then, and
so is an expression with functions that are not registered.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.objects.device_facts import Facts, Key, Value

LONGEST: Final = 10 * 1024
"""Characters of an expression at most, as in the API."""

STEPS: Final = 10_000
"""Steps of one evaluation at most: about 50 ms."""

ALL_STEPS: Final = 100_000
"""Steps of all evaluations of one expression at most: about half a second. A usual selector takes 60 steps."""

EXPRESSIONS: Final = 512
"""Expressions that are kept."""


class Unsupported(Exception):  # noqa: N818 - a word of the field; never leaves this package
    """Why an expression cannot be evaluated. The text completes "the selector is not supported: …"."""


@dataclass(slots=True)
class _Branch:
    """One attribute that an expression has read, and what follows for each value."""

    key: Key
    then: dict[Value | None, "_Branch | bool | str"] = field(default_factory=dict)


class Selectors:
    """Evaluates expressions, and keeps the results."""

    def __init__(self) -> None:
        self._known: dict[str, _Expression] = {}

    def match(self, expressions: tuple[str, ...], facts: Facts) -> bool:
        """Whether all of these expressions hold. Raises Unsupported."""
        return all(self._expression(text).holds(facts) for text in expressions)

    def _expression(self, text: str) -> "_Expression":
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= EXPRESSIONS:
                self._known.clear()
            known = self._known[text] = _Expression(text)
        return known


class _Expression:
    """One expression, and its results so far."""

    def __init__(self, text: str) -> None:
        self._left = ALL_STEPS
        self._tree: Any = None
        self._root: _Branch | bool | str | None = None
        """The tree of results. A text: why an evaluation failed."""
        if len(text) > LONGEST:
            self._root = f"an expression has more than {LONGEST} characters"
            return
        try:
            self._tree = _cel().parsed(text)
        except Exception:  # noqa: BLE001 - whatever the parser raises, for whatever was written
            self._root = "an expression cannot be parsed"

    def holds(self, facts: Facts) -> bool:
        found = self._root
        while isinstance(found, _Branch):
            found = found.then.get(facts.read(found.key))
        if found is None:
            found = self._learn(facts)
        if isinstance(found, str):
            raise Unsupported(found)
        return found

    def _learn(self, facts: Facts) -> bool | str:
        """Evaluate the expression, and add what it read and its result to the tree."""
        if self._left <= 0:
            return "an expression takes too long for this many kinds of devices"
        read: dict[Key, Value | None] = {}

        def reading(key: Key) -> Value | None:
            return read.setdefault(key, facts.read(key))

        steps = min(STEPS, self._left)
        result: bool | str
        result, left = _cel().evaluated(self._tree, reading, steps)
        self._left -= steps - left
        if left < 0 and steps < STEPS:
            return result  # this device would have a result, so nothing is kept
        grown: _Branch | bool | str = result
        for key, value in reversed(read.items()):
            grown = _Branch(key, {value: grown})
        self._root = _merged(self._root, grown)
        return result


def _merged(tree: _Branch | bool | str | None, path: _Branch | bool | str) -> _Branch | bool | str:
    """The tree with one more path. What an evaluation reads next depends on what it has read, so paths only fork."""
    if not isinstance(tree, _Branch) or not isinstance(path, _Branch):
        return path
    for value, rest in path.then.items():
        tree.then[value] = _merged(tree.then.get(value), rest)
    return tree


def _cel() -> Any:
    """The evaluation, imported with the first expression, because importing the library takes several 100 ms."""
    from scheduler.objects import device_cel

    return device_cel
