"""The server's side of TLS: its own certificate, and the client certificates that it accepts.

Lives here: one SSL context that follows its files. Never here: plain HTTP, which is the rule on loopback.

kube-scheduler can only identify itself by a client certificate. Files are checked again when a connection arrives and
when metrics are requested: certificates are renewed under the same names, and open connections stay. Renewed files are
loaded into a new context, and each handshake is directed to it. If one context were loaded twice, it would still accept
a removed authority, and a certificate that does not match its key would destroy the old key.
"""

import asyncio
import math
import ssl
import time
from asyncio import sslproto
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import Gauge

from scheduler.errors import SettingsError, shortened
from scheduler.settings import TLSServer

LOOK_EVERY: Final = 10.0
"""Seconds between two checks of the files' times."""

BUFFER: Final = 16 * 2**10
"""Bytes that asyncio allocates for each TLS connection before its handshake: the maximum of a TLS record. The default
is 256 KiB, so that 2,000 silent connections take 600 MiB. With the smaller buffer, reading a large list from the API
server takes a quarter more CPU time, 0.4 ms per MB."""

# For all connections of the process: asyncio has no other way to set it.
sslproto.SSLProtocol.max_size = BUFFER

_log = structlog.get_logger("serving")


class Identity:
    """The context for accepted connections. Raises SettingsError if the files cannot be used.

    section: the section of the settings, named in errors. anonymous: clients without a certificate are also accepted.
    """

    def __init__(
        self,
        settings: TLSServer,
        clock: Callable[[], float] = time.monotonic,
        *,
        section: str = "verbs",
        anonymous: bool = False,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._section = section
        self._mode = ssl.CERT_OPTIONAL if anonymous else ssl.CERT_REQUIRED
        self._looked = clock()
        self._times = self._changed()  # before they are read: files that are renewed meanwhile are read again
        self.context = self._newest = self._loaded()
        self.context.sni_callback = self._lead

    def refresh(self) -> None:
        """Read the files again if they changed. If they cannot be used, the old ones stay in use."""
        if self._clock() - self._looked < LOOK_EVERY:
            return
        self._looked = self._clock()
        try:
            times = self._changed()
            if times != self._times:
                self._newest, self._times = self._loaded(), times
        except SettingsError as error:
            _log.warning(
                "changed certificates are not used", server=self._section, error=shortened(str(error))
            )

    def tell(self, gauge: Gauge) -> None:
        """Show in `gauge`, by server and setting, when the certificates in use expire."""
        for setting in self._ends:
            gauge.labels(self._section, setting).set_function(partial(self._end, setting))

    def untell(self, gauge: Gauge) -> None:
        """Remove it from `gauge`: the files may be deleted with the server."""
        for setting in self._ends:
            gauge.remove(self._section, setting)

    def admit(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the peer's certificate has one of the accepted names."""
        wanted = self._settings.client_names
        return not wanted or not set(wanted).isdisjoint(names(transport.get_extra_info("peercert") or {}))

    def _lead(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._newest

    def _end(self, setting: str) -> float:
        self.refresh()
        return self._ends.get(setting, math.nan)

    def _changed(self) -> list[int | None]:
        files = (self._settings.cert, self._settings.key, self._settings.client_ca)
        return [_time(Path(file)) for file in files if file]

    def _loaded(self) -> ssl.SSLContext:
        own = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(own.cert, own.key)
        except (OSError, ValueError) as error:
            raise SettingsError(f"{self._section}.cert", own.cert, unusable(error)) from None
        if own.client_ca:
            try:
                context.load_verify_locations(own.client_ca)
            except (OSError, ValueError) as error:
                raise SettingsError(f"{self._section}.clientCa", own.client_ca, unusable(error)) from None
            context.verify_mode = self._mode
            # a resumed session shows no certificate to check
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET  # the same before TLS 1.3
        self._ends = dict(_ends({"cert": own.cert, "clientCa": own.client_ca}))
        return context


def _time(place: Path) -> int | None:
    """When the file was changed; None if it does not exist, which loading it reports."""
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return None


def names(certificate: Mapping[str, Any]) -> Iterable[str]:
    """The common names and DNS names of a certificate, in the form of `SSLSocket.getpeercert`."""
    for part in certificate.get("subject", ()):
        yield from (value for key, value in part if key == "commonName")
    yield from (value for key, value in certificate.get("subjectAltName", ()) if key == "DNS")


def first_end(pem: bytes) -> float:
    """When the first of these certificates expires, in seconds since the epoch. Raises ValueError if there is none."""
    from cryptography import x509  # late: most servers have no TLS

    return min(one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(pem))


def _ends(files: Mapping[str, str]) -> Iterable[tuple[str, float]]:
    for setting, file in files.items():
        with suppress(OSError, ValueError):  # OpenSSL accepted them, even if `cryptography` does not
            if file:
                yield setting, first_end(Path(file).read_bytes())


def unusable(error: Exception) -> str:
    """The text for a file that failed with this error."""
    return f"cannot be used: {getattr(error, 'strerror', None) or type(error).__name__}"
