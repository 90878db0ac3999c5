"""Where our certificates are kept between two masters, and how they come to the server's files.

Lives here: a Secret, and the renewal. Never here: what a certificate says.

The server reads certificates from files. Those of a Secret lie in memory (/dev/shm) where there is such a place, in a
folder that no other user may read, and go with the process.
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
from scheduler.serving.certificates import Pair, Papers, mended
from scheduler.serving.token_reviews import Calls

LOOK_EVERY: Final = 3600.0
"""Seconds between two looks at what is due; a third of a certificate's life is left then."""

TRIES: Final = 5
"""Of a write to the Secret that another replica, which starts too, wrote meanwhile."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it, which no other user may read

NAMES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
"""Of the Secret's entries; those of kubernetes.io/tls, with the authority's key beside them."""

_log = structlog.get_logger("serving")


class _Meta(Struct):
    resourceVersion: str = ""  # noqa: N815 - the API's spelling
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Secret(Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    data: dict[str, str] = {}


class Secret:
    """One Secret of our own namespace, which outlives us.

    section: of the settings that name it, for errors. owner: how the certificates that are made for it are called.
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
        """What is kept, None where nothing is. Raises SettingsError for what is none of ours.

        A Secret without any entry keeps nothing: manifests may make it, so that no right to make one is needed.
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
            remedy = f"holds no certificates of ours ({', '.join(NAMES)}): delete it, or name another"
            raise self.wrong(remedy) from None
        return Papers(Pair(ca, ca_key), Pair(cert, key))

    async def save(self, papers: Papers) -> bool:
        """Keep these. False when another wrote since `load`: then load again."""
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
        """What is said of a Secret that cannot be used."""
        return SettingsError(f"{self._section}.secret", f"{self._namespace}/{self._name}", remedy)


class Files(NamedTuple):
    """The files that the server shows, and that of the authority's certificate, PEM, by which clients check it; None: the
    authority is not ours.
    """

    cert: str
    key: str
    authority: Path | None


@asynccontextmanager
async def certified(store: Secret, names: Sequence[str], clock: Callable[[], float]) -> AsyncIterator[Files]:
    """Have files for a server of these names while the context lasts, and renew them in time.

    clock: seconds since the epoch. Raises SettingsError, and KubeError when the Secret can neither be read nor made.
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
    """A folder that no other user may read; in memory, where a file system that is read-only leaves that alone."""
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="gangwright-", dir=memory)


async def settled(store: Secret, names: Sequence[str], now: float, served: Papers | None = None) -> Papers:
    """What is kept, made again where something is missing or due. Raises SettingsError for what is none of ours.

    served: what clients know us by already. It is kept again where nothing is kept any more: under another authority
    they would believe us no more.
    """
    for _ in range(TRIES):
        found = await store.load()
        try:
            papers = mended(found or served, names, now, store.owner)
        except (ValueError, TypeError) as error:
            raise store.wrong(
                f"holds certificates that cannot be read ({type(error).__name__}): delete them"
            ) from None
        if papers is found or await store.save(papers):
            return papers
    raise store.wrong("is written by another program all the time: name a Secret of its own")


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
    """Write what the server reads where it differs, each file at once, the key before the certificate."""
    contents = {"ca.crt": papers.authority.cert, "tls.key": papers.server.key, "tls.crt": papers.server.cert}
    for name, content in contents.items():
        file, fresh = place / name, place / f".{name}.new"
        if not file.exists() or file.read_bytes() != content:
            fresh.touch(0o600)
            fresh.write_bytes(content)
            fresh.replace(file)
