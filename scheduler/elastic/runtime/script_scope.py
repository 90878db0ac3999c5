"""The scope of the script: its modules, its classes, and the names that its code refers to. Pure.

A module of the script is neither in the standard library nor among installed packages, unless the training function
itself was installed. Some classes of libraries are visited like the script's own: they keep plain values in attributes.
"""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
import types
from typing import Any, Callable, Iterator

FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras", "torch", "numpy", "horovod"})
"""Packages that never belong to the script, regardless of their location."""

OPEN = (
    *("argparse", "types", "collections", "horovod", "torch.utils.data"),
    *("keras.callbacks", "keras.src.callbacks", "tensorflow.python.keras.callbacks"),
)
"""Modules, including their submodules, whose objects are visited."""

GLOBAL = ("GLOBAL", "_NAME")
"""Parts of the names of instructions that refer to a module's names; others refer to attributes."""

TRACKABLE = "tensorflow.python.trackable"
"""The module of the base class of TensorFlow's and Keras's models, layers, optimizers and data sets."""

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
        """Whether a module, by its name, belongs to the script."""
        if not isinstance(module, str) or _below(module, OURS):
            return False
        if _root(module) in self._roots:
            return True
        file = getattr(sys.modules.get(module), "__file__", None)
        return bool(file) and _root(module) not in FRAMEWORKS and not _installed(str(file))

    def owns(self, kind: type) -> bool:
        """Whether a class belongs to the script."""
        return self.has(kind.__module__)

    def opens(self, value: Any) -> bool:
        """Whether the attributes of an object are visited, by its class."""
        kind = type(value)
        if kind not in self._kinds:
            self._kinds[kind] = not trackable(kind) and any(map(self._open, kind.__mro__))
        return self._kinds[kind]

    def slots(self, kind: type) -> list[tuple[str, Any]]:
        """Slots of the script's classes among its base classes, with their descriptors."""
        if kind not in self._slots:
            own = (one for parent in kind.__mro__ if self.owns(parent) for one in vars(parent).items())
            self._slots[kind] = [one for one in own if isinstance(one[1], types.MemberDescriptorType)]
        return self._slots[kind]

    def _open(self, kind: type) -> bool:
        own = any(_below(str(kind.__module__), one) for one in OPEN)
        return own or "load_state_dict" in vars(kind) or self.owns(kind)


def trackable(kind: type) -> bool:
    """Whether the class is TensorFlow's or derived from it: its objects keep traced functions and built variables."""
    return any(str(one.__module__).startswith(TRACKABLE) for one in kind.__mro__)


def names(code: types.CodeType, only: tuple[str, ...] = ("",)) -> set[str]:
    """Names that the code of a function and of its inner functions refers to; `only`: by such instructions."""
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
    """The callees of a callable or descriptor: for a method also its object, for a traced function the Python one."""
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
