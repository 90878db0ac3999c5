"""What a child laid down for its peers, when the master that held it is another one."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.elastic.agent.assignment import read
from scheduler.elastic.agent.backoff import Outage, Patience
from scheduler.elastic.agent.connections import Connections
from scheduler.elastic.agent.incarnation import Incarnation
from scheduler.elastic.agent.master import Master as Client
from scheduler.elastic.agent.settings import Address
from scheduler.elastic.agent.store import Store
from tests.elastic.agent.master import Master


@pytest.fixture
def master() -> Iterator[Master]:
    with Master() as running:
        yield running


@pytest.fixture
def store(master: Master, tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "token").write_text("token-1")
    connections = Connections(Address("127.0.0.1", master._port, secure=False), "")
    patience = Patience(Outage(lambda _: None), threading.Event())
    yield Store(Client(connections, str(tmp_path / "token")), patience, 60.0)
    connections.close()


def joined(master: Master, number: int, child: Incarnation) -> None:
    master.assign(number, 0, 2)
    assert master.assignment is not None
    child.assign(read(master.assignment))


def test_what_went_with_the_master_is_laid_down_again(master: Master, store: Store) -> None:
    """Only its own: of what it has read its peers' agents take care."""
    child = Incarnation(1)
    joined(master, 3, child)
    master.values[3, "global", "1"] = b"peer"
    assert store.answer(child, "PUT", "global", "0", b"mine").status == 200
    assert store.answer(child, "GET", "global", "1", b"").body == b"peer"
    master.values.clear()
    store.lay_again(child)

    assert master.values == {(3, "global", "0"): b"mine"}


def test_what_nobody_wants_any_more_is_not_laid_down_again(master: Master, store: Store) -> None:
    """Of a round that is over, and of one in which the child trains, so that all have met."""
    child = Incarnation(1)
    joined(master, 3, child)
    store.answer(child, "PUT", "global", "0", b"mine")
    joined(master, 4, child)
    master.values.clear()
    store.lay_again(child)
    assert not master.values

    store.answer(child, "PUT", "global", "0", b"mine")
    master.values.clear()
    child.take({"phase": "Training"})
    store.lay_again(child)
    assert not master.values


def test_a_round_that_ended_meanwhile_takes_nothing(master: Master, store: Store) -> None:
    """The master says so, and that is all."""
    child = Incarnation(1)
    joined(master, 3, child)
    store.answer(child, "PUT", "global", "0", b"mine")
    master.values.clear()
    master.announce(4)
    store.lay_again(child)

    assert not master.values
