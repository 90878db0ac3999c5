"""Probes and metrics over a real socket."""

import asyncio
import gzip
import json
import threading
from contextlib import asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.serving import probes, server
from scheduler.serving.probes import BEAT, LAG_LIMIT, Check, Pulse
from scheduler.telemetry.metrics import Metrics
from tests.extender.support.raw import Raw, request


@asynccontextmanager
async def probed(ready=list, metrics=None, **options):
    """A connection to running probes."""
    built = probes.build_app(metrics or Metrics(), ready)
    async with server.serve(built, "127.0.0.1", 0, section="probes", **options) as port:
        raw = await Raw.to(port)
        try:
            yield raw
        finally:
            await raw.close()


def get(path, **headers):
    return request(path=path, method="GET", headers={"Content-Type": "", "Accept-Encoding": "", **headers})


@pytest.mark.parametrize(("synced", "status"), [(True, 200), (False, 503)])
async def test_ready_is_when_every_check_holds(synced, status):
    """/readyz names each condition, and fails with the first that does not hold."""
    checks = [Check("fresh", ok=True), Check("synced", synced, "pods are missing")]
    async with probed(lambda: checks) as raw:
        answer = await raw.ask(get("/readyz"))

    assert answer.status == status
    assert json.loads(answer.body) == {
        "ok": synced,
        "checks": [
            {"name": "fresh", "ok": True, "text": ""},
            {"name": "synced", "ok": synced, "text": "pods are missing"},
        ],
    }


async def test_ready_is_asked_at_every_call():
    """A condition that is lost again is seen again."""
    answers = iter([True, False])
    async with probed(lambda: [Check("synced", next(answers))]) as raw:
        statuses = [(await raw.ask(get("/readyz"))).status for _ in range(2)]

    assert statuses == [200, 503]


async def test_alive_does_not_depend_on_ready():
    """Whatever is missing to be ready, a loop that turns is alive."""
    async with probed(lambda: [Check("synced", ok=False)]) as raw:
        answer = await raw.ask(get("/livez"))

    assert answer.status == 200


async def test_a_loop_that_is_late_is_not_alive(monkeypatch):
    """Lag beyond the limit fails /livez, and stands in the metrics."""
    monkeypatch.setattr(Pulse, "beat", _late)
    metrics = Metrics()
    async with probed(metrics=metrics) as raw:
        answer = await raw.ask(get("/livez"))

    assert answer.status == 503
    assert metrics.registry.get_sample_value("gangwright_loop_lag_seconds") == LAG_LIMIT


async def _late(self):
    self.lag = LAG_LIMIT
    await self._sleep(3600)


async def test_lag_is_the_time_beyond_the_beat():
    """A pulse that wakes 2.5 s late tells 2.5 s, and never less than none."""
    times = iter([0.0, BEAT + 2.5, 10.0, 10.0 + BEAT - 0.1])

    async def at_once(_seconds):
        return None

    pulse = Pulse(lambda: next(times), at_once)
    await pulse.beat()
    assert pulse.lag == 2.5

    await pulse.beat()
    assert pulse.lag == 0.0


async def test_metrics_are_served_in_prometheus_text():
    """What /metrics answers can be parsed, and holds our own names."""
    async with probed() as raw:
        answer = await raw.ask(get("/metrics"))

    families = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {"gangwright_build_info", "gangwright_verb_duration_seconds"} <= families


async def test_metrics_are_rendered_once_for_all_that_scrape(monkeypatch):
    """Fifty scrapes in a moment cost one rendering, and that is not the event loop's; later ones see what is new."""
    metrics, threads = Metrics(), []

    class Counting:
        def collect(self):
            threads.append(threading.current_thread())
            return []

    metrics.registry.register(Counting())
    threads.clear()
    async with probed(metrics=metrics) as raw:
        answers = [await raw.ask(get("/metrics")) for _ in range(50)]
        assert len(threads) == 1
        monkeypatch.setattr(probes, "RENDER", 0.0)
        await raw.ask(get("/metrics"))

    assert {answer.status for answer in answers} == {200}
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_metrics_are_compressed_for_who_asks():
    """The same text."""
    async with probed() as raw:
        plain = await raw.ask(get("/metrics"))
        small = await raw.ask(get("/metrics", **{"Accept-Encoding": "gzip"}))

    assert gzip.decompress(small.body) == plain.body
    assert small.headers["Content-Encoding"] == "gzip"


async def test_a_scraper_may_keep_its_connection():
    """The time for a head is no time for a connection that is used again later."""
    async with probed(head_limit=0.02) as raw:
        for _ in range(3):
            assert (await raw.ask(get("/metrics"))).status == 200
            await asyncio.sleep(0.05)
        assert raw.segments() >= 3


async def test_the_verbs_are_not_reached_from_here():
    """The port for everybody knows no verb."""
    async with probed() as raw:
        answer = await raw.ask(request(b"{}"))

    assert answer.status == 404
