"""A cluster to ask, and files to give to the command."""

from pathlib import Path

import pytest
import yaml

from scheduler.settings import Log, LogLevel
from scheduler.telemetry import log
from tests.cli.support.speaking import Cluster


@pytest.fixture(autouse=True)
def quiet() -> None:
    """What a status service of this process writes is no word of the command."""
    log.configure(Log(level=LogLevel.WARNING))


@pytest.fixture
async def cluster(tmp_path: Path):
    """Two racks of two nodes with eight devices each, and nobody on them."""
    async with Cluster(tmp_path) as made:
        for rack in range(2):
            for node in range(2):
                made.node(f"r{rack}-n{node}", rack=f"r{rack}")
        yield made


@pytest.fixture
def write(tmp_path):
    """Writes manifests into a file; returns its path."""

    def written(*things, name="job.yaml"):
        place = tmp_path / name
        place.write_text(yaml.safe_dump_all(things))
        return str(place)

    return written
