"""How large a ring the rendezvous can hold: what Horovod lays down for one, against the bounds in the settings.

Lives here: arithmetic. Never here: the bounds (`scheduler.settings`), or what becomes of a job that asks for
more (`scheduler.elastic.reconciler.ring_limit`). Why the ring is bounded by the room, and the room does not grow with the
ring: everybody lays down an address for everybody else, so it grows with the square. Then one person's `maxWorkers`
would say how much memory the master takes, which all jobs need; an administrator may raise the bounds together with
that memory. And a member whose value is refused can do nothing: Horovod aborts its process, and so those of all the
others.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

from scheduler.elastic.agent.kv_proxy import VALUE_LIMIT
from scheduler.elastic.job.spec import MOST_WORKERS
from scheduler.elastic.rendezvous.kv_store import ENTRY, OLD
from scheduler.settings import RendezvousServer

ADDRESS: Final = 136
"""Bytes of one address of gloo's; a member lays down one for each other member, in one value."""

MESHES: Final = 2
"""Horovod connects everybody with everybody twice: for all ranks, and for the process set of all ranks."""

KEYS: Final = 8
"""Values of one member: four a mesh, of which its agent keeps two to itself (`kv_proxy.OWN`), as earlier ones did not."""

SHARED: Final = 4
"""Values that all members lay down under the same keys."""

WORDS: Final = 160
"""Bytes of a key, and of a value that is no list of addresses, at the most. The longest key has the name of a pod in
it: 63 characters of a job's name, and what makes it one of its workers."""


class Ring(NamedTuple):
    """The most members of one round, and what bounds them."""

    members: int
    bound: str


def lain(members: int) -> int:
    """Bytes that a round's values take for a ring of so many, at the most."""
    addresses = MESHES * members * (members - 1) * ADDRESS
    return addresses + (KEYS * members + SHARED) * (ENTRY + WORDS)


def largest(bounds: RendezvousServer) -> Ring:
    """The largest ring of which every value is taken, though all the rounds of its job that are kept be as large."""
    return min(
        Ring(_within(bounds.round_limit), "rendezvous.roundLimit"),
        Ring(_within(bounds.values_limit // (OLD + 1)), "rendezvous.valuesLimit, for three rounds of a job"),
        Ring(1 + bounds.value_limit // ADDRESS, "rendezvous.valueLimit"),
        Ring(1 + VALUE_LIMIT // ADDRESS, f"{VALUE_LIMIT} bytes a value, which is the agent's own bound"),
        Ring(max(0, bounds.keys - SHARED) // KEYS, "rendezvous.keys"),
        key=lambda ring: ring.members,
    )


def _within(size: int) -> int:
    return bisect_right(range(MOST_WORKERS + 1), size, key=lain) - 1
