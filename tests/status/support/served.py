"""The status service on a port of the loopback, over an engine that has lived a little."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from scheduler.engine import Engine
from scheduler.objects.volumes import Volumes
from scheduler.serving.server import serve
from scheduler.settings import StatusServer
from scheduler.status.authorization import Reviews
from scheduler.status.endpoints import Endpoints
from scheduler.status.status_app import bearers, build_app
from scheduler.telemetry.metrics import Metrics
from tests.status.support.reviewing import Reviewing
from tests.status.support.scene import ALIAS


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A running service, and a client of it."""

    port: int
    session: aiohttp.ClientSession
    metrics: Metrics
    reviews: Reviews
    tls: ssl.SSLContext | None = None
    clock: list[float] = field(default_factory=lambda: [0.0])

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def ask(self, path: str, token: str | None = None, method: str = "GET", **more: Any) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= more.pop("headers", {})
        async with self.session.request(
            method, f"{self.url}{path}", headers=headers, ssl=self.tls or True, **more
        ) as response:
            return Answer(response.status, dict(response.headers), await response.read())

    async def do(self, path: str, token: str | None = None, body: Any = None) -> Answer:
        return await self.ask(path, token, "POST", json=body if body is not None else {})


@asynccontextmanager
async def served(
    engine: Engine,
    reviewing: Reviewing,
    *,
    now: float = 60.0,
    operator: Any = None,
    settings: StatusServer | None = None,
    tls: ssl.SSLContext | None = None,
    endless: bool = False,
    volumes: Volumes | None = None,
) -> AsyncIterator[Served]:
    """now: where the clock stands, until the test moves it. endless: nobody asks too often: each look is a second
    later.
    """
    metrics, clock = Metrics(), [now]

    def look() -> float:
        clock[0] += endless
        return clock[0]

    own = settings or StatusServer()
    reviews = Reviews(
        reviewing,
        audiences=own.audiences,
        yes=own.remember,
        no=own.remember_refusal,
        clock=look,
        told=lambda kind, answer: metrics.status_reviews_total.labels(kind, answer).inc(),
    )
    answers = Endpoints(engine, reviews, alias=ALIAS, clock=look, operator=operator, volumes=volumes)
    app = build_app(answers, bearers(reviews), metrics, look)
    async with (
        serve(app, "127.0.0.1", 0, section="status", settings=own, anonymous=True, credentials=True) as port,
        aiohttp.ClientSession() as session,
    ):
        yield Served(port, session, metrics, reviews, tls, clock)
        await asyncio.sleep(0)
