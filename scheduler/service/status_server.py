"""The status service, put together beside the rest: engine and client for the pages and the API that people ask.

Lives here: what is handed to `status`. Never here: an answer of it.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from scheduler.clock import steady
from scheduler.engine import Engine
from scheduler.kube.client import Client
from scheduler.objects.volumes import Volumes
from scheduler.serving.server import serve, url
from scheduler.settings import StatusServer
from scheduler.status.authorization import Reviews, aliases
from scheduler.status.endpoints import Endpoints
from scheduler.status.operator_api import OperatorService
from scheduler.status.status_app import bearers, build_app
from scheduler.telemetry.metrics import Metrics


class StatusService:
    """What answers people, by whichever road they ask.

    fragmentation: by resource, as it was last measured. operator: what acts for people; None: nothing does. volumes: what
    claims are bound to.
    """

    def __init__(
        self,
        settings: StatusServer,
        engine: Engine,
        client: Client,
        metrics: Metrics,
        fragmentation: Callable[[], Mapping[str, float]],
        operator: OperatorService | None = None,
        volumes: Volumes | None = None,
    ) -> None:
        self._settings = settings
        self.metrics = metrics
        self._reviews = Reviews(
            client,
            audiences=settings.audiences,
            yes=settings.remember,
            no=settings.remember_refusal,
            clock=steady,
            told=lambda kind, answer: metrics.status_reviews_total.labels(kind, answer).inc(),
        )
        self.endpoints = Endpoints(
            engine,
            self._reviews,
            alias=aliases(secrets.token_bytes(32)),
            clock=steady,
            operator=operator,
            fragmentation=fragmentation,
            volumes=volumes,
        )

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve people while the context lasts; gives the URL, or "" where the settings want no status service.

        Raises SettingsError when the address cannot be listened on, or the certificates cannot be used.
        """
        settings = self._settings
        if not settings.serve:
            yield ""
            return
        app = build_app(self.endpoints, bearers(self._reviews), self.metrics, steady)
        async with serve(
            app,
            settings.host,
            settings.port,
            section="status",
            settings=settings,
            anonymous=True,
            credentials=True,
            ends=self.metrics.certificate_end_timestamp_seconds,
        ) as port:
            yield url(settings.host, port, tls=bool(settings.cert))
