"""The status service, assembled from the engine and the client: the API and the page for users.

Lives here: the dependencies of `status`. Never here: an answer.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from scheduler.clock import steady
from scheduler.engine import Engine
from scheduler.kube.client import Client
from scheduler.objects.device_claims import DeviceClaims
from scheduler.objects.volumes import Volumes
from scheduler.serving.server import serve, url
from scheduler.settings import StatusServer
from scheduler.status.authorization import Reviews, aliases
from scheduler.status.endpoints import Endpoints
from scheduler.status.operator_api import OperatorService
from scheduler.status.status_app import bearers, build_app
from scheduler.telemetry.metrics import Metrics


class StatusService:
    """Answers users, on its own port and as an aggregated API.

    fragmentation: by resource, as last measured. operator: carries out actions of users; None: no actions. volumes: the
    volumes that claims are bound to. devices: the device claims of pods.
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
        devices: DeviceClaims | None = None,
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
            devices=devices,
        )

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve users while the context lasts. Yields the URL, or "" if the settings turn the status service off.

        Raises SettingsError if the address cannot be listened on, or the certificates cannot be used.
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
