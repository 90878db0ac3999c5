"""What `gangwright serve` is put together with."""

from pathlib import Path

from scheduler.kube.actions import ANNOUNCERS
from scheduler.kube.client import SPARE
from scheduler.kube.lease import LeaseName
from scheduler.kube.vigil import UNGUARDED
from scheduler.objects.resources import RESOURCES
from scheduler.service import run
from scheduler.service.intake import Intake
from scheduler.settings import Api, Settings
from tests.kube.speechless import heard

MOST = 32
"""Writes at a time that the setting allows at most."""


async def test_the_lease_is_looked_at_while_all_writes_are_under_way(tmp_path: Path) -> None:
    """An API server that answers nothing has all watches and looks, writes and notices, and hears of the Lease too."""
    settings = Settings(api=Api(concurrent_writes=MOST))
    lease = LeaseName(settings.lease.namespace, settings.lease.name).path
    busy = [f"/busy/{number}" for number in range(MOST + ANNOUNCERS + SPARE)]
    paths = [*(row.path for row in RESOURCES), *busy, lease]

    assert lease in await heard(tmp_path, paths, run.connections(settings))


def test_only_what_decides_is_looked_into() -> None:
    """Nodes and pods alone are worth a call in ten seconds while nothing is heard of them."""
    intake = Intake((), lambda _events: None, lambda: None)

    assert {name for name in intake.watches() if run.guarded(intake, name) != UNGUARDED} == {"nodes", "pods"}
