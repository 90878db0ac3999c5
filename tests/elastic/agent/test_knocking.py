"""The end of a child's wait for peers: where gloo listens, as it lays that down, and what a knock does there."""

import socket
import struct

import pytest

from scheduler.elastic.agent.init_unblock import knock, places
from scheduler.elastic.agent.training_run import PLACES_KEPT, TrainingRun
from scheduler.elastic.runtime.round_assignment import Assignment


def entry(family: int, host: str, port: int, interface: int = 0) -> bytes:
    """An address as gloo lays it down: a sockaddr_storage, and a number."""
    packed = socket.inet_pton(family, host)
    if family == socket.AF_INET:
        head = struct.pack("=H", family) + struct.pack(">H", port) + packed
    else:
        head = (
            struct.pack("=H", family) + struct.pack(">HI", port, 7) + packed + interface.to_bytes(4, "little")
        )
    return head.ljust(128, b"\0") + struct.pack("=q", -1)


def test_where_gloo_listens() -> None:
    """Every address of a value is read, of both families."""
    value = (
        entry(socket.AF_INET, "10.1.2.3", 40001)
        + entry(socket.AF_INET, "10.1.2.3", 513)
        + entry(socket.AF_INET6, "fe80::1", 40002, 3)
    )

    assert places(value) == (
        (socket.AF_INET, ("10.1.2.3", 40001), 0),
        (socket.AF_INET, ("10.1.2.3", 513), 0),
        (socket.AF_INET6, ("fe80::1", 40002), 3),
    )


@pytest.mark.parametrize(
    "value",
    [b"", b"w-0", b"w" * 136, b"\0" * 272, entry(socket.AF_INET, "10.1.2.3", 1)[:-1],
     entry(socket.AF_INET, "10.1.2.3", 1) + b"w" * 136],
)  # fmt: skip
def test_other_values_are_no_addresses(value: bytes) -> None:
    """A host's name says nothing, whatever its length, nor does half a list."""
    assert places(value) == ()


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], ids=["4", "6"]
)
def test_a_knock(family: int, host: str) -> None:
    """Who listens sees a connection that ends; where nobody listens any more nothing happens, and the rest is gone
    through.
    """
    with socket.socket(family) as gone, socket.socket(family) as here:
        for one in (gone, here):
            one.bind((host, 0))
        here.listen()
        here.settimeout(5.0)
        value = b"".join(entry(family, host, one.getsockname()[1]) for one in (gone, here))

        assert knock(places(value)) == 1
        peer, _ = here.accept()
        with peer:
            peer.settimeout(5.0)
            assert peer.recv(1) == b""


def test_a_machine_without_such_addresses() -> None:
    """What cannot even be tried is passed over."""
    assert knock([(socket.AF_APPLETALK, ("::1", 1), 0)]) == 0


def meeting() -> TrainingRun:
    """A child that has laid down in round 4 where it listens."""
    child = TrainingRun(1)
    child.assign(Assignment(4, 0, 2))
    child.take({"phase": "Ready"})
    child.listens_at(4, places(entry(socket.AF_INET, "10.1.2.3", 1)))
    return child


def test_a_child_awaits_its_peers_in_its_round_alone() -> None:
    """Before it trains, not at the barrier, and only in the round that it is in; what it said in another is forgotten."""
    child = meeting()
    child.listens_at(3, places(entry(socket.AF_INET, "10.1.2.3", 2)))
    assert [port for _, (_, port), _ in child.awaits(4)] == [1]
    assert child.awaits(0) == child.awaits(3) == child.awaits(5) == ()
    with child.at_barrier():
        assert child.awaits(4) == ()
    child.take({"phase": "Training"})
    assert child.awaits(4) == ()

    child.take({"phase": "Ready"})
    child.assign(Assignment(5, 0, 2))
    assert child.awaits(5) == ()


def test_a_child_listens_in_so_many_places_at_most() -> None:
    """What a script lays down in process sets of its own takes no more memory than that."""
    child = meeting()
    for _ in range(9):
        child.listens_at(4, places(entry(socket.AF_INET, "10.1.2.3", 1)) * 481)

    assert len(child.awaits(4)) == PLACES_KEPT
