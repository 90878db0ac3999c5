"""A cluster without anything, and a master that looks after its jobs."""

import pytest

from tests.elastic.controller.house import House, world


@pytest.fixture
async def api():
    async with world() as server:
        yield server


@pytest.fixture
async def house(api, tmp_path):
    async with House(api, tmp_path) as made:
        yield made
