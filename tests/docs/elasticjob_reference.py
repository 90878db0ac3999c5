"""The tables of ElasticJob's fields, from its CustomResourceDefinition."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

from tests.docs.pages import ROOT

CRD: Final = ROOT / "manifests" / "elastic" / "crd.yaml"
DURATION: Final = r"^([0-9]{1,9}(\.[0-9]{1,9})?(h|m|s|ms))+$"

Schema = Mapping[str, Any]


class Field(NamedTuple):
    """One field: its path, whether its parent requires it, and its schema."""

    path: str
    required: bool
    schema: Schema


def schema() -> Schema:
    """The schema of the whole object."""
    (version,) = yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"])


def fields(part: str) -> list[Field]:
    """Every field below `spec` or `status`, parents first."""
    return list(_below(part, schema()["properties"][part]))


def _below(path: str, own: Schema) -> Iterator[Field]:
    for name, child in own.get("properties", {}).items():
        yield Field(f"{path}.{name}", name in own.get("required", ()), child)
        yield from _below(f"{path}.{name}", child)
    if "items" in own:
        yield from _below(f"{path}[]", own["items"])


def table(part: str) -> str:
    head = ["| field | type | meaning |", "|---|---|---|"]
    return "\n".join([*head, *(_row(own, f"{part}.") for own in fields(part))])


def _row(own: Field, prefix: str) -> str:
    default = own.schema.get("default")
    kind = [_type(own.schema), *_bounds(own.schema)]
    kind += ["required"] if own.required else [] if default is None else [f"default `{default}`"]
    meaning = " ".join(own.schema.get("description", "–").split())
    cells = (f"`{own.path.removeprefix(prefix)}`", ", ".join(kind), meaning)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _type(own: Schema) -> str:
    if "enum" in own:
        return "one of " + ", ".join(f"`{word}`" for word in own["enum"])
    if own["type"] == "array":
        return f"list of {_type(own['items'])}"
    if own.get("additionalProperties"):
        return f"map of {_type(own['additionalProperties'])}"
    if own.get("pattern") == DURATION:
        return "duration"
    return {"date-time": "time"}.get(own.get("format", ""), str(own["type"]))


def _bounds(own: Schema) -> Iterator[str]:
    low, high = own.get("minimum"), own.get("maximum")
    if low is not None and high is not None and not own.get("exclusiveMinimum"):
        yield f"{low} to {high}"
    else:
        if low is not None:
            yield f"above {low}" if own.get("exclusiveMinimum") else f"at least {low}"
        if high is not None:
            yield f"at most {high}"
    for word, unit in (("Length", "characters"), ("Items", "items"), ("Properties", "entries")):
        if own.get(f"min{word}"):
            yield "not empty" if own[f"min{word}"] == 1 else f"at least {own[f'min{word}']} {unit}"
        if f"max{word}" in own:
            yield f"at most {own[f'max{word}']} {unit}"
    if "pattern" in own and own["pattern"] != DURATION:
        yield f"matches `{own['pattern']}`"
