"""Where our certificates are kept between two masters, and how they come to the server's files.

Lives here: a Secret, and the renewal. Never here: what a certificate says. Where a certificate is
configured, nothing is made or kept: its files are served as they are.

The server reads certificates from files. Those of a Secret lie in memory (/dev/shm) where there is such a place, in a
folder that nobody else may read, and go with the process.
"""

import asyncio
import base64
import binascii
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog
from msgspec import Struct

from scheduler.elastic.rendezvous.certificates import Pair, Papers, mended
from scheduler.errors import Conflict, KubeError, NotFound, SettingsError
from scheduler.serving.tls import unusable
from scheduler.serving.token_reviews import Calls
from scheduler.settings import RendezvousServer

LOOK_EVERY: Final = 3600.0
"""Seconds between two looks at what is due; a third of a certificate's life is left then."""

TRIES: Final = 5
"""Of a write to the Secret that somebody else wrote meanwhile: another master that starts."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it, which nobody else may read

NAMES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
"""Of the Secret's entries; those of kubernetes.io/tls, with the authority's key beside them."""

_log = structlog.get_logger("rendezvous")


class _Meta(Struct):
    resourceVersion: str = ""  # noqa: N815 - the API's spelling


class _Secret(Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    data: dict[str, str] = {}


class Secret:
    """One Secret of our own namespace, which outlives us."""

    def __init__(self, calls: Calls, namespace: str, name: str) -> None:
        self._calls = calls
        self._folder = f"/api/v1/namespaces/{namespace}/secrets"
        self._path = f"{self._folder}/{name}"
        self._name = name
        self._namespace = namespace
        self._version: str | None = None

    async def load(self) -> Papers | None:
        """What is kept, None where nothing is. Raises SettingsError for what is none of ours."""
        try:
            found = msgspec.json.decode(await self._calls.request("GET", self._path), type=_Secret)
        except NotFound:
            self._version = None
            return None
        self._version = found.metadata.resourceVersion
        try:
            ca, ca_key, cert, key = (base64.b64decode(found.data[name], validate=True) for name in NAMES)
        except (KeyError, binascii.Error):
            remedy = f"holds no certificates of ours ({', '.join(NAMES)}): delete it, or name another"
            raise SettingsError("rendezvous.secret", f"{self._namespace}/{self._name}", remedy) from None
        return Papers(Pair(ca, ca_key), Pair(cert, key))

    async def save(self, papers: Papers) -> bool:
        """Keep these. False when somebody else wrote since `load`: then load again."""
        meta = {"name": self._name, "namespace": self._namespace}
        method, path = "POST", self._folder
        if self._version is not None:
            method, path = "PUT", self._path
            meta["resourceVersion"] = self._version
        contents = zip(NAMES, (*papers.authority, *papers.server), strict=True)
        data = {name: base64.b64encode(content).decode() for name, content in contents}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta, "data": data}
        try:
            answer = await self._calls.request(method, path, body=msgspec.json.encode(secret))
        except (Conflict, NotFound):
            return False
        self._version = msgspec.json.decode(answer, type=_Secret).metadata.resourceVersion
        return True


class Shown(NamedTuple):
    """What the server shows: settings that name its files; and the authority's certificate, PEM, that workers check
    it by.
    """

    settings: RendezvousServer
    authority: str


@asynccontextmanager
async def certified(
    settings: RendezvousServer,
    calls: Calls,
    *,
    namespace: str,
    clock: Callable[[], float],
) -> AsyncIterator[Shown]:
    """Have files for the server while the context lasts, and renew them in time.

    namespace: our own. clock: seconds since the epoch. Raises SettingsError, and KubeError when the Secret can neither
    be read nor made.
    """
    if settings.cert:
        yield Shown(settings, _configured(settings))
        return
    store = Secret(calls, namespace, settings.secret)
    papers = await settled(store, settings, clock())
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="gangwright-", dir=memory) as folder:
        place = Path(folder)
        written(place, papers)
        keeper = asyncio.create_task(_keep(store, settings, place, papers, clock))
        try:
            files = replace(settings, cert=str(place / "tls.crt"), key=str(place / "tls.key"))
            yield Shown(files, papers.authority.cert.decode())
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper


async def settled(
    store: Secret, settings: RendezvousServer, now: float, served: Papers | None = None
) -> Papers:
    """What is kept, mended where something is missing or due. Raises SettingsError for what is kept and none of
    ours.

    served: what workers know us by already. It is kept again where nothing is kept any more: under another authority
    they would believe us no more.
    """
    for _ in range(TRIES):
        found = await store.load()
        try:
            papers = mended(found or served, settings.names, now)
        except (ValueError, TypeError) as error:
            remedy = f"holds certificates that cannot be read ({type(error).__name__}): delete them"
            raise SettingsError("rendezvous.secret", settings.secret, remedy) from None
        if papers is found or await store.save(papers):
            return papers
    raise SettingsError("rendezvous.secret", settings.secret, "is written by somebody else all the time")


async def _keep(
    store: Secret, settings: RendezvousServer, place: Path, papers: Papers, clock: Callable[[], float]
) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY)
        try:
            papers = await settled(store, settings, clock(), papers)
            written(place, papers)
        except (KubeError, SettingsError, OSError) as error:
            _log.warning("certificates could not be renewed", error=str(error))


def written(place: Path, papers: Papers) -> None:
    """Write what the server reads where it differs, each file at once, the key before the certificate."""
    for name, content in (("tls.key", papers.server.key), ("tls.crt", papers.server.cert)):
        file, fresh = place / name, place / f".{name}.new"
        if not file.exists() or file.read_bytes() != content:
            fresh.touch(0o600)
            fresh.write_bytes(content)
            fresh.replace(file)


def _configured(settings: RendezvousServer) -> str:
    try:
        text = Path(settings.ca).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise SettingsError("rendezvous.ca", settings.ca, unusable(error)) from None
    if "BEGIN CERTIFICATE" not in text:
        raise SettingsError("rendezvous.ca", settings.ca, "must hold a certificate, PEM")
    return text
