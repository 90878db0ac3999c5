"""Settings that change while the service runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.engine import Engine
from scheduler.model.queueing import Order, Share
from scheduler.service.settings_reload import keep_reading, reread
from scheduler.settings import load


class EnoughError(Exception):
    pass


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text("{}")
    return path


@pytest.fixture
def engine() -> Engine:
    return Engine(load(None, environ={}).policy)


def test_shares_and_order_are_taken_over(file: Path, engine: Engine):
    """What the section `queue` says counts from then on."""
    file.write_text("queue: {order: fair, shares: {research: {guaranteed: {nvidia.com/gpu: 8}, weight: 2}}}")

    engine.observe(reread(engine.policy, lambda: load(file, environ={})), 0.0)

    assert engine.policy.order is Order.FAIR
    assert engine.policy.shares == {"research": Share((("nvidia.com/gpu", 8),), (), 2.0)}
    assert engine.ledger.share_usage.shares == engine.policy.shares


def test_a_file_that_cannot_be_used_changes_nothing(file: Path, engine: Engine):
    """A misspelt order is told in the log, and the old policy stays."""
    before = engine.policy
    file.write_text("queue: {order: lifo}")

    assert reread(engine.policy, lambda: load(file, environ={})) == []
    assert engine.policy == before


def test_what_takes_a_new_start_is_left(file: Path, engine: Engine):
    """A change of levels cannot be taken over; that of the queue beside it can."""
    before = engine.policy
    file.write_text("placement: {strategy: spread}\nqueue: {order: las}")

    engine.observe(reread(engine.policy, lambda: load(file, environ={})), 0.0)

    assert engine.policy == replace(before, order=Order.LAS)


async def test_the_file_is_read_when_it_changes(file: Path, engine: Engine):
    """Looks at an unchanged file read nothing; the first look after a change does."""
    stamps = iter([1, 1, 1, 2, 2])
    reads = []

    async def sleep(_seconds: float) -> None:
        if len(reads) == 1:
            raise EnoughError

    def read():
        reads.append(next(stamps, 0))
        return load(file, environ={})

    with pytest.raises(EnoughError):
        await keep_reading(engine, read, lambda: next(stamps), list, sleep)

    assert len(reads) == 1
