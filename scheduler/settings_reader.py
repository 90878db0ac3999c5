"""How a setting is read: from YAML, the environment and flags, strictly, with the place of every mistake.

Lives here: the kinds of values (durations, sizes, words …) and the way from a text to a frozen dataclass. Never
here: which settings exist; `scheduler.settings` lists them, each annotated with the kind that reads it.

Why YAML's node tree and not its values: a node knows its line, and still knows that `no` was written and not
`false`. Why strict: a setting that is misspelt and so ignored is found when it is needed.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

import yaml

from scheduler.errors import SettingsError
from scheduler.model.resources import InvalidQuantity, parse_quantity

LONGEST_FILE: Final = 2**20
"""Bytes; a settings file of ours takes about ten thousand."""

DEEPEST: Final = 3
"""Lists in lists of a wrong value that are shown."""

ENV_PREFIX: Final = "GANGWRIGHT_"
ENV_JOINT: Final = "__"
"""Between section and setting. Two, so that what Kubernetes sets for a Service named `gangwright…` is never ours."""

_SECONDS: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_DURATION: Final = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h))+")
_PART: Final = re.compile(r"([\d.]+)(ms|s|m|h)")
_TAG: Final = "tag:yaml.org,2002:"

Kind = Callable[[yaml.Node], Any]
"""Reads one value from its node. Raises Wrong."""


class Wrong(ValueError):  # noqa: N818 - it becomes a SettingsError as soon as its place is known
    """What is wrong with a value, and what would be right."""

    def __init__(self, node: yaml.Node, remedy: str) -> None:
        super().__init__(remedy)
        self.node = node
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody gave, and where."""

    node: yaml.Node
    source: str
    """A file's name, an environment variable, or a flag."""
    lines: bool = False
    """The source has lines worth naming."""

    def place(self, node: yaml.Node) -> str:
        return f"{self.source}, line {node.start_mark.line + 1}" if self.lines else self.source


class Removed(NamedTuple):
    """A setting that the version before this one read, or one word of it. It is read with a warning for one version."""

    setting: str
    """Its dotted name."""
    remedy: str
    word: str | None = None
    """The word that is gone. None: the setting itself is, and what is given for it is left out."""
    instead: str | None = None
    """What is read for the word. None: the default."""

    @property
    def variable(self) -> str:
        """The environment variable that it had."""
        section, name = self.setting.split(".")
        return variable(section, re.sub(r"(?=[A-Z])", "_", name))


def seconds(low: float, high: float) -> Kind:
    """A duration such as 500ms, 30s, 1m30s or 2h, as seconds."""

    def read(node: yaml.Node) -> float:
        text = _scalar(node)
        if not _DURATION.fullmatch(text):
            raise Wrong(node, "must be a duration with its unit, such as 500ms, 30s, 1m30s or 2h")
        value = float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))
        if not low <= value <= high:
            raise Wrong(node, f"must be between {low:g}s and {high:g}s")
        return value

    return read


def size(low: int, high: int) -> Kind:
    """An amount of bytes, such as 64Mi."""

    def read(node: yaml.Node) -> int:
        try:
            value = parse_quantity(_scalar(node))
        except InvalidQuantity:
            raise Wrong(node, "must be an amount of bytes, such as 512Ki or 64Mi") from None
        if value != int(value) or not low <= value <= high:
            raise Wrong(node, f"must be between {low} and {high} bytes")
        return int(value)

    return read


def whole(low: int, high: int) -> Kind:
    """A whole number."""

    def read(node: yaml.Node) -> int:
        text = _scalar(node)
        if _tag(node) != "int" or not re.fullmatch(r"[+-]?\d{1,18}", text):
            raise Wrong(node, f"must be a whole number between {low} and {high}")
        if not low <= int(text) <= high:
            raise Wrong(node, f"must be between {low} and {high}")
        return int(text)

    return read


def number(low: float, high: float) -> Kind:
    """A number, whole or not."""

    def read(node: yaml.Node) -> float:
        text = _scalar(node)
        if _tag(node) not in {"int", "float"} or not re.fullmatch(r"[+-]?\d{1,18}(\.\d{1,18})?", text):
            raise Wrong(node, f"must be a number between {low:g} and {high:g}")
        if not low <= float(text) <= high:
            raise Wrong(node, f"must be between {low:g} and {high:g}")
        return float(text)

    return read


def flag() -> Kind:
    """True or false; YAML's yes, on and their kin are refused because people read them differently."""

    def read(node: yaml.Node) -> bool:
        text = _scalar(node)
        if _tag(node) != "bool" or text not in {"true", "false"}:
            raise Wrong(node, "must be true or false")
        return text == "true"

    return read


def text(pattern: str, remedy: str) -> Kind:
    """A text that matches the whole pattern."""

    def read(node: yaml.Node) -> str:
        value = _scalar(node)
        if _tag(node) != "str":
            raise Wrong(node, f"is read as a {_tag(node)}: put it in quotes")
        if not re.fullmatch(pattern, value):
            raise Wrong(node, remedy)
        return value

    return read


def word(choices: type[StrEnum]) -> Kind:
    """One of a closed list."""

    def read(node: yaml.Node) -> StrEnum:
        value = _scalar(node)
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
                raise Wrong(child, "stands in the list twice")
            values.append(value)
        return tuple(values)

    return read


def record(make: Callable[..., Any], **kinds: Kind) -> Kind:
    """A mapping with exactly these keys, made into a value."""

    def read(node: yaml.Node) -> Any:
        pairs = dict(entries(node))
        for key in pairs:
            if key not in kinds:
                raise Wrong(
                    node, f"{key!r} is unknown here: must have {' and '.join(kinds)}, and nothing else"
                )
        if len(pairs) < len(kinds):
            raise Wrong(node, f"must have {' and '.join(kinds)}")
        return make(**{key: kinds[key](child) for key, child in pairs.items()})

    return read


def entries(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    """The pairs of a mapping whose keys are words and all different. Raises Wrong."""
    if not isinstance(node, yaml.MappingNode):
        raise Wrong(node, "must be a mapping of names to values")
    seen = set()
    for key, child in node.value:
        name = _scalar(key)
        if name in seen:
            raise Wrong(key, "stands here twice")
        seen.add(name)
        yield name, child


_S = TypeVar("_S")


def from_file(path: Path) -> dict[str, Given]:
    """Every value of a settings file, by its dotted name. Raises SettingsError."""
    name = path.name
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise SettingsError("settings file", str(path), error.strerror or "cannot be read") from None
    if len(content) > LONGEST_FILE:
        raise SettingsError("settings file", str(path), f"must not be larger than {LONGEST_FILE} bytes")
    root = _composed(content, name)
    if root is None:
        return {}
    given = {}
    source = Given(root, name, lines=True)
    section = "settings"
    try:
        for section, body in entries(root):
            if isinstance(body, yaml.ScalarNode) and _tag(body) == "null":
                continue  # a section whose settings are all commented out
            for key, node in entries(body):
                given[f"{section}.{key}"] = Given(node, name, lines=True)
    except Wrong as wrong:
        raise _located(section, source, wrong) from None
    return given


def from_environment(environ: Mapping[str, str], names: Mapping[str, str]) -> dict[str, Given]:
    """Every value that an environment variable of ours gives. Raises SettingsError for one that is unknown.

    names: the dotted name by variable, see `variable`.
    """
    ours = [name for name in environ if name.startswith(ENV_PREFIX) and ENV_JOINT in name]
    for name in sorted(ours):
        if name not in names:
            raise SettingsError(name, environ[name], f"no such setting{_nearest(name, names)}")
    return {names[name]: Given(_composed_text(environ[name], name), name) for name in ours}


def from_flags(flags: Mapping[str, str]) -> dict[str, Given]:
    """Every value that a flag gives, by its dotted name. Raises SettingsError."""
    return {name: Given(_composed_text(value, f"flag {name}"), "flag") for name, value in flags.items()}


def camel(name: str) -> str:
    """`http_timeout` as people write it in YAML: `httpTimeout`."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def variable(section: str, name: str) -> str:
    """The environment variable of a setting: GANGWRIGHT_VERBS__HTTP_TIMEOUT."""
    return f"{ENV_PREFIX}{section.upper()}{ENV_JOINT}{name.upper()}"


def replaced(
    given: Mapping[str, Given], removed: Iterable[Removed], warn: Callable[[str], object]
) -> dict[str, Given]:
    """What was given, without what was removed. `warn` is told of each such value, with its place and the remedy."""
    kept = dict(given)
    for row in removed:
        found = given.get(row.setting)
        if found is None or (row.word is not None and _written(found.node) != row.word):
            continue
        warn(str(_located(row.setting, found, Wrong(found.node, row.remedy))))
        del kept[row.setting]
        if row.instead is not None:
            kept[row.setting] = replace(found, node=_composed_text(row.instead, found.source))
    return kept


def check_known(given: Mapping[str, Given], names: Mapping[str, object]) -> None:
    """Raises SettingsError for the first value that no setting takes."""
    for name, value in given.items():
        if name not in names:
            remedy = f"no such setting{_nearest(name, names)}"
            raise _located(name, value, Wrong(value.node, remedy))


def section_of(kind: type[_S], name: str, given: Mapping[str, Given]) -> _S:
    """One section: its defaults, and what was given instead. Raises SettingsError."""
    hints = get_type_hints(kind, include_extras=True)
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]  # every section is a dataclass
        dotted = f"{name}.{camel(field.name)}"
        if dotted in given:
            values[field.name] = _value(hints[field.name].__metadata__[0], dotted, given[dotted])
    return kind(**values)


def _value(kind: Kind, dotted: str, given: Given) -> Any:
    try:
        return kind(given.node)
    except Wrong as wrong:
        raise _located(dotted, given, wrong) from None


def _located(dotted: str, given: Given, wrong: Wrong) -> SettingsError:
    return SettingsError(f"{dotted} ({given.place(wrong.node)})", _written(wrong.node), wrong.remedy)


def _written(node: yaml.Node, depth: int = 0) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if not isinstance(node, yaml.SequenceNode):
        return {}
    if depth == DEEPEST:
        return "…"  # by its anchors a list may hold itself
    return [_written(child, depth + 1) for child in node.value[:8]]


def _nearest(name: str, names: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _scalar(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise Wrong(node, "must be a single value")
    return str(node.value)


def _tag(node: yaml.Node) -> str:
    return str(node.tag).removeprefix(_TAG)


def _composed_text(value: str, source: str) -> yaml.Node:
    return _composed(value, source) or yaml.ScalarNode(f"{_TAG}str", "")


def _composed(content: str | bytes, source: str) -> yaml.Node | None:
    try:
        # The safe loader's resolver, and only as far as nodes: no value of any type is made.
        node: yaml.Node | None = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{source}{line}", error.problem or "", "must be YAML") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise SettingsError(source, "(not shown)", "must be YAML, in UTF-8, not nested deeply") from None
    return node
