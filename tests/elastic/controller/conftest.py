"""A cluster without anything, and a master that looks after its jobs."""

from collections.abc import Iterator

import pytest
import stamina
from stamina.instrumentation import RetryDetails, get_on_retry_hooks, set_on_retry_hooks

from tests.elastic.controller.support.house import House, world


@pytest.fixture
async def api():
    async with world() as server:
        yield server


@pytest.fixture
async def house(api, tmp_path):
    async with House(api, tmp_path) as made:
        yield made


@pytest.fixture
def retries() -> Iterator[list[RetryDetails]]:
    """Every further try of a request, as it is planned."""
    found: list[RetryDetails] = []
    before = get_on_retry_hooks()
    set_on_retry_hooks([found.append])
    yield found
    set_on_retry_hooks(before)


@pytest.fixture
def pauses(retries: list[RetryDetails]) -> Iterator[list[RetryDetails]]:
    """The same, and no pause takes time."""
    stamina.set_testing(True, attempts=1000, cap=True)
    yield retries
    stamina.set_testing(False)
