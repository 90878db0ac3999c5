# ruff: noqa: SLF001 - the seams of Horovod's Python layer are private
"""Changes Horovod's elastic half while it is imported, before a script can take hold of it.

A finder at the head of `sys.meta_path` lets the ordinary import do its work and then changes the fresh module. What is
changed is the Python layer's own seams (the reset loop, commit, check); Horovod's files and its C++ stay as they are.
The same finder answers `import gangwright` with our small API, and sees to it that scripts of another kind are told of.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import Any, Callable, Mapping, Sequence

API = "gangwright"


def install() -> None:
    """Once in a process."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def _common_elastic(module: Any) -> None:
    from . import run_loop

    module.run_fn = run_loop.run_fn
    module.State.commit = run_loop.commit
    module.State.check_host_updates = run_loop.check


def _tensorflow_elastic(module: Any) -> None:
    """Its `run` would turn an `UnknownError` that is not Horovod's into a quiet end of the training."""
    from . import run_loop

    def run(func: Callable[..., Any]) -> Callable[..., Any]:
        return run_loop.run_fn(func, module._reset)

    module.run = run


def _process_group(module: Any) -> None:
    """Changed before `torch.distributed` takes its names over. The import alone says nothing: `import torch` does it."""
    _tells(module, "init_process_group", "it calls torch.distributed.init_process_group without Horovod")


def _torchrun(module: Any) -> None:
    _tells(module, "launch_agent", "torchrun runs it")


def _tells(module: Any, name: str, what: str) -> None:
    """Have a function of the module say what its call shows, unless Horovod is there."""
    inner = getattr(module, name, None)
    if inner is None:
        return

    @functools.wraps(inner)
    def called(*args: Any, **words: Any) -> Any:
        if "horovod" not in sys.modules:
            from . import foreign_script

            foreign_script.seen(what)
        return inner(*args, **words)

    setattr(module, name, called)


def _by(ours: str, name: str) -> Callable[[Any], None]:
    """A change that a module of ours makes, which is imported when that is."""

    def change(module: Any) -> None:
        getattr(importlib.import_module(f"{__package__}.{ours}"), name)(module)

    return change


PATCHES: Mapping[str, Callable[[Any], None]] = {
    "horovod.common.elastic": _common_elastic,
    "horovod.tensorflow.elastic": _tensorflow_elastic,
    "horovod.tensorflow": _by("stamps", "patch"),
    "horovod.torch.optimizer": _by("stamps", "patch_torch"),
    "horovod.common.basics": _by("setting_up", "patch_basics"),
    "horovod.common.process_sets": _by("setting_up", "patch_process_sets"),
    "horovod.tensorflow.mpi_ops": _by("setting_up", "patch_operations"),
    "horovod.torch.mpi_ops": _by("setting_up", "patch_operations"),
    "torch.utils.data.distributed": _by("samplers", "patch"),
    "torch.distributed.distributed_c10d": _process_group,
    "torch.distributed.launcher.api": _torchrun,
}
"""Module → what is done to it when it has been executed."""


class Finder(importlib.abc.MetaPathFinder):
    """Finds what others find, with a loader that changes it afterwards."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == API:
            return importlib.util.spec_from_loader(API, _Api())
        if fullname not in PATCHES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Patching(spec.loader, PATCHES[fullname])
        return spec


class _Patching(importlib.abc.Loader):
    """The loader of somebody else, and a change at the end."""

    def __init__(self, inner: Any, change: Callable[[Any], None]) -> None:
        self._inner, self._change = inner, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._inner.exec_module(module)
        self._change(module)


class _Api(importlib.abc.Loader):
    """`gangwright` is the module `script_api` beside this one, by a name that does not depend on where the agent lies."""

    def create_module(self, _spec: importlib.machinery.ModuleSpec) -> Any:
        return importlib.import_module(f"{__package__}.script_api")

    def exec_module(self, module: Any) -> None:
        """Executed already, by its own name."""
