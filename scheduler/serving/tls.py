"""The server's side of TLS: who we are, and whose certificates we believe.

Lives here: one SSL context that follows its files. Never here: plain HTTP, which is the rule on loopback.

kube-scheduler has no other way to prove who it is than a client certificate. Files are looked at again when a
connection comes in: certificates are renewed under the same names, and standing connections live on.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from scheduler.errors import SettingsError

LOOK_EVERY: Final = 10.0
"""Seconds between two looks at the files' times."""


class Server(Protocol):
    """The settings that servers of ours have in common; every one is told in `scheduler.settings`."""

    @property
    def cert(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def client_ca(self) -> str: ...
    @property
    def client_names(self) -> tuple[str, ...]: ...
    @property
    def keep_alive(self) -> float: ...
    @property
    def connections(self) -> int: ...


class Identity:
    """The context for `loop.create_server`. Raises SettingsError when the files cannot be used.

    section: of the settings, named in errors. anonymous: who shows no certificate is let in too.
    """

    def __init__(
        self,
        settings: Server,
        clock: Callable[[], float] = time.monotonic,
        *,
        section: str = "verbs",
        anonymous: bool = False,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._section = section
        self._mode = ssl.CERT_OPTIONAL if anonymous else ssl.CERT_REQUIRED
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load()
        self._looked = clock()
        self._times = self._changed()

    def refresh(self) -> None:
        """Read the files again if they changed. Files that cannot be used leave the old ones in force."""
        if self._clock() - self._looked < LOOK_EVERY:
            return
        self._looked = self._clock()
        try:
            times = self._changed()
            if times != self._times:
                self._load()
                self._times = times
        except (OSError, SettingsError):
            return

    def admit(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the peer's certificate has one of the names that may ask us."""
        wanted = self._settings.client_names
        return not wanted or not set(wanted).isdisjoint(names(transport.get_extra_info("peercert") or {}))

    def _changed(self) -> list[int]:
        files = (self._settings.cert, self._settings.key, self._settings.client_ca)
        return [Path(file).stat().st_mtime_ns for file in files if file]

    def _load(self) -> None:
        own = self._settings
        try:
            self.context.load_cert_chain(own.cert, own.key)
        except (OSError, ValueError) as error:
            raise SettingsError(f"{self._section}.cert", own.cert, _unusable(error)) from None
        if not own.client_ca:
            return
        try:
            self.context.load_verify_locations(own.client_ca)
        except (OSError, ValueError) as error:
            raise SettingsError(f"{self._section}.clientCa", own.client_ca, _unusable(error)) from None
        self.context.verify_mode = self._mode


def names(certificate: Mapping[str, Any]) -> Iterable[str]:
    """The common names and DNS names of a certificate, in the form of `SSLSocket.getpeercert`."""
    for part in certificate.get("subject", ()):
        yield from (value for key, value in part if key == "commonName")
    yield from (value for key, value in certificate.get("subjectAltName", ()) if key == "DNS")


def _unusable(error: Exception) -> str:
    return f"cannot be used: {getattr(error, 'strerror', None) or type(error).__name__}"
