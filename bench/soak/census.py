"""What a program remembers: the length of every container that can be reached, by the path that leads to it.

All entries of one container share a path, so a path tells the sum over them. Nothing is named beforehand: whatever
a class keeps, in attributes, slots, closures or generators, is found.
"""

import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

Census = Mapping[str, int]

PLAIN: Final = (int, float, complex, str, bytes, bool, type(None), type, FunctionType, ModuleType)

BOUNDED: Final[Mapping[str, int]] = {
    "engine._masks._kept": 256,
    "engine._masks._vain": 256,
    "engine._scores": 256,
    "engine.cycle._shapes": 1024,
    "engine.cycle.candidates._views": 164,
    "engine.ledger.history": 4096,
    "engine.ledger.spared_owners": 1024,
    "engine.ledger.nodes._admits": 16_384,
    "engine.ledger.nodes._vectors": 4096,
    "engine.ledger.preemption_cycles": 1024,
    "engine.ledger.registry._scars": 4096,
    "engine.ledger.runtimes": 4096,
    "engine.ledger.share_usage._excess": 100,
}
"""Entries that each of these may have, whatever comes: its own module says so, and a test of it proves it. What is
below such a path is of its entries. Of views 64 more than gangs, of which the soak has 100 at a time."""


@dataclass(frozen=True)
class Growth:
    """A container that is longer than it was."""

    path: str
    before: int
    now: int

    def __str__(self) -> str:
        return f"{self.path}: {self.before} -> {self.now}"


def of(**roots: object) -> Census:
    """By path, the lengths of all containers that these lead to, and of all that modules of `scheduler` keep."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    line = deque((name, root) for name, root in roots.items())
    line.extend(_of_modules())
    while line:
        path, thing = line.popleft()
        if isinstance(thing, PLAIN) or id(thing) in seen:
            continue
        seen.add(id(thing))
        size = _size(thing)
        if size is not None:
            found[path] += size
        line.extend((path + step, one) for step, one in _within(thing))
    return found


def grown(before: Census, now: Census, slack: int = 0) -> list[Growth]:
    """What became longer by more than `slack`, and is not kept within a bound."""
    return [
        Growth(path, before.get(path, 0), size)
        for path, size in sorted(now.items())
        if size > before.get(path, 0) + slack and bound(path) is None
    ]


def kept(now: Census) -> dict[str, str]:
    """Of each container that is kept within a bound, `entries of bound`: those that lead to it at once count."""
    return {
        path: f"{max((size for own, size in now.items() if _top(own, path)), default=0)} of {most}"
        for path, most in BOUNDED.items()
    }


def bound(path: str) -> int | None:
    """Of the bounded container that this path leads into, how many entries it has at most."""
    return next((most for own, most in BOUNDED.items() if path == own or _below(path, own)), None)


def _below(path: str, own: str) -> bool:
    return path.startswith(own) and path[len(own)] in ".[{"


def _top(path: str, own: str) -> bool:
    return (path == own or _below(path, own)) and not set("[{~") & set(path[len(own) :])


def _size(thing: Any) -> int | None:
    if isinstance(thing, (Mapping, AbstractSet, Sequence, deque)):
        return len(thing)
    if hasattr(thing, "cache_info"):
        return int(thing.cache_info().currsize)
    return int(thing.size) if hasattr(thing, "nbytes") else None


def _within(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        yield from (("[]", value) for value in list(thing.values()))
        yield from (("{}", key) for key in list(thing))
    elif isinstance(thing, (AbstractSet, list, tuple, deque)):
        yield from (("[]", value) for value in list(thing))
    elif isinstance(thing, MethodType):
        yield "", thing.__self__
        return
    names = [name for kind in type(thing).__mro__ for name in _slots(kind)]
    own = getattr(thing, "__dict__", None)
    if own:
        yield from ((f".{name}", value) for name, value in list(own.items()))
    yield from ((f".{name}", getattr(thing, name)) for name in names if hasattr(thing, name))
    if not own and not names and not isinstance(thing, (Mapping, AbstractSet, Sequence, deque)):
        # A partial, a generator, a cell of a closure: only the collector knows what it holds.
        yield from (("~", one) for one in gc.get_referents(thing))


def _slots(kind: type) -> tuple[str, ...]:
    named = kind.__dict__.get("__slots__", ())
    every = (named,) if isinstance(named, str) else tuple(named)
    return tuple(name for name in every if name not in {"__dict__", "__weakref__"})


def _of_modules() -> Iterator[tuple[str, Any]]:
    """What stands at the top of a module and can grow."""
    for name, module in sorted(sys.modules.items()):
        if module is None or not (name == "scheduler" or name.startswith("scheduler.")):
            continue
        for word, thing in list(vars(module).items()):
            if word.startswith("__"):
                continue
            if isinstance(thing, (dict, list, set, deque)) or hasattr(thing, "cache_info"):
                yield f"{name}:{word}", thing
