"""The table of settings: every setting with its default as the settings file writes it, and its docstring."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

import yaml

from scheduler.settings import sections
from scheduler.settings.sources import camel
from tests.docs.pages import ROOT

SETTINGS_FILE: Final = ROOT / "extender_config" / "settings.yaml"


def table() -> str:
    defaults = yaml.load(SETTINGS_FILE.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    lines: list[str] = []
    last = ""
    for section, name, text in explained():
        if section != last:
            lines += [
                *([""] if last else []),
                f"## {section}",
                "",
                "| setting | default | meaning |",
                "|---|---|---|",
            ]
            last = section
        lines.append(f"| `{section}.{name}` | {_default(defaults[section][name])} | {text} |")
    return "\n".join(lines)


def explained() -> Iterator[tuple[str, str, str]]:
    """Section, name and docstring of every setting, in the order of the dataclass; the nearest class that has one counts."""
    for section, kind in sections.SECTIONS.items():
        docs = {name: text for own in reversed(kind.__mro__[:-1]) for name, text in _docs(own)}
        for field in fields(kind):
            yield section, camel(field.name), " ".join(docs[field.name].split()).replace("|", r"\|")


def _docs(kind: type) -> Iterator[tuple[str, str]]:
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    for field, doc in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(doc.value, ast.Constant)
            yield field.target.id, str(doc.value.value)


def _default(value: Any) -> str:
    if isinstance(value, list):
        words = [f"{one['name']}: {one['label']}" if isinstance(one, dict) else str(one) for one in value]
        return "<br>".join(f"`{word}`" for word in words) or "none"
    return f"`{value}`" if value else "empty"
