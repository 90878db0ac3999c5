"""Differences between frameworks, behind one interface (`plain.Plain`): TensorFlow, PyTorch, or neither.

Lives here: how a state's tensors are listed, copied, restored and broadcast, and which errors mean that a collective
has failed. Never here: when that happens. Every file imports its framework only inside functions, and only the file for
the script's state class is loaded.
"""

from __future__ import annotations

from typing import Any

from .plain import Plain


def of(state: Any) -> Plain:
    """The framework of a Horovod state, from the module of its class or of a base class."""
    rooms = {parent.__module__ for parent in type(state).__mro__}
    if any(room.startswith("horovod.torch.elastic") for room in rooms):
        from .torch import Torch

        return Torch(state)
    if any(room.startswith("horovod.tensorflow.elastic") for room in rooms):
        from .tensorflow import TensorFlow

        if TensorFlow.eager():
            return TensorFlow(state)
    return Plain(state)


__all__ = ["Plain", "of"]
