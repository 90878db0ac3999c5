"""The kinds of values that settings have: durations, sizes, words, names, and lists of them, each read from YAML.

Lives here: from one YAML node to one value, or to the fix. Never here: where the node comes from (`sources`).

Why YAML's node tree and not its values: a node knows its line, and keeps the difference between `no` and `false`.
Why strict: an ignored misspelling would only be found when the setting is needed.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Final

import yaml

from scheduler.model import durations, names
from scheduler.model.resources import MEMORY, InvalidQuantity, amount

DAY: Final = 86400.0
TAG: Final = "tag:yaml.org,2002:"

Kind = Callable[[yaml.Node], Any]
"""Reads one value from its node. Raises Wrong."""


class Wrong(ValueError):  # noqa: N818 - it becomes a SettingsError as soon as its place is known
    """A value is wrong: its node, and the fix."""

    def __init__(self, node: yaml.Node, remedy: str) -> None:
        super().__init__(remedy)
        self.node = node
        self.remedy = remedy


def scalar(node: yaml.Node) -> str:
    """The text of a single value. Raises Wrong."""
    if not isinstance(node, yaml.ScalarNode):
        raise Wrong(node, "must be a single value")
    return str(node.value)


def entries(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    """The pairs of a mapping whose keys are different words. Raises Wrong."""
    if not isinstance(node, yaml.MappingNode):
        raise Wrong(node, "must be a mapping of names to values")
    seen = set()
    for key, child in node.value:
        name = scalar(key)
        if name in seen:
            raise Wrong(key, "is a duplicate: remove one of them")
        seen.add(name)
        yield name, child


def text(pattern: str, remedy: str) -> Kind:
    """A text that matches the whole pattern."""

    def read(node: yaml.Node) -> str:
        value = scalar(node)
        if node.tag != f"{TAG}str":
            raise Wrong(node, f"is read as type {node.tag.removeprefix(TAG)}: put it in quotes")
        if not re.fullmatch(pattern, value):
            raise Wrong(node, remedy)
        return value

    return read


def _plain(tags: set[str], pattern: str, make: Callable[[str], Any], remedy: str) -> Kind:
    """A value without quotes that YAML reads as one of `tags` and that matches the pattern."""

    def read(node: yaml.Node) -> Any:
        value = scalar(node)
        if node.tag.removeprefix(TAG) not in tags or not re.fullmatch(pattern, value):
            raise Wrong(node, remedy)
        return make(value)

    return read


def _between(low: float, high: float, unit: str, kind: Kind) -> Kind:
    bounds = f"{low:.15g}{unit} and {high:.15g}{unit}"

    def read(node: yaml.Node) -> Any:
        value = kind(node)
        if not low <= value <= high:
            raise Wrong(node, f"must be between {bounds}")
        return value

    return read


flag: Final = _plain({"bool"}, "true|false", "true".__eq__, "must be true or false")
"""True or false. YAML's yes, on and similar words are rejected because YAML versions read them differently."""


def whole(low: int, high: int) -> Kind:
    """A whole number."""
    remedy = f"must be a whole number between {low} and {high}"
    return _between(low, high, "", _plain({"int"}, r"[+-]?\d{1,18}", int, remedy))


def number(low: float, high: float) -> Kind:
    """A number with or without decimals."""
    remedy = f"must be a number between {low:.15g} and {high:.15g}"
    return _between(low, high, "", _plain({"int", "float"}, r"[+-]?\d{1,18}(\.\d{1,18})?", float, remedy))


def seconds(low: float, high: float) -> Kind:
    """A duration in seconds, written for example as 500ms, 30s, 1m30s or 2h."""
    return _between(low, high, "s", _duration)


def _duration(node: yaml.Node) -> float:
    value = durations.seconds(scalar(node))
    if value is None:
        raise Wrong(node, "must be a duration with its unit, for example 500ms, 30s, 1m30s or 2h")
    return value


def quantity(resource: str, remedy: str) -> Kind:
    """An amount of a resource in its base unit."""

    def read(node: yaml.Node) -> int:
        try:
            return amount(resource, scalar(node))
        except InvalidQuantity:
            raise Wrong(node, remedy) from None

    return read


def size(low: int, high: int) -> Kind:
    """An amount of bytes, for example 64Mi."""
    kind = quantity(MEMORY, "must be an amount of bytes, for example 512Ki or 64Mi")
    return _between(low, high, " bytes", kind)


def word(choices: type[StrEnum]) -> Kind:
    """One of a closed list."""

    def read(node: yaml.Node) -> StrEnum:
        value = scalar(node)
        if value not in list(choices):
            raise Wrong(node, f"must be one of {', '.join(choices)}")
        return choices(value)

    return read


def many(item: Kind, least: int = 0, most: int = 64) -> Kind:
    """A list whose items are all different."""

    def read(node: yaml.Node) -> tuple[Any, ...]:
        if not isinstance(node, yaml.SequenceNode):
            raise Wrong(node, "must be a list")
        if not least <= len(node.value) <= most:
            raise Wrong(node, f"must have {least} to {most} items")
        values: list[Any] = []
        for child in node.value:
            value = item(child)
            if value in values:
                raise Wrong(child, "is in the list twice: remove one of them")
            values.append(value)
        return tuple(values)

    return read


def record(make: Callable[..., Any], *, needed: bool = True, **kinds: Kind) -> Kind:
    """A mapping with these keys and no others, converted to a value. needed: all keys are required."""

    def read(node: yaml.Node) -> Any:
        pairs = dict(entries(node))
        unknown = [key for key in pairs if key not in kinds]
        if unknown:
            raise Wrong(node, f"{unknown[0]!r} is unknown here: use {', '.join(kinds)}")
        if needed and len(pairs) < len(kinds):
            raise Wrong(node, f"must have {' and '.join(kinds)}")
        return make(**{key: kinds[key](child) for key, child in pairs.items()})

    return read


def is_loopback(host: str) -> bool:
    """Whether the address or name reaches only this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


port: Final = whole(0, 65535)
connections: Final = whole(4, 65536)
path: Final = text(r"[^\x00]{0,4096}", "must be a path")
host: Final = text(r"[-A-Za-z0-9.:]{0,253}", "must be an address or a host name")
name: Final = text(r"[^\x00-\x1f]{0,253}", "must be a name of at most 253 characters")
dns_name: Final = text(names.SUBDOMAIN, "must be a name of lowercase letters, digits, '-' and '.'")
label_key: Final = text(names.LABEL_KEY, "must be a label key, for example topology.kubernetes.io/zone")
audience: Final = text(
    r"[\x21-\x7e]{1,253}", "must be one word, for example gangwright or https://example.com"
)
