# ruff: noqa: TID252 - this package has no absolute name
"""PyTorch: `TorchState` with its models, optimizers and samplers.

Horovod's `TorchState.sync` does not save, so a newcomer that became rank 0 before its first commit would go back to its
initial weights at the current epoch. `Plain.sync` saves for every framework. An optimizer's slots are not part of the
fingerprint, because `broadcast_optimizer_state` creates missing ones. An `ElasticSampler` divides data by rank and
size, and reads both from Horovod whenever its state is loaded. Between two rounds Horovod cannot answer. In a round
that begins without a sync (after a member left in order), stock Horovod lets it divide for the previous members.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from typing import Any, Callable, Sequence

from .. import step_timer
from ..state_codec import shape
from .plain import AGREEMENT, ATTRIBUTES, Plain

HANDLED = "handled"
TENSOR = "$tensor"
"""Marks a tensor among the plain values of a checkpoint; as a bare array it would come back as a numpy array."""


class Torch(Plain):
    """Each named part of the state through its `state_dict`."""

    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self._torch = importlib.import_module("torch")
        self._hvd = importlib.import_module("horovod.torch")

    def shapes(self) -> list[str]:
        models = [
            part for _, part in sorted(self._parts().items()) if isinstance(part, self._torch.nn.Module)
        ]
        values = [value for model in models for value in model.state_dict().values()]
        return [shape(str(value.dtype).split(".")[-1], list(value.shape)) for value in values]

    def attributes(self) -> list[str]:
        return [*super().attributes(), *self._parts()]

    def broadcast(self, numbers: Sequence[int]) -> list[int]:
        mine = self._torch.tensor(list(numbers), dtype=self._torch.int64)
        return [int(one) for one in self._hvd.broadcast(mine, 0, name=AGREEMENT).tolist()]

    def go_back(self) -> None:
        """Restores the last commit; optimizers and samplers get copies of it.

        An optimizer keeps the tensors that it loads (PyTorch 2.1 and later) and changes them in its next step; a
        sampler keeps its set. But the commit must not change: it may be written to disk, and the next failure goes back
        to it. Models copy what they load, and a device may have no memory for another copy.
        """
        super().go_back()
        for handler in self._handlers().values():
            if isinstance(handler.value, self._torch.optim.Optimizer):
                handler.value.load_state_dict(copy.deepcopy(_committed(handler)))
            elif not isinstance(handler.value, self._torch.nn.Module):
                _commit(handler, copy.deepcopy(_committed(handler)))

    def broadcast_tensors(self) -> None:
        for handler in self._handlers().values():
            handler.sync()

    def entered(self, former: tuple[int, int] | None, mine: tuple[int, int]) -> bool:
        ours = [part for part in self._parts().values() if self._deals(part)]
        for part in ours:
            part.reset()
        return super().entered(former, mine) or bool(ours)

    def shutdown(self) -> None:
        self._hvd.shutdown()

    def stamp(self) -> step_timer.Stamp:
        return step_timer.start_torch()

    def export(self) -> dict[str, Any]:
        return {
            ATTRIBUTES: _each(super().export()[ATTRIBUTES], self._marked),
            HANDLED: {name: _committed(one) for name, one in self._handlers().items()},
        }

    def load(self, tree: Any) -> None:
        for name, part in self._parts().items():
            kept = _each(tree[HANDLED][name], self._tensor)
            if self._deals(part):
                vars(part).update(kept)  # rank and size are unknown now: `entered` divides the data
            else:
                part.load_state_dict(kept)
        super().load({ATTRIBUTES: _each(tree[ATTRIBUTES], self._unmarked)})

    def as_array(self, leaf: Any) -> Any:
        if not isinstance(leaf, self._torch.Tensor):
            return super().as_array(leaf)
        # numpy has no bfloat16; float32 holds all its values, and loading converts back
        known = leaf.float() if leaf.dtype == self._torch.bfloat16 else leaf
        return known.detach().cpu().numpy()

    def _deals(self, part: Any) -> bool:
        return isinstance(part, self._hvd.elastic.ElasticSampler)

    def _parts(self) -> dict[str, Any]:
        return {name: handler.value for name, handler in self._handlers().items()}

    def _handlers(self) -> dict[str, Any]:
        return dict(getattr(self.state, "_handlers", {}))

    def _marked(self, node: Any) -> Any:
        """A tensor among plain values, with its type and device."""
        if not isinstance(node, self._torch.Tensor):
            return None
        return {TENSOR: node, "dtype": str(node.dtype).split(".")[-1], "device": str(node.device)}

    def _unmarked(self, node: Any) -> Any:
        if not (isinstance(node, dict) and TENSOR in node):
            return None
        tensor = self._torch.from_numpy(node[TENSOR].copy()).to(dtype=getattr(self._torch, node["dtype"]))
        with contextlib.suppress(RuntimeError, AssertionError):  # a device that this worker does not have
            tensor = tensor.to(device=node["device"])
        return tensor

    def _tensor(self, node: Any) -> Any:
        numpy = importlib.import_module("numpy")
        return self._torch.from_numpy(node.copy()) if isinstance(node, numpy.ndarray) else None


def _each(node: Any, change: Callable[[Any], Any]) -> Any:
    """A nested value with the results of `change` in place of its parts; None: the part itself, changed inside."""
    changed = change(node)
    if changed is not None:
        return changed
    if isinstance(node, dict):
        return {key: _each(value, change) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return (tuple if isinstance(node, tuple) else list)(_each(one, change) for one in node)
    return node


def _committed(handler: Any) -> Any:
    """The copy that a Horovod handler made at the last commit."""
    return vars(handler)[_saved(handler)]


def _commit(handler: Any, value: Any) -> None:
    setattr(handler, _saved(handler), value)


def _saved(handler: Any) -> str:
    """The attribute name of the last commit, which differs per kind of handler."""
    return next(str(name) for name in vars(handler) if name.startswith("_saved_"))
