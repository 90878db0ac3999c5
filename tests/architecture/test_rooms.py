"""The shape of the package: which room may know which, what pure means, and how large a module may be."""

import ast
import dataclasses
import graphlib
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from scheduler.elastic.reconciler.job_state import State

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "scheduler"

LONGEST = 400
"""Lines of a module; whoever needs more has two rooms in one."""

STDLIB = {
    "base64", "bisect", "collections", "contextlib", "dataclasses", "datetime", "decimal", "difflib", "enum", "functools", "hashlib", "heapq",
    "itertools", "math", "operator", "re", "typing", "urllib", "zlib",
}  # fmt: skip
"""What of the standard library a pure room may use: nothing that touches the world."""

PURE = {
    "model": {"numpy"},
    "placement": {"numpy"},
    "ledger": {"numpy"},
    "engine": {"numpy"},
    "objects": {"msgspec", "celpy"},
    "replay": {"msgspec", "numpy"},
}
"""Pure room → the libraries it may use besides."""


WORLDLY = {"open", "print", "input", "exec", "eval", "__import__"}
"""Built-ins that touch the world."""

MOMENTS = {"now", "today", "utcnow", "random", "default_rng"}
"""Attributes that read a clock or throw dice, whatever they hang on."""

EMPTY_WORDS = {"manager", "helper", "helpers", "util", "utils", "common", "misc", "info", "data"}


def modules(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def called(place: Path) -> str:
    return str(place.relative_to(ROOT))


ALL = modules(PACKAGE)
PURE_MODULES = [(room, place) for room in PURE for place in modules(PACKAGE / room)]


def parsed(place: Path) -> ast.Module:
    return ast.parse(place.read_text(encoding="utf-8"), str(place))


def imported(tree: ast.Module) -> Iterator[str]:
    """The first word of everything imported, at whatever depth."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name.split(".")[0] for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module.split(".")[0]


def name_of(place: Path) -> str:
    return ".".join(place.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def import_graph() -> dict[str, set[str]]:
    """By module of the package, the modules that it imports: anywhere in it, also for the types alone."""
    known = {name_of(place) for place in ALL}
    found = {}
    for place in ALL:
        said = set()
        for node in ast.walk(parsed(place)):
            match node:
                case ast.Import(names=names):
                    said |= {name.name for name in names}
                case ast.ImportFrom(level=level, names=names):
                    above = place.relative_to(ROOT).parts[:-level] if level else ()
                    module = ".".join((*above, *([node.module] if node.module else [])))
                    said |= {own if (own := f"{module}.{name.name}") in known else module for name in names}
        found[name_of(place)] = (said & known) - {name_of(place)}
    return found


def test_no_circle() -> None:
    """The modules of the package can be read one after the other, each after all that it imports."""
    try:
        order = list(graphlib.TopologicalSorter(import_graph()).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"these import each other: {' → '.join(error.args[1])}")

    assert len(order) == len(ALL)


def test_no_two_modules_of_one_name() -> None:
    """The last word of a module's name is enough to find it."""
    names = Counter(place.stem for place in ALL if place.stem not in {"__init__", "__main__"})

    assert [name for name, count in names.items() if count > 1] == []


OWNERS = {
    "account": "gang_history",
    "verdict": "verdict",
    "backoff": "backoff",
    "bind_limit": "deadlines",
    "health": "healing",
    "observed": "observed_runs",
    "pinning": "pins",
    "preemption": "preemption",
    "runtime_limit": "runtime_limit",
}
"""Part of what is remembered of a gang → the module of the ledger that writes what is in it."""

ELASTIC_OWNERS = {
    "sizing": "scaling",
    "rounds": "round_transition",
    "template": "template_revision",
    "straggler": "stragglers",
    "exits": "worker_exits",
    "backoff": "start_backoff",
    "completion": "completion",
    "saving": "checkpoints",
    "measured": "throughput",
    "health": "failure_detection",
}
"""The same of an elastic job, and of the reconciler's modules."""

ELASTIC_FIELDS = {
    "told": "round_plan",
    "conditions": "status_report",
    "looked_at": "reconciler",
    "due": "reconciler",
}
"""Field of an elastic job's state itself → the module that writes it; of all others `event_handlers` does."""

CHANGES = {
    "add",
    "append",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "update",
}


def written(tree: ast.Module) -> Iterator[ast.expr]:
    """What is assigned to, deleted or changed by a method of a collection, at any depth."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
                yield target
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in CHANGES:
                yield value


def attributes_written(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Attributes that are written, or of which an item is."""
    waiting = list(written(tree))
    while waiting:
        match waiting.pop():
            case ast.Tuple(elts=each) | ast.List(elts=each):
                waiting += each
            case ast.Subscript(value=value) | ast.Starred(value=value):
                waiting.append(value)
            case ast.Attribute() as found:
                yield found


def parts_written(tree: ast.Module, owners: Mapping[str, str]) -> set[str]:
    """Parts of which a field is written."""
    values = (found.value for found in attributes_written(tree))
    return {own.attr for own in values if isinstance(own, ast.Attribute) and own.attr in owners}


@pytest.mark.parametrize("place", ALL, ids=called)
def test_a_part_of_a_gang_is_written_by_its_owner_alone(place: Path) -> None:
    """Each part of what is remembered of a gang has one module that writes its fields; all others call that one."""
    elastic = place.is_relative_to(PACKAGE / "elastic")
    owners, room = (ELASTIC_OWNERS, "elastic/reconciler") if elastic else (OWNERS, "ledger")
    own = {part for part, owner in owners.items() if place == PACKAGE / room / f"{owner}.py"}

    assert parts_written(parsed(place), owners) <= own


@pytest.mark.parametrize("place", modules(PACKAGE / "elastic" / "reconciler"), ids=called)
def test_what_was_told_of_a_job_is_written_by_the_event_handlers(place: Path) -> None:
    """Each field of a job's state that is no part has one module that writes it."""
    fields = {field.name for field in dataclasses.fields(State)} - ELASTIC_OWNERS.keys() - {"todo"}
    found = [own.attr for own in attributes_written(parsed(place)) if ast.unparse(own.value) == "s"]

    assert [
        name for name in found if name in fields and ELASTIC_FIELDS.get(name, "event_handlers") != place.stem
    ] == []


@pytest.mark.parametrize(
    "place", [place for place in ALL if place.parent.name in {"ledger", "engine"}], ids=called
)
def test_what_a_member_counts_by_is_changed_by_itself_alone(place: Path) -> None:
    """Its pod, and what keeps it from counting, are changed by its methods: so `bound`, `stays` and `live` are true."""
    found = [own for own in attributes_written(parsed(place)) if own.attr in {"pod", "aside", "evicting"}]

    assert [ast.unparse(own) for own in found if ast.unparse(own.value) != "self"] == []


def test_import_rules() -> None:
    """Every import follows the contracts in pyproject.toml."""
    program = shutil.which("lint-imports", path=sysconfig.get_path("scripts"))
    assert program is not None, "lint-imports: install the group `dev`"
    done = subprocess.run(
        [program, "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("room", "place"), PURE_MODULES, ids=lambda one: one if isinstance(one, str) else one.name
)
def test_pure_rooms_import_nothing_of_the_world(room: str, place: Path) -> None:
    """A room that decides imports its own package, numbers, and the part of the standard library that is pure."""
    assert set(imported(parsed(place))) <= STDLIB | PURE[room] | {"scheduler"}


@pytest.mark.parametrize(
    ("room", "place"), PURE_MODULES, ids=lambda one: one if isinstance(one, str) else one.name
)
def test_pure_rooms_neither_wait_nor_look(room: str, place: Path) -> None:
    """A room that decides has no coroutine, opens and prints nothing, reads no clock and throws no dice."""
    found = [
        ast.unparse(node)[:60]
        for node in ast.walk(parsed(place))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORLDLY)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MOMENTS)
    ]

    assert found == []


@pytest.mark.parametrize("place", ALL, ids=called)
def test_a_module_is_one_thing(place: Path) -> None:
    """A module says in its docstring what lives there, is short enough to be read at once, and has a name that means
    it.
    """
    text = place.read_text(encoding="utf-8")

    assert ast.get_docstring(parsed(place)), f"{called(place)} has no docstring"
    assert len(text.splitlines()) <= LONGEST
    assert place.stem not in EMPTY_WORDS


@pytest.mark.parametrize("place", sorted((ROOT / "tests").rglob("test_*.py")), ids=called)
def test_every_test_says_what_is_true(place: Path) -> None:
    """Every test has a docstring: the sentence that holds when it passes."""
    tests = [
        node
        for node in ast.walk(parsed(place))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]

    assert [node.name for node in tests if not ast.get_docstring(node)] == []
