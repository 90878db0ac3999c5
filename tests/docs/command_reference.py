"""The command line as a page, from the very program: usage, details, options with defaults, examples."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

import typer

from scheduler.cli.command_line import app
from scheduler.cli.commands import TABLE, load
from scheduler.cli.options import CLUSTER

_METAVARS: Final = {int: "N", Path: "PATH", str: "TEXT"}


def found() -> Iterator[tuple[str, Any]]:
    """Name and command, in the order of the help."""
    rows = {row.name: row for row in TABLE}
    for name, command in typer.main.get_command(app).commands.items():
        yield name, load(rows[name]) if name in rows else command


def summary() -> str:
    """One row a command."""
    lines = ["| command | what it does |", "|---|---|"]
    for name, command in found():
        lines.append(f"| [`{name}`](#gangwright-{name}) | {_text(command).split(chr(10))[0]} |")
    return "\n".join(lines)


def commands() -> str:
    """One section a command."""
    return "\n\n".join("\n\n".join(_section(name, command)) for name, command in found())


def cluster_options() -> str:
    """The options by which commands reach a cluster, once."""
    common = {own.name: own for _, command in found() for own in command.params if _is_common(own)}
    return _table(list(common.values()))


def _section(name: str, command: Any) -> Iterator[str]:
    examples = next((row.examples for row in TABLE if row.name == name), ())
    parameters = [own for own in command.params if not getattr(own, "hidden", False)]
    arguments = [own for own in parameters if own.param_type_name == "argument"]
    required = [own for own in parameters if own.param_type_name == "option" and own.required]
    words = [f"{_spelled(own)[-1]} {_metavar(own)}" for own in required]
    words += [_metavar(own) if own.required else f"[{_metavar(own)}]" for own in arguments]
    yield f"## gangwright {name}"
    paragraphs = [own for own in _text(command).split("\n\n") if not own.startswith("Examples:")]
    yield from paragraphs[:1]
    yield f"```\n{' '.join(['gangwright', name, '[OPTIONS]', *words])}\n```"
    yield from paragraphs[1:]
    own = [each for each in parameters if not _is_common(each)]
    if own:
        yield _table(own)
    common = [f"`{each.opts[0]}`" for each in parameters if _is_common(each)]
    if common:
        yield f"[Cluster options](#cluster-options): {', '.join(common)}."
    if examples:
        lines = "\n".join(examples)
        yield f"```sh\n{lines}\n```"


def _text(command: Any) -> str:
    return str(command.help)


def _is_common(own: Any) -> bool:
    return getattr(own, "rich_help_panel", None) == CLUSTER


def _table(parameters: list[Any]) -> str:
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *map(_row, parameters)])


def _row(own: Any) -> str:
    if own.param_type_name == "argument":
        named = f"`{_metavar(own)}`"
    else:
        value = "" if getattr(own, "is_flag", False) else f" {_metavar(own)}"
        *short, long = _spelled(own)
        named = ", ".join([*(f"`{word}`" for word in short), f"`{long}{value}`"])
    help_ = " ".join((own.help or "–").split())
    if own.envvar:
        help_ += f" Environment variable: `{own.envvar}`."
    cells = (named, _default(own), help_)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _spelled(own: Any) -> list[str]:
    return sorted([*own.opts, *own.secondary_opts], key=lambda word: word.startswith("--"))


def _metavar(own: Any) -> str:
    kind = own.type_descriptor.annotation
    if own.metavar:
        return str(own.metavar)
    if own.param_type_name == "argument":
        return str(own.name).upper()
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(word.value) for word in kind)
    return _METAVARS.get(kind, str(own.name).upper())


def _default(own: Any) -> str:
    if own.required:
        return "required"
    value = own.default.value if isinstance(own.default, Enum) else own.default
    return "–" if value in (None, "", False) or callable(value) else f"`{value}`"
