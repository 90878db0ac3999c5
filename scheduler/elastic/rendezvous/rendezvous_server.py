"""The rendezvous as a whole: certificates, tokens, values and routes on one port.

Lives here: how its parts are put together. The master alone calls this, and provides the desk.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aiohttp import web

from scheduler.clock import steady
from scheduler.elastic.rendezvous.certificate_store import certified
from scheduler.elastic.rendezvous.kv_store import Values
from scheduler.elastic.rendezvous.rendezvous_app import build_app
from scheduler.elastic.rendezvous.token_auth import Tokens
from scheduler.elastic.rendezvous.worker_requests import Desk, Door, Waits
from scheduler.elastic.rendezvous.worker_routes import Counter
from scheduler.serving.server import serve
from scheduler.serving.tls import first_end
from scheduler.serving.token_reviews import Calls
from scheduler.settings import RendezvousServer
from scheduler.telemetry.elastic_metrics import ElasticMetrics


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """A rendezvous that is open.

    address: what workers are told, `https://HOST:PORT`. port: where it listens. authority: the certificate, PEM, by
    which workers check it. values: of the rounds of all jobs.
    """

    address: str
    port: int
    authority: str
    values: Values


@asynccontextmanager
async def rendezvous(
    desk: Desk,
    calls: Calls,
    settings: RendezvousServer,
    metrics: ElasticMetrics,
    *,
    namespace: str,
    clock: Callable[[], float] = steady,
) -> AsyncIterator[Rendezvous]:
    """Serve the workers while the context lasts.

    calls: the API server. namespace: our own. clock: seconds since the epoch. Raises SettingsError when the address or
    the certificates cannot be used, and KubeError when the Secret of the certificates can neither be read nor made.
    """
    tokens = Tokens(
        calls,
        audience=settings.audience,
        yes=settings.remember,
        no=settings.remember_refusal,
        outage=settings.outage,
        clock=clock,
        told=lambda answer: metrics.token_reviews_total.labels(answer).inc(),
    )
    values = Values(keys=settings.keys, size=settings.round_limit, total=settings.values_limit)
    waits = Waits(settings.waits)
    metrics.waits.set_function(lambda: waits.count)
    metrics.values.set_function(lambda: values.count)
    metrics.values_bytes.set_function(lambda: values.size)
    ends = metrics.certificate_end_timestamp_seconds
    app = build_app(Counter(desk, values, waits, settings), Door(tokens, desk), settings, metrics, clock)

    async def stop_waits(_app: web.Application) -> None:
        waits.close()  # else a stop would wait for them

    app.on_shutdown.append(stop_waits)
    try:
        async with (
            certified(settings, calls, namespace=namespace, clock=clock) as shown,
            serve(
                app,
                settings.host,
                settings.port,
                section="rendezvous",
                settings=shown.settings,
                metrics=metrics,
                credentials=True,
                backlog=settings.backlog,
                ends=ends,
            ) as port,
        ):
            with suppress(ValueError):  # of a kind that workers may read and we cannot
                ends.labels("rendezvous", "ca").set(first_end(shown.authority.encode()))
            yield Rendezvous(_address(settings.names[0], port), port, shown.authority, values)
    finally:
        await tokens.close()


def _address(name: str, port: int) -> str:
    return f"https://[{name}]:{port}" if ":" in name else f"https://{name}:{port}"
