"""The status service as a group of the Kubernetes API, served to the API server only.

Lives here: the certificates of both sides, the APIService that points here, and retries when one of them fails. Never
here: an answer, or who may see it.

Why a failure ends nothing: users can reach the status API in other ways, and scheduling does not depend on it.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Never

import msgspec
import structlog
from msgspec import Struct

from scheduler.clock import steady
from scheduler.errors import KubeError, SettingsError
from scheduler.kube.client import Client
from scheduler.service.status_server import StatusService
from scheduler.serving.certificate_store import Files, Secret, certified, private_folder
from scheduler.serving.server import GROUP_FIELDS, serve
from scheduler.settings import Aggregation
from scheduler.status.api_group import API_PREFIX
from scheduler.status.request_headers import CONFIG_MAP, RequestHeaders
from scheduler.status.status_app import build_aggregated_app

LOOK_EVERY: Final = 60.0
"""Seconds between two reads of the API server's configuration, and between two tries. client-go reads it as often."""

API_SERVICE: Final = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{API_PREFIX.rpartition('/')[2]}"

MERGE: Final = "application/merge-patch+json"

_log = structlog.get_logger("service")


class _ConfigMap(Struct):
    data: dict[str, str] = {}


class _Spec(Struct, rename="camel"):
    ca_bundle: str = ""


class _APIService(Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


@dataclass(frozen=True, slots=True)
class _Trusting(Aggregation):
    """The settings, and how to recognize the API server as a client."""

    client_ca: str = ""
    client_names: tuple[str, ...] = ()


async def keep_serving(
    settings: Aggregation, service: StatusService, client: Client, namespace: str
) -> Never:
    """Serve until canceled. Restart the server when the API server's own certificates change, and after a failure.

    namespace: the one that Gangwright runs in.
    """
    while True:
        try:
            headers = await request_headers(client)
            async with (
                _files(settings, client, namespace) as files,
                _serving(settings, service, headers, files),
            ):
                while await _still(client, headers, files):  # noqa: ASYNC110 - no event announces a change
                    await asyncio.sleep(LOOK_EVERY)
        except Exception as error:  # noqa: BLE001 - a task that fails would end the scheduler
            _say("aggregated API is not served; run commands with --server or --offline", error)
            await asyncio.sleep(LOOK_EVERY)


async def _still(client: Client, headers: RequestHeaders, files: Files) -> bool:
    """Whether the API server still has the same headers and certificate. Also registers this server's authority with
    it. If the API server does not answer, the previous values stay in use.
    """
    try:
        now = await request_headers(client)
        if files.authority is not None:
            await register(client, _text(files.authority))
    except (KubeError, SettingsError) as error:
        _say("the APIService may not point to this server", error)
        return True
    return now == headers


def _text(place: Path) -> str:
    return place.read_text("ascii")


def _say(what: str, error: Exception) -> None:
    _log.warning(what, error=str(error), kind=("aggregated API", type(error)))


async def request_headers(client: Client) -> RequestHeaders:
    """The API server's configuration for request headers. Raises KubeError, and SettingsError if it has none."""
    found = msgspec.json.decode(await client.request("GET", CONFIG_MAP), type=_ConfigMap)
    try:
        return RequestHeaders.read(found.data)
    except ValueError as error:
        raise SettingsError("aggregation.serve", "true", f"{error}, or set it to false") from None


async def register(client: Client, authority: str) -> None:
    """Make the API server check this server by this certificate, PEM. Raises KubeError."""
    wanted = base64.b64encode(authority.encode()).decode()
    found = msgspec.json.decode(await client.request("GET", API_SERVICE), type=_APIService)
    if found.spec.ca_bundle != wanted:
        body = msgspec.json.encode({"spec": {"caBundle": wanted}})
        await client.request("PATCH", API_SERVICE, body=body, content_type=MERGE)


@asynccontextmanager
async def _files(settings: Aggregation, client: Client, namespace: str) -> AsyncIterator[Files]:
    """The configured certificate, whose authority is not published; otherwise the one in the Secret."""
    if settings.cert:
        yield Files(settings.cert, settings.key, None)
        return
    store = Secret(client, namespace, settings.secret, section="aggregation", owner="gangwright-api")
    async with certified(store, settings.names, steady) as files:
        yield files


@asynccontextmanager
async def _serving(
    settings: Aggregation, service: StatusService, headers: RequestHeaders, files: Files
) -> AsyncIterator[None]:
    with private_folder() as folder:
        trusting = _trusting(settings, headers, files, Path(folder, "client-ca.crt"))
        app = build_aggregated_app(service.endpoints, headers, service.metrics, steady)
        async with serve(
            app,
            settings.host,
            settings.port,
            section="aggregation",
            settings=trusting,
            fields=GROUP_FIELDS,
            ends=service.metrics.certificate_end_timestamp_seconds,
        ) as port:
            _log.info("serving the aggregated API", port=port, path=API_PREFIX)
            yield


def _trusting(settings: Aggregation, headers: RequestHeaders, files: Files, authority: Path) -> _Trusting:
    """The settings to listen with. authority: the file to write the API server's authority to."""
    authority.write_text(headers.authority, encoding="utf-8")
    chosen = {own.name: getattr(settings, own.name) for own in fields(settings)}
    return _Trusting(
        **{**chosen, "cert": files.cert, "key": files.key},
        client_ca=str(authority),
        client_names=headers.names,
    )
