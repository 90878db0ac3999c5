"""Storage of generated certificates across restarts, and the server's files with them.

Lives here: a Secret, and the renewal. Never here: the content of a certificate.

The server reads certificates from files. The files of a Secret are in memory (/dev/shm) if that exists, in a folder
that no other user may read, and are deleted with the process.
"""

import asyncio
import base64
import binascii
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from msgspec import Struct

from scheduler.errors import Conflict, KubeError, NotFound, SettingsError
from scheduler.serving.certificates import Pair, Papers, renewed
from scheduler.serving.token_reviews import Calls

LOOK_EVERY: Final = 3600.0
"""Seconds between two checks for renewal. A certificate is renewed when a third of its life is left."""

TRIES: Final = 5
"""Maximum writes of the Secret, in case another replica that also starts writes it meanwhile."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only a private folder in it is used

NAMES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
"""Entries of the Secret: those of kubernetes.io/tls, and the authority's key."""

_log = structlog.get_logger("serving")


class _Meta(Struct):
    resourceVersion: str = ""  # noqa: N815 - the API's spelling
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Secret(Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    data: dict[str, str] = {}


class Secret:
    """One Secret in Gangwright's namespace, which outlives the process.

    section: the section of the settings that names it, for errors. owner: the common name of generated certificates.
    """

    def __init__(self, calls: Calls, namespace: str, name: str, *, section: str, owner: str) -> None:
        self._calls = calls
        self._folder = f"/api/v1/namespaces/{namespace}/secrets"
        self._path = f"{self._folder}/{name}"
        self._name = name
        self._namespace = namespace
        self._found: _Meta | None = None
        self._section = section
        self.owner = owner

    async def load(self) -> Papers | None:
        """The stored certificates, or None if there are none. Raises SettingsError for a Secret with other contents.

        A Secret without entries counts as empty: manifests may create it, so that Gangwright needs no right to do so.
        """
        try:
            found = msgspec.json.decode(await self._calls.request("GET", self._path), type=_Secret)
        except NotFound:
            self._found = None
            return None
        self._found = found.metadata
        if not found.data:
            return None
        try:
            ca, ca_key, cert, key = (base64.b64decode(found.data[name], validate=True) for name in NAMES)
        except (KeyError, binascii.Error):
            remedy = f"must hold Gangwright's certificates ({', '.join(NAMES)}); delete it or name another"
            raise self.wrong(remedy) from None
        return Papers(Pair(ca, ca_key), Pair(cert, key))

    async def save(self, papers: Papers) -> bool:
        """Store these. Returns False if another client wrote since `load`; then load again."""
        meta: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        method, path = "POST", self._folder
        if self._found is not None:
            method, path = "PUT", self._path
            meta |= msgspec.to_builtins(self._found)
        contents = zip(NAMES, (*papers.authority, *papers.server), strict=True)
        data = {name: base64.b64encode(content).decode() for name, content in contents}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta, "data": data}
        try:
            answer = await self._calls.request(method, path, body=msgspec.json.encode(secret))
        except (Conflict, NotFound):
            return False
        self._found = msgspec.json.decode(answer, type=_Secret).metadata
        return True

    def wrong(self, remedy: str) -> SettingsError:
        """The error for a Secret that cannot be used."""
        return SettingsError(f"{self._section}.secret", f"{self._namespace}/{self._name}", remedy)


class Files(NamedTuple):
    """The files that the server presents, and the file of the authority's certificate, PEM, that clients check it by.
    None: Gangwright did not generate the authority.
    """

    cert: str
    key: str
    authority: Path | None


@asynccontextmanager
async def certified(store: Secret, names: Sequence[str], clock: Callable[[], float]) -> AsyncIterator[Files]:
    """Provide certificate files for a server with these names while the context lasts, and renew them in time.

    clock: seconds since the epoch. Raises SettingsError, and KubeError if the Secret can neither be read nor created.
    """
    papers = await settled(store, names, clock())
    with private_folder() as folder:
        place = Path(folder)
        written(place, papers)
        keeper = asyncio.create_task(_keep(store, names, place, papers, clock))
        try:
            yield Files(str(place / "tls.crt"), str(place / "tls.key"), place / "ca.crt")
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper


def private_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that no other user may read; in memory if possible, because the file system may be read-only."""
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="gangwright-", dir=memory)


async def settled(store: Secret, names: Sequence[str], now: float, served: Papers | None = None) -> Papers:
    """The stored certificates, renewed if something is missing or due. Raises SettingsError for other contents.

    served: the certificates that clients already know. If the Secret is empty they are stored again, because clients
    would not trust another authority.
    """
    for _ in range(TRIES):
        found = await store.load()
        try:
            papers = renewed(found or served, names, now, store.owner)
        except (ValueError, TypeError) as error:
            raise store.wrong(
                f"must hold readable certificates ({type(error).__name__}); delete its entries"
            ) from None
        if papers is found or await store.save(papers):
            return papers
    raise store.wrong("another program keeps writing it; name a Secret that only Gangwright writes")


async def _keep(
    store: Secret, names: Sequence[str], place: Path, papers: Papers, clock: Callable[[], float]
) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY)
        try:
            papers = await settled(store, names, clock(), papers)
            written(place, papers)
        except (KubeError, SettingsError, OSError) as error:
            _log.warning("certificates could not be renewed", error=str(error))


def written(place: Path, papers: Papers) -> None:
    """Write the server's files that differ, each atomically, the key before the certificate."""
    contents = {"ca.crt": papers.authority.cert, "tls.key": papers.server.key, "tls.crt": papers.server.cert}
    for name, content in contents.items():
        file, fresh = place / name, place / f".{name}.new"
        if not file.exists() or file.read_bytes() != content:
            fresh.touch(0o600)
            fresh.write_bytes(content)
            fresh.replace(file)
