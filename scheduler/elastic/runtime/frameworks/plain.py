# ruff: noqa: TID252, SLF001 - this package has no absolute name; Horovod's states keep their seams private
"""A state of plain values, of no framework; also what every framework does alike, and the interface of all of them."""

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
"""Name of the collective by which all ranks hear rank 0's numbers; always the same, so that Horovod's cache knows it."""

PLAIN_LIMIT = 16_384
"""Characters of plain values that go through the round's key-value store (64 KiB a value) instead of two broadcasts."""


class Plain:
    """`hvd.elastic.ObjectState` and everything derived from it that names no tensors."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def prepare(self) -> None:
        """Makes every tensor exist that training will need, so that all workers have the same ones."""

    def shapes(self) -> list[str]:
        """One entry for each tensor of the state: its dtype and dimensions."""
        return []

    def attributes(self) -> list[str]:
        """Names of the plain values."""
        return list(getattr(self.state, "_saved_state", {}))

    def plain(self) -> str | None:
        """The plain values of the last commit as JSON, when they come back from it exactly as they were; else None."""
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
        """Everybody gets rank 0's state, and has it as its last commit; when that fails, the last commit is the old one
        still.

        Its plain values came with rank 0's word already, or else Horovod broadcasts them.
        """
        if plain is None:
            self._sync_or_not_at_all()
        else:
            self.broadcast_tensors()
            self.state._saved_state = state_codec.unpack(plain, {})
            self.state._set_attrs()
        self.state.save()

    def _sync_or_not_at_all(self) -> None:
        """Horovod's states save the tensors before they ask for the plain values, so a failure would leave half of
        each.
        """
        own = getattr(self.state, "__dict__", {})
        kept = {name: value for name, value in own.items() if name.startswith(SAVED)}
        try:
            self.state.sync()
        except BaseException:
            own.update(kept)
            raise

    def go_back(self) -> None:
        """The state is what it was at the last commit."""
        self.state.restore()

    def broadcast_tensors(self) -> None:
        """Everybody gets rank 0's tensors."""

    def entered(self, former: tuple[int, int] | None, mine: tuple[int, int]) -> bool:
        """A round has begun: data are dealt again, for rank and size `mine` instead of `former`; whether there are any."""
        return former is not None and import_hook.deal_samplers(former, *mine)

    def broadcast(self, numbers: Sequence[int]) -> list[int]:
        """Rank 0's numbers, on every rank. The same count of numbers on every rank."""
        return list(self.state._bcast_object(list(numbers)))

    def failed(self, error: BaseException) -> bool:
        """Whether `error` means that a collective could not be finished, so that the round is over.

        TensorFlow's collectives fail with errors of its own that name a Horovod op, also beside a state without tensors,
        and Horovod translates them in the training function alone.
        """
        internal = importlib.import_module("horovod.common.exceptions").HorovodInternalError
        tf: Any = sys.modules.get("tensorflow")
        theirs = (tf.errors.UnknownError, tf.errors.AbortedError) if tf is not None else ()
        return isinstance(error, internal) or (isinstance(error, theirs) and "orovod" in str(error))

    def shutdown(self) -> None:
        """Leaves the ring, so that nothing of the old round is held while the next one is waited for."""

    def stamp(self) -> Stamp:
        """What notes the moment of each step's first allreduce, where the framework shows it."""
        return Stamp()

    @contextlib.contextmanager
    def undone(self, kept: Snapshot) -> Iterator[None]:
        """Whatever the block does to what was kept, and to the sources of chance, is undone after it."""
        back = _chance_back()
        kept.lend()
        try:
            yield
        finally:
            kept.put_back(self.stays)
            for put_back in back:
                put_back()

    def stays(self, _value: Any) -> bool:
        """Whether something that is new is left where it is, since a traced function would not make it again."""
        return False

    def export(self) -> dict[str, Any]:
        """The last commit as a nest of plain values and tensors."""
        return {ATTRIBUTES: dict(getattr(self.state, "_saved_state", {}))}

    def load(self, tree: Any) -> None:
        """Takes over what `export` gave, and has it as its last commit."""
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
    """Chance on devices; one that was not in use begins with the seed of the processor's."""
    states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def put_back() -> None:
        if states is not None:
            torch.cuda.set_rng_state_all(states)
        elif torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(torch.initial_seed())

    return put_back
