# ruff: noqa: TID252, SLF001 - this package has no absolute name; Horovod's states keep their seams private
"""A state of plain values without a framework; also the interface of all frameworks, and their common code."""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
from typing import Any, Callable, Iterator, Sequence

from .. import import_hook, state_codec
from ..rehearsal_snapshot import SAVED, Snapshot
from ..runtime_errors import CheckpointError
from ..step_timer import Stamp

ATTRIBUTES = "attributes"

AGREEMENT = "gangwright.agreement"
"""Name of the collective that broadcasts rank 0's numbers; constant, so that Horovod's cache applies."""

PLAIN_LIMIT = 16_384
"""Maximum characters of plain values that use the round's key-value store (64 KiB per value) instead of two
broadcasts."""


class Plain:
    """`hvd.elastic.ObjectState` and all derived classes without tensors."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def prepare(self) -> None:
        """Creates every tensor that training needs, so that all workers have the same ones."""

    def shapes(self) -> list[str]:
        """One entry per tensor of the state: its dtype and dimensions."""
        return []

    def attributes(self) -> list[str]:
        """Names of the plain values."""
        return list(getattr(self.state, "_saved_state", {}))

    def plain(self) -> str | None:
        """The plain values of the last commit as JSON, if it represents them exactly; else None."""
        values = getattr(self.state, "_saved_state", None)
        if values is None or not type(self.state).sync.__module__.startswith("horovod."):
            return None
        try:
            text, _ = state_codec.pack(values, lambda _leaf: None)
        except CheckpointError:
            return None
        return (
            text if repr(state_codec.unpack(text, {})) == repr(values) and len(text) <= PLAIN_LIMIT else None
        )

    def sync(self, plain: str | None) -> None:
        """All ranks take over rank 0's state as their last commit. If that fails, the old commit stays.

        plain: rank 0's plain values from the barrier; None: Horovod broadcasts them.
        """
        if plain is None:
            self._sync_or_not_at_all()
        else:
            self.broadcast_tensors()
            self.state._saved_state = state_codec.unpack(plain, {})
            self.state._set_attrs()
        self.state.save()

    def _sync_or_not_at_all(self) -> None:
        """Synchronizes, or restores the last commit. Horovod's states save the tensors before they receive the plain
        values, so a failure would leave a mixture of both.
        """
        own = getattr(self.state, "__dict__", {})
        kept = {name: value for name, value in own.items() if name.startswith(SAVED)}
        try:
            self.state.sync()
        except BaseException:
            own.update(kept)
            raise

    def go_back(self) -> None:
        """Restores the state of the last commit."""
        self.state.restore()

    def broadcast_tensors(self) -> None:
        """All ranks receive rank 0's tensors."""

    def entered(self, former: tuple[int, int] | None, mine: tuple[int, int]) -> bool:
        """A round has begun: updates samplers from rank and size `former` to `mine`; whether there are any."""
        return former is not None and import_hook.deal_samplers(former, *mine)

    def broadcast(self, numbers: Sequence[int]) -> list[int]:
        """Rank 0's numbers, on every rank. Every rank must pass the same count of numbers."""
        return list(self.state._bcast_object(list(numbers)))

    def failed(self, error: BaseException) -> bool:
        """Whether `error` means that a collective failed, so that the round is over.

        TensorFlow's collectives fail with its own errors, which name a Horovod operation, also with a state without
        tensors. Horovod translates them only in the training function.
        """
        internal = importlib.import_module("horovod.common.exceptions").HorovodInternalError
        tf: Any = sys.modules.get("tensorflow")
        theirs = (tf.errors.UnknownError, tf.errors.AbortedError) if tf is not None else ()
        return isinstance(error, internal) or (isinstance(error, theirs) and "orovod" in str(error))

    def shutdown(self) -> None:
        """Leaves the ring, so that no resource of the old round is held while waiting for the next one."""

    def stamp(self) -> Stamp:
        """The recorder of the time of each step's first allreduce, if the framework exposes it."""
        return Stamp()

    @contextlib.contextmanager
    def undone(self, kept: Snapshot) -> Iterator[None]:
        """Context after which the kept objects and the random states are restored."""
        back = _chance_back()
        kept.lend()
        try:
            yield
        finally:
            kept.put_back(self.stays)
            for put_back in back:
                put_back()

    def stays(self, _value: Any) -> bool:
        """Whether a new object stays, because a traced function would not create it a second time."""
        return False

    def export(self) -> dict[str, Any]:
        """The last commit as nested plain values and tensors."""
        return {ATTRIBUTES: dict(getattr(self.state, "_saved_state", {}))}

    def load(self, tree: Any) -> None:
        """Takes over the result of `export` as its state and last commit."""
        for name, value in tree[ATTRIBUTES].items():
            setattr(self.state, name, value)
        self.state.save()

    def as_array(self, leaf: Any) -> Any:
        """An array for a tensor of this framework or of numpy, None for anything else."""
        numpy = importlib.import_module("numpy")
        return numpy.asarray(leaf) if isinstance(leaf, (numpy.ndarray, numpy.generic)) else None


def _chance_back() -> list[Callable[[], None]]:
    state = random.getstate()
    back: list[Callable[[], None]] = [lambda: random.setstate(state)]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        theirs = numpy.random.get_state()
        back.append(lambda: numpy.random.set_state(theirs))
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        rng = torch.get_rng_state()
        back.extend([lambda: torch.set_rng_state(rng), _devices_back(torch)])
    return back


def _devices_back(torch: Any) -> Callable[[], None]:
    """Restores the random state of devices; a device that was not in use starts with the seed of the CPU."""
    states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def put_back() -> None:
        if states is not None:
            torch.cuda.set_rng_state_all(states)
        elif torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(torch.initial_seed())

    return put_back
