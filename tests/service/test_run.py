"""What `gangwright serve` is put together with."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.plane.certificates import Authority
from scheduler.engine import Engine
from scheduler.extender.extender_app import NEWCOMERS
from scheduler.extender.wire import UNBOUNDED
from scheduler.kube.actions import ANNOUNCERS
from scheduler.kube.client import SPARE
from scheduler.kube.lease_record import LeaseName
from scheduler.kube.watch_probe import UNGUARDED
from scheduler.model import events as ev
from scheduler.objects.watched_resources import RESOURCES
from scheduler.service import run
from scheduler.service.informers import Informers
from scheduler.serving.server import url
from scheduler.settings import Api, Probes, Settings, StatusServer, VerbsServer
from tests.kube.support.api_server import ApiServer
from tests.kube.support.kubeconfig import kubeconfig
from tests.kube.support.speechless import heard

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
    intake = Informers((), lambda _events: None, lambda: None)

    assert {name for name in intake.watches() if run.guarded(intake, name) != UNGUARDED} == {"nodes", "pods"}


async def test_metrics_tell_when_certificates_end(tmp_path: Path) -> None:
    """The servers of kube-scheduler and of people have their certificates, and those for their clients, in a scrape."""
    authority = Authority(tmp_path / "authority")
    cert, key = (str(file) for file in authority.server())
    files = {"cert": cert, "key": key, "client_ca": str(authority.certificate_file)}
    found = asyncio.get_running_loop().create_future()
    async with ApiServer() as api, aiohttp.ClientSession() as session:
        settings = Settings(
            verbs=VerbsServer(port=0, **files),
            status=StatusServer(port=0, **files),
            probes=Probes(host="127.0.0.1", port=0),
            api=Api(kubeconfig=kubeconfig(tmp_path, api.url)),
        )
        running = asyncio.create_task(run.run(settings, found.set_result))
        places = await found
        async with session.get(f"{places['probes']}/metrics") as answer:
            families = list(text_string_to_metric_families(await answer.text()))
            (victims,) = [one for one in families if one.name == "gangwright_victims"]
            (told,) = [one for one in families if one.name == "gangwright_certificate_end_timestamp_seconds"]
        running.cancel()
        await asyncio.wait([running])

    assert {(one.labels["server"], one.labels["setting"]) for one in told.samples} == {
        (server, setting) for server in ("verbs", "status") for setting in ("cert", "clientCa")
    }
    assert sum(one.name.endswith("_total") for one in victims.samples) == 3, "counted before there is one"
    schemes = {name: place.partition("://")[0] for name, place in places.items()}
    assert schemes == {"verbs": "https", "probes": "http", "status": "https"}


@pytest.mark.parametrize(
    ("host", "tls", "said"),
    [
        ("", False, "http://127.0.0.1:1"),
        ("::1", False, "http://[::1]:1"),
        ("scheduler.example", True, "https://scheduler.example:1"),
    ],
)
def test_where_a_server_listens_is_a_url(host: str, tls: bool, said: str) -> None:
    """Who starts the program reads it, and asks there."""
    assert url(host, 1, tls=tls) == said


def test_candidates_are_bounded_once_the_nodes_are_read() -> None:
    """Until then kube-scheduler knows more nodes than we do, and a call with all of them is no mistake of its own."""
    engine = Engine(Settings().policy)
    service = SimpleNamespace(engine=engine)
    assert run._limit(service, Settings()).candidates == UNBOUNDED

    engine.observe([ev.Synced()], 0.0)

    assert run._limit(service, Settings()).candidates == NEWCOMERS
