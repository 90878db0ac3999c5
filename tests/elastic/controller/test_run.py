"""What `gangwright elastic` is put together with."""

from pathlib import Path

from scheduler.elastic.controller import elastic_master
from scheduler.elastic.controller.job_metrics import JobMetrics
from scheduler.elastic.controller.job_registry import JobRegistry
from scheduler.kube.lease_record import LeaseName
from scheduler.settings import Settings
from scheduler.telemetry.elastic_metrics import ElasticMetrics
from tests.kube.support.speechless import heard

NAMESPACES = [f"team-{number}" for number in range(50)]


async def test_watches_of_many_namespaces_leave_room_for_the_lease(tmp_path: Path) -> None:
    """An API server that answers nothing has the watches of fifty namespaces, and hears of the Lease too."""
    master = JobRegistry(JobMetrics(ElasticMetrics(), ()), namespaces=NAMESPACES)
    own = Settings().elastic
    lease = LeaseName(own.lease_namespace, own.lease_name).path
    paths = [*(resource.path for resource, _ in master.watches().values()), lease]

    assert lease in await heard(tmp_path, paths, elastic_master.connections(master))
