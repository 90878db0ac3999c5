"""CEL expressions over a device, evaluated by the library cel-python.

Lives here: the variable `device`, the types and functions that Kubernetes adds to CEL for devices, and the bounds of an
evaluation. Never here: which expressions are evaluated, and what follows (`device_selectors`).

An expression is untrusted. The library has no bounds, so evaluations here count steps, and no operator or function builds
a long text or list. Regular expressions are RE2.
Source: `k8s.io/dynamic-resource-allocation/cel` 1.37; quantity and semver libraries of `k8s.io/apiserver/pkg/cel`.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import total_ordering
from typing import Any, Final, NoReturn, TypeAlias

import celpy
from celpy import celtypes
from celpy.celparser import CELParser
from celpy.evaluation import Activation, CELEvalError, Evaluator, base_functions

from scheduler.model.resources import InvalidQuantity, parse_quantity
from scheduler.objects.device_facts import DRIVER, Key, Value

LONGEST_VALUE: Final = 4096
"""Characters of a text, or items of a list, that an expression may build."""

Read: TypeAlias = Callable[[Key], Value | None]

_UNKNOWN: Final = "it uses a function that Gangwright does not know"
_FAILS: Final = "it fails for a device"

_PARSER: Final = CELParser(tree_class=celpy.InterpretedRunner.tree_node_class)
"""Without a celpy.Environment, which would raise the recursion limit that other code relies on."""


class _Exceeded(Exception):  # noqa: N818 - never leaves this module
    """The evaluation must end. The text says why."""


def parsed(text: str) -> Any:
    """The expression as a tree. Raises whatever the parser raises."""
    return _PARSER.parse(text)


def evaluated(tree: Any, read: Read, steps: int) -> tuple[bool | str, int]:
    """The result of the expression, or why there is none, and how many of these steps are left."""
    budget = [steps]
    try:
        found = _Bounded(tree, Activation(functions=_REGISTERED), budget).evaluate({"device": _Device(read)})
    except _Exceeded as exceeded:
        return str(exceeded), budget[0]
    except CELEvalError as error:
        unknown = str(error.args[:1]).startswith('("undeclared reference')
        return _UNKNOWN if unknown else _FAILS, budget[0]
    except RecursionError:
        return "it is nested too deeply", budget[0]
    except Exception:  # noqa: BLE001 - whatever the library raises, for whatever was written
        return _FAILS, budget[0]
    return bool(found) if isinstance(found, celtypes.BoolType) else "its result is not a boolean", budget[0]


class _Bounded(Evaluator):
    """An evaluation with a number of steps, and with `cel.bind`.  budget: one number, shared with its macros."""

    def __init__(self, ast: Any, activation: Activation, budget: list[int]) -> None:
        super().__init__(ast, activation)
        self._budget = budget

    def sub_evaluator(self, ast: Any) -> "_Bounded":
        return _Bounded(ast, self.activation, self._budget)

    def visit_children(self, tree: Any) -> list[Any]:
        self._budget[0] -= 1
        if self._budget[0] < 0:
            raise _Exceeded("it takes too long")
        return super().visit_children(tree)

    def member_dot_arg(self, tree: Any) -> Any:
        """A method or a macro. `cel.bind(name, value, expression)` is a macro that the library does not have."""
        owner, name, *rest = tree.children
        if name.value == "bind" and rest and _identifier(owner) == "cel" and len(rest[0].children) == 3:
            variable, value, expression = rest[0].children
            bound = self.visit(value)
            if isinstance(bound, CELEvalError) or (own := _identifier(variable)) is None:
                return bound
            try:
                return self.sub_evaluator(expression).evaluate({own: bound})
            except CELEvalError as error:
                return error
        return super().member_dot_arg(tree)


def _identifier(tree: Any) -> str | None:
    """The name, if this part of an expression is nothing but a name."""
    while len(getattr(tree, "children", ())) == 1:
        if tree.data == "ident":
            return str(tree.children[0])
        tree = tree.children[0]
    return None


# The variable `device`


class _Map(celtypes.MapType):
    """A map that can only be asked for a key."""

    def _whole(self, *_: object) -> NoReturn:
        raise _Exceeded("it reads all attributes of a device")

    __iter__ = __len__ = keys = values = items = __eq__ = __ne__ = __contains__ = _whole
    contains = _whole  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class _Device(_Map):
    def __init__(self, read: Read) -> None:
        super().__init__()
        self._read = read

    def __getitem__(self, key: Any) -> Any:
        match str(key):
            case "driver":
                return _as_cel(self._read(DRIVER))
            case "attributes" | "capacity" as kind:
                return _Domains(self._read, kind)
            case "allowMultipleAllocations":
                return celtypes.BoolType(False)  # devices that allow them are not modeled
            case _:
                raise KeyError(key)


class _Domains(_Map):
    """An unknown domain is an empty map, as in Kubernetes."""

    def __init__(self, read: Read, kind: str) -> None:
        super().__init__()
        self._read, self._kind = read, kind

    def __getitem__(self, key: Any) -> Any:
        return _Names(self._read, self._kind, _text(key))


class _Names(_Map):
    def __init__(self, read: Read, kind: str, domain: str) -> None:
        super().__init__()
        self._read, self._kind, self._domain = read, kind, domain

    def __getitem__(self, key: Any) -> Any:
        value = self._read((self._kind, self._domain, str(_text(key))))
        if value is None:
            raise KeyError(key)
        return _as_cel(value)

    def has(self, key: Any) -> bool:
        return self._read((self._kind, self._domain, str(_text(key)))) is not None


# Types that Kubernetes adds


@total_ordering
class _Ordered:
    """A value that CEL compares with values of its own type alone."""

    def __init__(self, rank: Any, text: str) -> None:
        self.rank, self.text = rank, text

    def __eq__(self, other: object) -> bool:
        return bool(self.rank == self._of(other).rank)

    def __lt__(self, other: object) -> bool:
        return bool(self.rank < self._of(other).rank)

    def __hash__(self) -> int:
        return hash(self.rank)

    def _of(self, other: object) -> "_Ordered":
        if type(other) is not type(self):
            raise TypeError("no such overload")
        assert isinstance(other, _Ordered)  # noqa: S101 - for the type checker
        return other


class _Quantity(_Ordered):
    """A quantity. Its rank is its number."""


class _Version(_Ordered):
    """A semantic version. Its rank orders versions as semver 2.0.0 does; build metadata does not count."""


_SEMVER: Final = re.compile(
    r"(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})(?:-([0-9A-Za-z.-]{1,128}))?(?:\+[0-9A-Za-z.-]{1,128})?",
    re.ASCII,
)


def _quantity(text: object) -> _Quantity:
    if not isinstance(text, str):
        raise TypeError("no such overload")
    try:
        return _Quantity(parse_quantity(text), text)
    except InvalidQuantity as wrong:
        raise ValueError(str(wrong)) from wrong


def _version(text: object) -> _Version:
    if not isinstance(text, str):
        raise TypeError("no such overload")
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError("not a semantic version")
    *numbers, extra = match.groups()
    # A version without a pre-release follows all of its pre-releases. Numbers come before words.
    parts = tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in (extra or "").split(".")
    )
    return _Version((*map(int, numbers), (1,) if extra is None else (0, *parts)), text)


def _is(make: Callable[[object], object], text: object) -> bool:
    try:
        make(text)
    except ValueError:
        return False
    return True


def _ordered(one: object, other: object) -> int:
    if not isinstance(one, _Ordered) or not isinstance(other, _Ordered):
        raise TypeError("no such overload")
    return (one > other) - (one < other)


def _rank(kind: type[_Ordered], own: object) -> Any:
    if not isinstance(own, kind):
        raise TypeError("no such overload")
    return own.rank


def _whole(own: object) -> int:
    number: Decimal = _rank(_Quantity, own)
    if number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _text(own: object) -> str:
    if not isinstance(own, str):
        raise TypeError("no such overload")
    return own


_FUNCTIONS: Final[Mapping[str, Callable[..., bool | int | str | list[str] | _Ordered]]] = {
    "quantity": _quantity,
    "isQuantity": lambda own: _is(_quantity, own),
    "semver": _version,
    "isSemver": lambda own: _is(_version, own),
    "compareTo": _ordered,
    "isGreaterThan": lambda one, other: _ordered(one, other) > 0,
    "isLessThan": lambda one, other: _ordered(one, other) < 0,
    "isInteger": lambda own: _rank(_Quantity, own) == int(_rank(_Quantity, own)),
    "asInteger": _whole,
    "sign": lambda own: (_rank(_Quantity, own) > 0) - (_rank(_Quantity, own) < 0),
    "major": lambda own: _rank(_Version, own)[0],
    "minor": lambda own: _rank(_Version, own)[1],
    "patch": lambda own: _rank(_Version, own)[2],
    "lowerAscii": lambda own: "".join(c.lower() if c.isascii() else c for c in _text(own)),
    "upperAscii": lambda own: "".join(c.upper() if c.isascii() else c for c in _text(own)),
    "trim": lambda own: _text(own).strip(),
    "split": lambda own, separator: _text(own).split(_text(separator)) if separator else list(_text(own)),
    "indexOf": lambda own, part: _text(own).find(_text(part)),
    "substring": lambda own, start, end=None: _text(own)[_within(own, start) : _within(own, end)],
}


def _within(text: str, place: int | None) -> int | None:
    if place is not None and not 0 <= place <= len(text):
        raise ValueError("index out of range")
    return place


def _as_cel(value: Any) -> Any:
    """A value of a device, or the result of a function, as a value of CEL."""
    if isinstance(value, tuple):
        kind, own = value
        if isinstance(own, tuple):
            return celtypes.ListType([_as_cel((kind.removesuffix("s"), part)) for part in own])
        return {"version": _version, "quantity": _quantity}.get(kind, _as_cel)(own)
    if isinstance(value, bool):
        return celtypes.BoolType(value)
    if isinstance(value, int):
        return celtypes.IntType(value)
    if isinstance(value, str):
        return celtypes.StringType(value)
    return celtypes.ListType(map(_as_cel, value)) if isinstance(value, list) else value


def _in_cel(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *parts: _as_cel(function(*parts))


_KINDS: Final = (celtypes.BoolType, int | float, str, bytes, list, celtypes.MapType, _Quantity, _Version)


def _equal(one: Any, other: Any) -> Any:
    """Values of different kinds are not equal. The library takes that for an error, or true for 1."""
    for own in (one, other):
        if isinstance(own, CELEvalError):
            return own
    kinds = [next((kind for kind in _KINDS if isinstance(own, kind)), type(own)) for own in (one, other)]
    return base_functions["_==_"](one, other) if kinds[0] == kinds[1] else celtypes.BoolType(False)


def _unequal(one: Any, other: Any) -> Any:
    return base_functions["!_"](_equal(one, other))


def _in(item: Any, container: Any) -> Any:
    if isinstance(item, CELEvalError):
        return item
    if isinstance(container, _Names):
        return celtypes.BoolType(container.has(item))
    if isinstance(container, list):
        return celtypes.BoolType(any(_equal(own, item) for own in container))
    return base_functions["_in_"](item, container)


def _sum(one: Any, other: Any) -> Any:
    total = base_functions["_+_"](one, other)
    if isinstance(total, str | bytes | list) and len(total) > LONGEST_VALUE:
        raise _Exceeded("it builds a text or a list that is too long")
    return total


def _of_numbers(name: str) -> Callable[[Any, Any], Any]:
    """An operator for numbers. For texts and lists, Python gives it another meaning."""
    numbers, own = int | float | CELEvalError, base_functions[name]

    def applied(one: Any, other: Any) -> Any:
        if not isinstance(one, numbers) or not isinstance(other, numbers):
            raise TypeError("no such overload")
        return own(one, other)

    return applied


_REGISTERED: Final[dict[str, Any]] = {
    **{name: _in_cel(function) for name, function in _FUNCTIONS.items()},
    **{name: _of_numbers(name) for name in ("_*_", "_/_", "_%_")},
    "_==_": _equal,
    "_!=_": _unequal,
    "_in_": _in,
    "_+_": _sum,
}
