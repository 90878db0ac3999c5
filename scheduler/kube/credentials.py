"""Where the API server is, who we are there, and which namespace a person's kubeconfig names.

Lives here: reading a kubeconfig or the files of a service account through the `kubernetes` package, and what
follows from it: address, TLS context, proxy, and the Authorization header. Never here: a request.

Why the package is imported late: that takes longer than all else that a command of a person does.

Why read again: service account tokens live for an hour, exec plugins hand out short-lived tokens, client
certificates are renewed under the same file name. So everything is read again once a minute, when a request
needs it, and at once after the API server answered 401. A file that cannot be read at that moment leaves the
old credentials in use.

Why nothing of a foreign error's text is passed on: the package names the broken part of a kubeconfig by its
content, credentials included. What is wrong with its contexts is told by their names alone.
"""

import os
import ssl
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml
from yarl import URL

from scheduler.errors import SettingsError, shortened

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

REREAD = 60.0
"""Seconds after which credentials are read again; client-go reads token files again once a minute too."""

FAULTS: Final = (yaml.YAMLError, OSError, ValueError, LookupError, TypeError, AttributeError)
_INSIDE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Things: TypeAlias = dict[str, dict[str, Any]]
"""By kind, by name."""

LONGEST: Final = 1024
"""Characters of all names of contexts that are shown."""

Load = Callable[[], Awaitable["Configuration"]]


def _faults() -> tuple[type[Exception], ...]:
    """What a kubeconfig that is wrong may raise."""
    from kubernetes.aio.config import ConfigException

    return (ConfigException, SettingsError, *FAULTS)


class Access:
    """The API server's address, and the credentials that open it. Made by `find_access`."""

    def __init__(self, load: Load, configuration: "Configuration", clock: Callable[[], float]) -> None:
        self._load = load
        self._clock = clock
        self._read_at = clock()
        self._headers = _headers(configuration)
        self.url = _address(configuration.host)
        self.tls = _tls(configuration) if self.url.scheme == "https" else None
        self.server_name: str | None = configuration.tls_server_name or None
        self.proxy = _proxy(configuration, self.url)

    async def headers(self) -> Mapping[str, str]:
        """The Authorization header, if the credentials are a token; read again when old."""
        if self._clock() - self._read_at >= REREAD:
            await self._read_again()
        return self._headers

    def doubt(self) -> None:
        """Read the credentials again before the next request: the API server did not believe them."""
        self._read_at = float("-inf")

    async def _read_again(self) -> None:
        # First, so that one request reads and the others go on with the old ones.
        self._read_at = self._clock()
        try:
            fresh = await self._load()
            headers = _headers(fresh)
            if self.tls is not None:
                _present(self.tls, fresh)  # new connections use the new certificate, standing ones live on
        except _faults():
            return
        self._headers = headers


async def find_access(
    kubeconfig: str = "",
    context: str = "",
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.monotonic,
) -> Access:
    """Read how to reach the API server.

    The first of: the kubeconfig named here, `$KUBECONFIG`, the service account of the Pod we run in,
    `~/.kube/config`. Raises SettingsError when what was found cannot be used.
    """
    path = _path(kubeconfig, environ)
    load: Load = partial(_from_kubeconfig, path, context) if path else _from_service_account
    return Access(load, await load(), clock)


def _path(kubeconfig: str, environ: Mapping[str, str]) -> str:
    """The kubeconfig that counts; empty where that is the service account of the Pod we run in."""
    path = kubeconfig or environ.get("KUBECONFIG", "")
    if not path and environ.get("KUBERNETES_SERVICE_HOST"):
        return ""
    return path or str(Path("~/.kube/config").expanduser())


async def _from_kubeconfig(path: str, context: str) -> "Configuration":
    if not files(path):
        raise SettingsError("kubeconfig", path, "no such file; name a kubeconfig that can be read")
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import load_kube_config

    configuration = Configuration()
    load: Callable[..., Awaitable[Any]] = load_kube_config  # the package is not annotated
    try:
        await load(path, context=context or None, client_configuration=configuration, persist_config=False)
    except _faults() as error:
        raise wrong(path, context) or SettingsError("kubeconfig", path, _told(error)) from None
    return configuration


async def _from_service_account() -> "Configuration":
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import load_incluster_config

    configuration = Configuration()
    load: Callable[..., None] = load_incluster_config
    try:
        load(client_configuration=configuration)
    except _faults() as error:
        raise SettingsError("service account", "of this Pod", _told(error)) from None
    return configuration


def _told(error: Exception) -> str:
    """What of a foreign error may be shown: never the content of a kubeconfig."""
    from kubernetes.aio.config import ConfigException

    if isinstance(error, ConfigException):
        return str(error).partition(" in ")[0]
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({Path(error.filename).name})" if error.filename else error.strerror
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"it is not YAML: see line {error.problem_mark.line + 1}"
    return f"cannot be read ({type(error).__name__})"


def _headers(configuration: "Configuration") -> Mapping[str, str]:
    # Not through `auth_settings`: its refresh hook goes by the wall clock, and only inside a cluster.
    token = (configuration.api_key.get("BearerToken") or "").strip()
    if not token.isprintable() or not token.isascii():
        raise SettingsError("token", "(not shown)", "must be one line of printable characters")
    return {"Authorization": token} if token else {}


def _address(host: str) -> URL:
    """The server's URL without credentials: a kubeconfig names them elsewhere, and texts of errors hold URLs."""
    try:
        url = URL(host)
        if url.scheme in {"http", "https"} and url.host:
            return url.with_user(None)
    except ValueError:
        pass
    raise SettingsError("server", host.rpartition("@")[2], "must be an http or https URL")


def _tls(configuration: "Configuration") -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data
        )
        _present(context, configuration)
    except (OSError, ValueError) as error:
        raise SettingsError("kubeconfig", "certificates", _told(error)) from None
    # Python 3.13 refuses certificates without the extensions of RFC 5280, which cluster CAs often lack; every
    # other Kubernetes client takes them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _present(context: ssl.SSLContext, configuration: "Configuration") -> None:
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)


def _proxy(configuration: "Configuration", url: URL) -> str | None:
    """The kubeconfig's proxy, else the environment's, as every other Kubernetes client does.

    Found once: left to aiohttp, it costs each request a thread.
    """
    if configuration.proxy or urllib.request.proxy_bypass(url.host or ""):
        return configuration.proxy or None
    return urllib.request.getproxies().get(url.scheme)


def usual_namespace(
    kubeconfig: str = "",
    context: str = "",
    *,
    environ: Mapping[str, str] = os.environ,
    inside: Path = _INSIDE,
) -> str:
    """The namespace of the context that `find_access` would use; `default` where nothing names one.

    Never raises: a kubeconfig that cannot be read is told of by whoever needs its credentials.
    """
    path = _path(kubeconfig, environ)
    try:
        if not path:
            return inside.read_text("utf-8").strip() or "default"
        if not files(path):
            return "default"
        from kubernetes.aio.config import kube_config

        contexts: Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]] = (
            kube_config.list_kube_config_contexts
        )
        every, current = contexts(path)
        chosen = next((own for own in every if own["name"] == context), {}) if context else current
        return str(chosen["context"].get("namespace") or "default")
    except _faults():
        return "default"


def wrong(path: str, context: str) -> SettingsError | None:
    """What is wrong with this context, or with the current one, of the files of this path; None where it is not that.

    Names are told, and nothing else of the files.
    """
    try:
        found = [yaml.safe_load(place.read_text("utf-8")) for place in files(path)]
        if not all(isinstance(own, dict) for own in found):
            return SettingsError("kubeconfig", path, "it must be YAML that has clusters, users and contexts")
        current = [own["current-context"] for own in found if "current-context" in own]
        return _wrong(path, context, str(current[-1] or "") if current else "", _things(found))
    except FAULTS:
        return None


def _wrong(path: str, context: str, current: str, things: Things) -> SettingsError | None:
    known = ", ".join(sorted(things["contexts"]))
    others = f"its contexts are: {shortened(known, LONGEST)}" if known else "it has no contexts"
    if context and context not in things["contexts"]:
        return SettingsError("context", context, f"there is none of this name in {path}; {others}")
    if not context and not current:
        return SettingsError("kubeconfig", path, f"it has no current-context, so name one; {others}")
    chosen = context or current
    if chosen not in things["contexts"]:
        remedy = f"its current-context, {shortened(chosen)}, is not in it, so name another; {others}"
        return SettingsError("kubeconfig", path, remedy)
    for word in ("cluster", "user"):
        said = things["contexts"][chosen].get(word)
        if said is not None and said not in things[f"{word}s"]:
            remedy = (
                f"its context {shortened(chosen)} names the {word} {shortened(str(said))}, which is not in it"
            )
            return SettingsError("kubeconfig", path, remedy)
    return None


def _things(files: Iterable[dict[str, Any]]) -> Things:
    """Contexts, clusters and users by name; of a name that several files have the first counts."""
    found: Things = {"contexts": {}, "clusters": {}, "users": {}}
    for own in files:
        for kind, known in found.items():
            for thing in own.get(kind) or ():
                known.setdefault(str(thing["name"]), thing.get(kind[:-1]) or {})
    return found


def files(path: str) -> list[Path]:
    """The files of this path that exist."""
    places = (Path(part).expanduser() for part in path.split(os.pathsep) if part)
    return [place for place in places if place.is_file()]
