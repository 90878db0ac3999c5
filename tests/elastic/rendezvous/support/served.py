"""The rendezvous on a port of the loopback, over TLS, with a desk in memory and an API server that knows some tokens.

async with served() as running:
    running.hire("a", "team/job")
    answer = await running.ask("POST", "/v1/beat", "a", {"phase": "Ready", "round": 0})
"""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from scheduler.clock import steady
from scheduler.elastic.rendezvous.rendezvous_server import Rendezvous, rendezvous
from scheduler.elastic.rendezvous.token_auth import ACCOUNT, POD_NAME, POD_UID
from scheduler.errors import Conflict, NotFound, Unreachable
from scheduler.serving.token_reviews import TOKENS
from scheduler.settings import RendezvousServer
from scheduler.telemetry.elastic_metrics import ElasticMetrics
from tests.elastic.rendezvous.support.desk import HonestDesk

AUDIENCE = "gangwright-elastic"
BEGAN = steady()
"""Where the clock stands at first: seconds since the epoch, as they are, for certificates are checked by the real
clock.
"""


def jwt(uid: str, *, aud: Any = (AUDIENCE,), exp: float = BEGAN + 86400) -> str:
    """A token in the form of a real one; its signature is nobody's."""
    parts = [{"alg": "none"}, {"aud": aud, "exp": exp, "sub": uid}]
    return ".".join(
        [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts] + ["sig"]
    )


@dataclass
class ApiServer:
    """As far as the rendezvous asks it: reviews of tokens, and Secrets."""

    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)
    audience: str = AUDIENCE
    away: bool = False
    asked: list[str] = field(default_factory=list)
    """Tokens that were reviewed."""
    writes: list[str] = field(default_factory=list)

    def know(self, token: str, uid: str, namespace: str = "team", pod: str | None = None) -> None:
        extra = {POD_UID: [uid], POD_NAME: [pod or f"pod-{uid}"]} if uid else {}
        self.users[token] = {"username": f"{ACCOUNT}{namespace}:default", "extra": extra}

    async def request(self, method, path, *, params=None, body=None, content_type="", timeout=0.0):
        if self.away:
            raise Unreachable(f"{method} {path}", "as scripted")
        if path == TOKENS:
            return json.dumps({"status": self._reviewed(json.loads(body)["spec"])}).encode()
        return json.dumps(self._secret(method, path, json.loads(body) if body else {})).encode()

    def _reviewed(self, spec):
        self.asked.append(spec["token"])
        user = self.users.get(spec["token"])
        if user is None or self.audience not in spec["audiences"]:
            return {"authenticated": False, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user, "audiences": [self.audience]}

    def _secret(self, method, path, body):
        name = path.rpartition("/")[2] if method != "POST" else body["metadata"]["name"]
        found = self.secrets.get(name)
        if method == "GET":
            if found is None:
                raise NotFound(f"GET {path}", "", status=404)
            return found
        held = found["metadata"]["resourceVersion"] if found else None
        if held != body["metadata"].get("resourceVersion"):
            raise Conflict(f"{method} {path}", "", status=409)
        self.writes.append(method)
        body["metadata"]["resourceVersion"] = str(int(held or 0) + 1)
        self.secrets[name] = body
        return body


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return self.json["error"]["reason"]

    @property
    def message(self) -> str:
        return self.json["error"]["message"]


@dataclass
class Served:
    """A running rendezvous, and a client of it."""

    open: Rendezvous
    desk: HonestDesk
    api: ApiServer
    metrics: ElasticMetrics
    session: aiohttp.ClientSession
    clock: list[float]
    tokens: dict[str, str] = field(default_factory=dict)

    def hire(self, uid: str, job: str = "team/job") -> str:
        """A worker with a token of its own."""
        self.desk.hire(uid, job, f"pod-{uid}")
        return self.know(uid, job.partition("/")[0])

    def know(self, uid: str, namespace: str = "team") -> str:
        """A pod with a token, which is no worker."""
        token = self.tokens[uid] = jwt(uid)
        self.api.know(token, uid, namespace)
        return token

    async def ask(
        self, method: str, path: str, who: str | None = None, body: Any = None, **more: Any
    ) -> Answer:
        """who: a uid with a token, or a token as it is."""
        headers = more.pop("headers", {})
        if who is not None:
            headers = {"Authorization": f"Bearer {self.tokens.get(who, who)}"} | headers
        as_it_is = body is None or isinstance(body, bytes | AsyncIterator)
        data = body if as_it_is else json.dumps(body).encode()
        url = f"{self.open.address}{path}"
        async with self.session.request(method, url, headers=headers, data=data, **more) as response:
            return Answer(response.status, dict(response.headers), await response.read())

    async def beat(self, who: str | None, **fields: Any) -> Answer:
        return await self.ask("POST", "/v1/beat", who, {"phase": "Training", "round": 0} | fields)

    def refusals(self, reason: str) -> float:
        labels = {"reason": reason}
        return self.metrics.registry.get_sample_value("gangwright_elastic_refusals_total", labels) or 0.0

    def end_of(self, setting: str) -> float | None:
        labels = {"server": "rendezvous", "setting": setting}
        return self.metrics.registry.get_sample_value(
            "gangwright_elastic_certificate_end_timestamp_seconds", labels
        )


@asynccontextmanager
async def served(
    desk: HonestDesk | None = None, api: ApiServer | None = None, **fields: Any
) -> AsyncIterator[Served]:
    """fields: of the settings."""
    settings = RendezvousServer(**{"host": "127.0.0.1", "port": 0, "names": ("127.0.0.1",)} | fields)
    own, known, metrics, clock = desk or HonestDesk(), api or ApiServer(), ElasticMetrics(), [BEGAN]
    async with rendezvous(
        own, known, settings, metrics, namespace="gangwright-system", clock=lambda: clock[0]
    ) as opened:
        trust = ssl.create_default_context(cadata=opened.authority)
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Served(opened, own, known, metrics, session, clock)
