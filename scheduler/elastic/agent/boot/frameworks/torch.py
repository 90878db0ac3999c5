# ruff: noqa: TID252 - this package has no absolute name
"""PyTorch: `TorchState` with its models, optimizers and samplers.

Horovod's `TorchState.sync` does not save, so a newcomer that became rank 0 before its first commit would go back to its
initial weights at the current epoch; `Plain.sync` saves for every framework. An optimizer's slots are not part of the
fingerprint: `broadcast_optimizer_state` makes them where they are missing.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from typing import Any, Iterator, Sequence

from ..fingerprint import shape
from .plain import Plain

AGREEMENT = "gangwright.agreement"
HANDLED = "handled"


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

    def broadcast_tensors(self) -> None:
        for handler in self._handlers().values():
            handler.sync()

    def shutdown(self) -> None:
        self._hvd.shutdown()

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        kept = {name: copy.deepcopy(part.state_dict()) for name, part in self._parts().items()}
        with super().undone():
            try:
                yield
            finally:
                for name, part in self._parts().items():
                    part.load_state_dict(kept[name])

    def export(self) -> dict[str, Any]:
        return {
            **super().export(),
            HANDLED: {name: _committed(one) for name, one in self._handlers().items()},
        }

    def load(self, tree: Any) -> None:
        for name, part in self._parts().items():
            part.load_state_dict(self._tensors(tree[HANDLED][name]))
        super().load(tree)

    def as_array(self, leaf: Any) -> Any:
        return leaf.detach().cpu().numpy() if isinstance(leaf, self._torch.Tensor) else super().as_array(leaf)

    def _parts(self) -> dict[str, Any]:
        return {name: handler.value for name, handler in self._handlers().items()}

    def _handlers(self) -> dict[str, Any]:
        return dict(getattr(self.state, "_handlers", {}))

    def _tensors(self, node: Any) -> Any:
        numpy = importlib.import_module("numpy")
        if isinstance(node, dict):
            return {key: self._tensors(value) for key, value in node.items()}
        if isinstance(node, (list, tuple)):
            return type(node)(self._tensors(one) for one in node)
        return self._torch.from_numpy(node.copy()) if isinstance(node, numpy.ndarray) else node


def _committed(handler: Any) -> Any:
    """The copy that a handler of Horovod's made at the last commit; each kind has a name of its own for it."""
    return next(value for name, value in vars(handler).items() if name.startswith("_saved_"))
