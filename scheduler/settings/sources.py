"""The sources of settings: a file or a text, the environment and flags, with the place of every value.

Lives here: from these to YAML nodes by dotted name, removed settings, and the errors that name a place. Never here:
which settings exist (`sections`), or the form of a value (`kinds`).
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

import yaml

from scheduler.errors import SettingsError
from scheduler.settings.kinds import TAG, Wrong, entries

LONGEST_FILE: Final = 2**20
"""Bytes. The shipped settings file has about twelve thousand."""

DEEPEST: Final = 3
"""Levels of nested lists that are shown of a wrong value."""

PREFIX: Final = "GANGWRIGHT_"
JOINT: Final = "__"
"""Separates section and setting. Two underscores, because Kubernetes sets variables with one for a Service named
`gangwright…`."""

S = TypeVar("S")


class Removed(NamedTuple):
    """A setting, or one of its words, that the previous version read. It is accepted with a warning for one version."""

    setting: str
    """Its dotted name."""
    remedy: str
    word: str | None = None
    """The word that was removed. None: the setting itself was, and its value is ignored."""
    instead: str | None = None
    """The word that is used instead. None: the default."""

    @property
    def variable(self) -> str:
        """Its environment variable."""
        section, name = self.setting.split(".")
        return variable(section, re.sub(r"(?=[A-Z])", "_", name))


REMOVED: Final[tuple[Removed, ...]] = (
    Removed("placement.strategy", "dot was removed; cosine is used. Write cosine", "dot", "cosine"),
    Removed("queue.overrun", "was removed: no gang is suspended for overrunning anymore. Remove it"),
    Removed(
        "rendezvous.folder",
        "was removed: certificates are kept in the Secret rendezvous.secret. Remove it. To serve files, set "
        "rendezvous.cert, rendezvous.key and rendezvous.ca",
    ),
)
"""What the previous version read. It is accepted with a warning, and leaves this table with the next version."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value of a setting, and its source."""

    node: yaml.Node
    source: str
    """A file's name, an environment variable, or a flag."""
    lines: bool = False
    """Whether errors name the line of the source."""

    def error(self, name: str, wrong: Wrong) -> SettingsError:
        line = f", line {wrong.node.start_mark.line + 1}" if self.lines else ""
        return SettingsError(f"{name} ({self.source}{line})", _written(wrong.node), wrong.remedy)


def camel(name: str) -> str:
    """The name of `http_timeout` in YAML: `httpTimeout`."""
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def variable(section: str, name: str) -> str:
    """The environment variable of a setting: GANGWRIGHT_VERBS__HTTP_TIMEOUT."""
    return f"{PREFIX}{section}{JOINT}{name}".upper()


def content_of(file: Path) -> bytes:
    """The content of a settings file. Raises SettingsError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LONGEST_FILE + 1)
    except OSError as error:
        raise SettingsError("settings file", str(file), error.strerror or "can't be read") from None
    if len(content) > LONGEST_FILE:
        raise SettingsError("settings file", str(file), f"must not be larger than {LONGEST_FILE} bytes")
    return content


def from_text(content: str | bytes, source: str) -> dict[str, Given]:
    """Every value of a settings file by its dotted name. Raises SettingsError."""
    root = _composed(content, source)
    if root is None:
        return {}
    given: dict[str, Given] = {}
    section = "settings"
    try:
        for section, body in entries(root):
            if body.tag != f"{TAG}null":  # a section whose settings are all commented out
                given |= {f"{section}.{key}": Given(node, source, lines=True) for key, node in entries(body)}
    except Wrong as wrong:
        raise Given(root, source, lines=True).error(section, wrong) from None
    return given


def from_environment(environ: Mapping[str, str], names: Mapping[str, str]) -> dict[str, Given]:
    """Every value of Gangwright's environment variables. Raises SettingsError for an unknown variable.

    names: the dotted name by variable, see `variable`.
    """
    known = {**names, **{row.variable: row.setting for row in REMOVED if row.word is None}}
    given: dict[str, Given] = {}
    for name in sorted(environ):
        if name.startswith(PREFIX) and JOINT in name:
            if name not in known:
                raise SettingsError(name, environ[name], _unknown(name, known))
            given[known[name]] = Given(_value(environ[name], name), name)
    return given


def from_flags(flags: Mapping[str, str]) -> dict[str, Given]:
    """Every value of a flag by its dotted name. Raises SettingsError."""
    return {name: Given(_value(text, f"flag {name}"), "flag") for name, text in flags.items()}


def known(
    given: Mapping[str, Given], names: Iterable[str], warn: Callable[[str], object]
) -> dict[str, Given]:
    """The given values without removed settings. `warn` is called for each of those, with its place and the fix.

    Raises SettingsError for the first value of an unknown setting.
    """
    kept = dict(given)
    for row in REMOVED:
        found = given.get(row.setting)
        if found is None or (row.word is not None and _written(found.node) != row.word):
            continue
        warn(str(found.error(row.setting, Wrong(found.node, row.remedy))))
        del kept[row.setting]
        if row.instead is not None:
            kept[row.setting] = replace(found, node=_value(row.instead, found.source))
    every = set(names)
    for name, own in kept.items():
        if name not in every:
            raise own.error(name, Wrong(own.node, _unknown(name, names)))
    return kept


def section_of(kind: type[S], section: str, given: Mapping[str, Given]) -> S:
    """One section: its defaults, overridden by the given values. Raises SettingsError."""
    hints = get_type_hints(kind, include_extras=True)
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]  # every section is a dataclass
        name = f"{section}.{camel(field.name)}"
        own = given.get(name)
        if own is not None:
            try:
                values[field.name] = hints[field.name].__metadata__[0](own.node)
            except Wrong as wrong:
                raise own.error(name, wrong) from None
    return kind(**values)


def _written(node: yaml.Node, depth: int = 0) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if not isinstance(node, yaml.SequenceNode):
        return {}
    if depth == DEEPEST:
        return "…"  # a list may contain itself, by an anchor
    return [_written(child, depth + 1) for child in node.value[:8]]


def _unknown(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"unknown setting; did you mean {close[0]}?" if close else "unknown setting"


def _value(text: str, source: str) -> yaml.Node:
    return _composed(text, source) or yaml.ScalarNode(f"{TAG}str", "")


def _composed(content: str | bytes, source: str) -> yaml.Node | None:
    try:
        # The safe loader's resolver, and only as far as nodes: no value of any type is created.
        node: yaml.Node | None = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{source}{line}", error.problem or "", "must be YAML") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise SettingsError(source, "(not shown)", "must be YAML in UTF-8, not deeply nested") from None
    return node
