"""The tables of README.md that follow from the code: `python -m tests.readme` writes them anew.

A generated table stands between `<!-- made: NAME -->` and `<!-- end -->`. Tables written by hand, whose first columns
must still agree with the code, are read with `table`.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from scheduler.settings import sections
from scheduler.settings.sources import camel
from tests.telemetry.rows import ELASTIC, METRICS, markdown

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SETTINGS_FILE = ROOT / "extender_config" / "settings.yaml"

BLOCK = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(text: str) -> str:
    """The page with every generated table as the code has it now."""
    return BLOCK.sub(lambda found: f"{found[1]}{MAKERS[found[2]]()}\n{found[3]}", text)


def table(text: str, heading: str) -> list[list[str]]:
    """The rows of the first table under this heading, cell by cell, without its head."""
    section = text.split(f"\n{heading}\n", 1)[1]
    lines = section[section.index("\n|") + 1 :].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines[2:]]


def settings_table() -> str:
    """Every setting with its default as the settings file writes it, and what its docstring says."""
    defaults = yaml.load(SETTINGS_FILE.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    rows = [
        f"| `{section}.{name}` | {_default(defaults[section][name])} | {said} |"
        for section, name, said in explained()
    ]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def explained() -> Iterator[tuple[str, str, str]]:
    """Section, name and docstring of every setting, in the order of the dataclass; the nearest class that has one counts."""
    for section, kind in sections.SECTIONS.items():
        docs = {name: said for own in reversed(kind.__mro__[:-1]) for name, said in _docs(own)}
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


MAKERS: Mapping[str, Callable[[], str]] = {
    "metrics": lambda: markdown(METRICS),
    "elastic": lambda: markdown(ELASTIC),
    "settings": settings_table,
}


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text(encoding="utf-8")), encoding="utf-8")
