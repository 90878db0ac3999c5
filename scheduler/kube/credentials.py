"""The API server's address, the credentials for it, and the namespace that a user's kubeconfig names.

Lives here: reading a kubeconfig (`kubeconfig`) or the files of a service account, and the resulting address, TLS
context, proxy, and Authorization header. Never here: a request.

The `kubernetes` package handles special users: those of exec plugins and auth providers. It is imported late, because
the import takes longer than everything else in a command.

Why credentials are read again: service account tokens are valid for an hour, exec plugins issue short-lived tokens, and
client certificates are renewed under the same file name. So everything is read again once a minute, when a request
needs it, and at once after the API server answered 401. If a file cannot be read then, the old credentials stay in use.

Why texts of foreign errors are not passed on: the package quotes the broken part of a kubeconfig, including
credentials.
"""

import os
import ssl
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from yarl import URL

from scheduler.errors import SettingsError
from scheduler.kube import kubeconfig as kubeconfigs
from scheduler.kube.kubeconfig import FAULTS, RestConfig, told

REREAD = 60.0
"""Seconds after which credentials are read again. client-go also reads token files once a minute."""

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a Pod's service account."""

HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
"""Environment variables of every Pod with the address of the API server."""

Load = Callable[[], Awaitable[RestConfig]]


class Access:
    """The API server's address, and the credentials for it. Created by `find_access`."""

    def __init__(self, load: Load, config: RestConfig, clock: Callable[[], float]) -> None:
        self._load = load
        self._clock = clock
        self._read_at = clock()
        self._headers = _headers(config)
        self.url = _address(config.server)
        self.tls = _tls(config) if self.url.scheme == "https" else None
        self.server_name = config.server_name
        self.proxy = _proxy(config, self.url)

    async def headers(self) -> Mapping[str, str]:
        """The Authorization header, if the credentials are a token. It is read again when it is old."""
        if self._clock() - self._read_at >= REREAD:
            await self._read_again()
        return self._headers

    def doubt(self) -> None:
        """Read the credentials again before the next request, because the API server rejected them."""
        self._read_at = float("-inf")

    async def _read_again(self) -> None:
        # Set first, so that one request reads them and the others use the old ones.
        self._read_at = self._clock()
        try:
            fresh = await self._load()
            headers = _headers(fresh)
            if self.tls is not None:
                _present(self.tls, fresh)  # new connections use the new certificate, open ones stay
        except FAULTS:
            return
        self._headers = headers


async def find_access(
    kubeconfig: str = "",
    context: str = "",
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.monotonic,
) -> Access:
    """Find the API server and the credentials for it.

    Uses the first of: the kubeconfig named here, `$KUBECONFIG`, the service account of the Pod that this process runs
    in, `~/.kube/config`. Raises SettingsError if it cannot be used.
    """
    path = _path(kubeconfig, environ)
    load: Load = partial(_from_kubeconfig, path, context) if path else partial(_from_account, environ)
    return Access(load, await load(), clock)


def _path(kubeconfig: str, environ: Mapping[str, str]) -> str:
    """The path of the kubeconfig to use; empty for the service account of the Pod that this process runs in."""
    path = kubeconfig or environ.get("KUBECONFIG", "")
    if not path and environ.get(HOST):
        return ""
    return path or str(Path("~/.kube/config").expanduser())


async def _from_kubeconfig(path: str, context: str) -> RestConfig:
    found = kubeconfigs.read(path, context)
    return await _by_package(path, context) if found is None else found


async def _by_package(path: str, context: str) -> RestConfig:
    """Read it with the `kubernetes` package, which runs exec plugins and asks auth providers."""
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException, load_kube_config

    own = Configuration()
    load: Callable[..., Awaitable[Any]] = load_kube_config  # the package is not annotated
    try:
        await load(path, context=context or None, client_configuration=own, persist_config=False)
    except (ConfigException, *FAULTS) as error:
        known = isinstance(error, ConfigException)
        remedy = str(error).partition(" in ")[0] if known else told(error)
        raise SettingsError("kubeconfig", path, remedy) from None
    return RestConfig(
        server=own.host,
        authorization=own.api_key.get("BearerToken") or "",
        ca_file=own.ssl_ca_cert,
        certificate=Path(own.cert_file) if own.cert_file else None,
        key=Path(own.key_file) if own.key_file else None,
        verifies=own.verify_ssl,
        server_name=own.tls_server_name or None,
        proxy=own.proxy or None,
    )


async def _from_account(environ: Mapping[str, str]) -> RestConfig:
    host, port = environ[HOST], environ.get(PORT) or "443"
    token, authority = ACCOUNT / "token", ACCOUNT / "ca.crt"
    try:
        said = token.read_text("utf-8").strip()
        authority.stat()
    except FileNotFoundError as error:
        remedy = f"its {Path(error.filename).stem} file does not exist"
        raise SettingsError("service account", "of this Pod", remedy) from None
    except FAULTS as error:
        raise SettingsError("service account", "of this Pod", told(error)) from None
    if not said:
        raise SettingsError("service account", "of this Pod", "its token file is empty")
    address = f"[{host}]" if ":" in host else host
    return RestConfig(f"https://{address}:{port}", f"Bearer {said}", ca_file=str(authority))


def _headers(config: RestConfig) -> Mapping[str, str]:
    token = config.authorization.strip()
    if not token.isprintable() or not token.isascii():
        raise SettingsError("token", "(not shown)", "must be one line of printable characters")
    return {"Authorization": token} if token else {}


def _address(host: str) -> URL:
    """The server's URL without credentials. A kubeconfig names them elsewhere, and error texts hold URLs."""
    try:
        url = URL(host)
        if url.scheme in {"http", "https"} and url.host:
            return url.with_user(None)
    except ValueError:
        pass
    raise SettingsError("server", host.rpartition("@")[2], "must be an http or https URL")


def _tls(config: RestConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.ca_file, cadata=config.ca_data)
        _present(context, config)
    except (OSError, ValueError) as error:
        raise SettingsError("kubeconfig", "certificates", told(error)) from None
    # Python 3.13 rejects certificates without the extensions of RFC 5280, which cluster CAs often lack. Every other
    # Kubernetes client accepts them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not config.verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _present(context: ssl.SSLContext, config: RestConfig) -> None:
    """Present the client certificate from now on. OpenSSL reads it only from files."""
    certificate, key = config.certificate, config.key
    if certificate is None:
        return
    if isinstance(certificate, Path) and not isinstance(key, bytes):
        context.load_cert_chain(certificate, key)
        return
    from tempfile import NamedTemporaryFile  # late: few kubeconfigs hold a certificate

    with NamedTemporaryFile() as both:  # readable only by its owner, and deleted at once
        both.write(
            b"\n".join(
                own.read_bytes() if isinstance(own, Path) else own for own in (certificate, key) if own
            )
        )
        both.flush()
        context.load_cert_chain(both.name)


def _proxy(config: RestConfig, url: URL) -> str | None:
    """The kubeconfig's proxy, otherwise the environment's, as in every other Kubernetes client.

    It is looked up once: aiohttp would use a thread for each request.
    """
    if config.proxy or urllib.request.proxy_bypass(url.host or ""):
        return config.proxy
    return urllib.request.getproxies().get(url.scheme)


def usual_namespace(
    kubeconfig: str = "", context: str = "", *, environ: Mapping[str, str] = os.environ
) -> str:
    """The namespace of the context that `find_access` would use, or `default` if none is set.

    Never raises: if a kubeconfig cannot be read, the command that needs its credentials reports it.
    """
    path = _path(kubeconfig, environ)
    try:
        if not path:
            return (ACCOUNT / "namespace").read_text("utf-8").strip() or "default"
        return kubeconfigs.namespace(path, context) or "default"
    except FAULTS:
        return "default"
