"""What belongs to the script: its modules, its classes, and the names that its code refers to. Pure.

A module of the script lies neither in the standard library nor among installed packages, unless the training function
itself was installed. Some classes of libraries are as open as the script's own: they keep plain values in attributes.
"""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
import types
from typing import Any, Callable, Iterator

FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras", "torch", "numpy", "horovod"})
"""Packages that are no script's, wherever they lie."""

OPEN = (
    *("argparse", "types", "collections", "horovod", "torch.utils.data"),
    *("keras.callbacks", "keras.src.callbacks", "tensorflow.python.keras.callbacks"),
)
"""Modules, with those below them, whose objects are looked into."""

GLOBAL = ("GLOBAL", "_NAME")
"""In the names of instructions that refer to a module's names; others refer to attributes."""

TRACKABLE = "tensorflow.python.trackable"
"""Where the root of TensorFlow's and Keras's models, layers, optimizers and data sets is defined."""

INSTALLED = ("site-packages", "dist-packages")
OURS = __package__ or ""


class Script:
    """The script of one training function."""

    def __init__(self, func: Callable[..., Any]) -> None:
        main = getattr(sys.modules.get("__main__"), "__package__", None)
        inner = getattr(func, "func", func)
        roots = {_root(one) for one in (main, getattr(inner, "__module__", None)) if one}
        self._roots = {"__main__", *roots} - FRAMEWORKS
        self._kinds: dict[type, bool] = {}
        self._slots: dict[type, list[tuple[str, Any]]] = {}

    def has(self, module: str | None) -> bool:
        """Whether a module is the script's, by its name."""
        if not isinstance(module, str) or _below(module, OURS):
            return False
        if _root(module) in self._roots:
            return True
        file = getattr(sys.modules.get(module), "__file__", None)
        return bool(file) and _root(module) not in FRAMEWORKS and not _installed(str(file))

    def owns(self, kind: type) -> bool:
        """Whether a class is the script's."""
        return self.has(kind.__module__)

    def opens(self, value: Any) -> bool:
        """Whether the attributes of an object are looked into, by its class."""
        kind = type(value)
        if kind not in self._kinds:
            self._kinds[kind] = not trackable(kind) and any(map(self._open, kind.__mro__))
        return self._kinds[kind]

    def slots(self, kind: type) -> list[tuple[str, Any]]:
        """Attributes for which the script's classes among its parents have reserved room, with their descriptors."""
        if kind not in self._slots:
            own = (one for parent in kind.__mro__ if self.owns(parent) for one in vars(parent).items())
            self._slots[kind] = [one for one in own if isinstance(one[1], types.MemberDescriptorType)]
        return self._slots[kind]

    def _open(self, kind: type) -> bool:
        own = any(_below(str(kind.__module__), one) for one in OPEN)
        return own or "load_state_dict" in vars(kind) or self.owns(kind)


def trackable(kind: type) -> bool:
    """Whether it is TensorFlow's, or derived from such a class: its objects keep what was traced and built."""
    return any(str(one.__module__).startswith(TRACKABLE) for one in kind.__mro__)


def names(code: types.CodeType, only: tuple[str, ...] = ("",)) -> set[str]:
    """The names that a function's code refers to, and that of functions inside it; `only` by such instructions."""
    found = {
        one.argval
        for one in dis.get_instructions(code)
        if one.opcode in dis.hasname and any(part in one.opname for part in only)
    }
    return found.union(*(names(one, only) for one in code.co_consts if isinstance(one, types.CodeType)))


def functions(kind: type) -> Iterator[types.FunctionType]:
    """The functions that a class defines."""
    for value in vars(kind).values():
        inner = getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
        if isinstance(inner, types.FunctionType):
            yield inner


def wrapped(value: Any) -> list[Any]:
    """What a callable or a descriptor calls: of a method also the object, of a traced function the script's one."""
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, (types.BuiltinMethodType, types.MethodWrapperType)):
        return [value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    traced = value.python_function if hasattr(type(value), "python_function") else None
    inner = getattr(value, "__dict__", None)
    held = inner.get("__wrapped__") if isinstance(inner, dict) else None
    return [
        getattr(value, "__func__", None) if isinstance(value, (staticmethod, classmethod)) else None,
        held,
        traced,
    ]


def _root(module: str) -> str:
    return module.partition(".")[0]


def _below(module: str, above: str) -> bool:
    return module == above or module.startswith(above + ".")


def _installed(file: str) -> bool:
    paths = sysconfig.get_paths()
    standard = file.startswith((paths["stdlib"] + "/", paths["platstdlib"] + "/"))
    return standard or any(f"/{one}/" in file for one in INSTALLED)
