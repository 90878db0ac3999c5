"""What differs between frameworks, behind one interface (`plain.Plain`): tensorflow, torch, or neither.

Lives here: how a state's tensors are listed, copied, put back and broadcast, and which errors mean that a collective
has failed. Never here: when any of that is done. Every file imports its framework only inside functions, and only the
one whose state class the script uses is ever loaded.
"""

from __future__ import annotations

from typing import Any

from .plain import Plain


def of(state: Any) -> Plain:
    """The framework of a Horovod state, told from where its class (or a parent) was defined."""
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
