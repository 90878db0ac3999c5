"""Patches Horovod's elastic modules, and some of PyTorch's, during their import, before a script can use them.

A finder at the head of `sys.meta_path` lets the ordinary import run and then patches the new module. It changes only
functions of the Python layer (the reset loop, commit, check); Horovod's files and its C++ stay unchanged. The same
finder answers `import gangwright` with the small API.

A script that is not elastic is reported to the agent as soon as this is detected. A torchrun job would train to its end
on each worker alone, and count as failed.

A script creates PyTorch's `DistributedSampler` once, with its rank and size at that time. In a later round the parts
would overlap or omit samples. So the sampler is updated in each round, as Horovod's `ElasticSampler` is. A sampler that
was created for another rank or size than those of the process is left alone.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import weakref
from typing import Any, Mapping, Sequence

API = "gangwright"

TRIES = 3
"""Number of tries to reach the agent. It is on the same machine; if it does not answer, the script continues."""


def install() -> None:
    """Installs the finder, once per process."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def patch_process_group(module: Any) -> None:
    """Patches before `torch.distributed` copies its names. The import alone proves nothing: `import torch` does it."""
    _tells(module, "init_process_group", "it calls torch.distributed.init_process_group without Horovod")


def patch_launcher(module: Any) -> None:
    """Patches the function that torchrun calls."""
    _tells(module, "launch_agent", "torchrun runs it")


def _tells(module: Any, name: str, what: str) -> None:
    """Makes a call of this function end the process with `what` as the reason, unless Horovod is loaded."""
    inner = getattr(module, name, None)
    if inner is None:
        return

    @functools.wraps(inner)
    def called(*args: Any, **words: Any) -> Any:
        if "horovod" not in sys.modules:
            end(what)
        return inner(*args, **words)

    setattr(module, name, called)


def end(what: str) -> None:
    """Ends this process with a message. `what`: the evidence, as a sentence about the script. Raises SystemExit.

    The agent rejects this if an elastic training has begun: a script may run another tool next to it.
    """
    from . import worker_context

    why = (
        f"the script is not elastic: {what}. Decorate its training function with hvd.elastic.run, or run it as an "
        "ordinary Job of a gang"
    )
    agent, body = worker_context.shim(), {"code": 1, "why": why, "foreign": what}
    told = any(agent.tell("/gone", body) for _ in range(TRIES))
    agent.close()
    if told:
        raise SystemExit(f"gangwright: {why}")


_made: Any = weakref.WeakValueDictionary()
"""Samplers by identity, because a class of a script may not be hashable."""
_makes: Any = None
"""The original constructor of such a sampler; derived classes may have another one."""


def patch_samplers(module: Any) -> None:
    """Records each `DistributedSampler` that is created from now on."""
    global _makes  # noqa: PLW0603 - one module of PyTorch's
    make = _makes = module.DistributedSampler.__init__

    @functools.wraps(make)
    def init(self: Any, *args: Any, **words: Any) -> None:
        make(self, *args, **words)
        _made[id(self)] = self

    module.DistributedSampler.__init__ = init


def deal_samplers(former: tuple[int, int], rank: int, size: int) -> bool:
    """Updates the samplers that were created for the rank and size `former`; whether there are any."""
    dealt = [one for one in _made.values() if (one.rank, one.num_replicas) == former]
    for one in dealt if former != (rank, size) else ():
        epoch = one.epoch
        _makes(one, one.dataset, size, rank, one.shuffle, one.seed, one.drop_last)
        one.epoch = epoch
    return bool(dealt)


PATCHES: Mapping[str, str] = {
    "horovod.common.elastic": "run_loop.patch",
    "horovod.tensorflow.elastic": "run_loop.patch_tensorflow",
    "horovod.tensorflow": "step_timer.patch",
    "horovod.torch.optimizer": "step_timer.patch_torch",
    "horovod.common.basics": "script_setup.patch_basics",
    "horovod.common.process_sets": "script_setup.patch_process_sets",
    "horovod.tensorflow.mpi_ops": "script_setup.patch_operations",
    "horovod.torch.mpi_ops": "script_setup.patch_operations",
    "torch.utils.data.distributed": "import_hook.patch_samplers",
    "torch.distributed.distributed_c10d": "import_hook.patch_process_group",
    "torch.distributed.launcher.api": "import_hook.patch_launcher",
}
"""Module → the function of this package that patches it after its execution; imported no earlier."""


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules as usual, with a loader that patches them after execution."""

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
    """The original loader, followed by a patch."""

    def __init__(self, inner: Any, change: str) -> None:
        self._inner, self._change = inner, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._inner.exec_module(module)
        ours, _, name = self._change.partition(".")
        getattr(importlib.import_module(f"{__package__}.{ours}"), name)(module)


class _Api(importlib.abc.Loader):
    """Loads `script_api` of this package as `gangwright`, a name that does not depend on the agent's location."""

    def create_module(self, _spec: importlib.machinery.ModuleSpec) -> Any:
        return importlib.import_module(f"{__package__}.script_api")

    def exec_module(self, module: Any) -> None:
        """Executed already, by its own name."""
