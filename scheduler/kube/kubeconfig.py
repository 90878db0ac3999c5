"""A kubeconfig: its merged files, the context, and the values of its cluster and user.

Lives here: the ordinary users of a kubeconfig (token, token file, client certificate), and which files exist. Never
here: TLS, a request, and users of exec plugins or auth providers, which the `kubernetes` package handles
(`credentials`). Why not the package for all users: its import takes longer than everything else in a command.

Why errors never hold contents of the files: they may be credentials. Errors only show names of contexts, clusters and
users, and base names of files.
"""

import base64
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from scheduler.errors import SettingsError, shortened

FAULTS: Final = (SettingsError, yaml.YAMLError, OSError, ValueError, LookupError, TypeError, AttributeError)
"""Errors that an invalid kubeconfig may raise."""

LONGEST: Final = 1024
"""Maximum characters of the list of contexts that is shown."""

ORDINARY: Final = frozenset(
    {"token", "tokenFile", "client-certificate", "client-certificate-data", "client-key", "client-key-data"}
)
"""Fields of a user that this module reads."""

_YAML: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""LibYAML's loader if it is installed, which is ten times as fast."""


@dataclass(frozen=True, slots=True)
class RestConfig:
    """An API server's address and the credentials for it. The name is client-go's."""

    server: str
    authorization: str = field(default="", repr=False)
    """The header's value; empty for a user with only a certificate or without credentials."""
    ca_file: str | None = None
    ca_data: str | None = None
    """The authority to check the server's certificate by, PEM. If neither is set: those of the system."""
    certificate: Path | bytes | None = None
    key: Path | bytes | None = field(default=None, repr=False)
    """The client's certificate and key, PEM: a file that may be renewed, or its content."""
    verifies: bool = True
    server_name: str | None = None
    """The name in the server's certificate, if it differs from the server's address."""
    proxy: str | None = None


class _Entry(NamedTuple):
    """A context, cluster or user. folder: the folder of its file, which relative paths start from."""

    said: dict[str, Any]
    folder: Path


_Things: TypeAlias = dict[str, dict[str, _Entry]]
"""By kind, by name."""


def read(path: str, context: str) -> RestConfig | None:
    """The values of this context, or of the current one if it is empty. None: only the package supports its user.

    path: one or several files, as in $KUBECONFIG. Raises SettingsError.
    """
    try:
        cluster, user = _chosen(path, context)
        strange = {name for name, value in user.said.items() if value} - ORDINARY
        return None if strange else _rest_config(cluster, user)
    except SettingsError:
        raise
    except FAULTS as error:
        raise SettingsError("kubeconfig", path, told(error)) from None


def namespace(path: str, context: str) -> str:
    """The namespace of this context, or of the current one; empty if it names none. Raises one of FAULTS."""
    things, current = _merged(path)
    return str(things["context"][context or current].said.get("namespace") or "")


def told(error: Exception) -> str:
    """The part of such an error that may be shown: never the content of a file."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({Path(error.filename).name})" if error.filename else error.strerror
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"it is not YAML: see line {error.problem_mark.line + 1}"
    return f"cannot be read ({type(error).__name__})"


def _rest_config(cluster: _Entry, user: _Entry) -> RestConfig:
    server = str(cluster.said.get("server") or "")
    secure = server.startswith("https")
    authority = _pem(cluster, "certificate-authority") if secure else None
    return RestConfig(
        server=server,
        authorization=f"Bearer {token}" if (token := _token(user)) else "",
        ca_file=str(authority) if isinstance(authority, Path) else None,
        # text around the certificates may have any characters, and OpenSSL skips it
        ca_data=authority.decode("ascii", "ignore") if isinstance(authority, bytes) else None,
        certificate=_pem(user, "client-certificate") if secure else None,
        key=_pem(user, "client-key") if secure else None,
        verifies=not cluster.said.get("insecure-skip-tls-verify"),
        server_name=cluster.said.get("tls-server-name") or None,
        proxy=cluster.said.get("proxy-url") or None,
    )


def _token(user: _Entry) -> str:
    if said := user.said.get("token"):
        return str(said).strip()
    place = user.said.get("tokenFile")
    return (user.folder / place).read_text("utf-8").strip() if place else ""


def _pem(entry: _Entry, name: str) -> Path | bytes | None:
    """A certificate or key: its content if that is in the kubeconfig, otherwise its file."""
    if data := entry.said.get(f"{name}-data"):
        return base64.b64decode(data)
    if not (said := entry.said.get(name)):
        return None
    place = entry.folder / str(said)
    place.stat()  # this error names a missing file; OpenSSL's does not
    return place


def _chosen(path: str, context: str) -> tuple[_Entry, _Entry]:
    """Cluster and user. Raises SettingsError, which names the missing part."""
    things, current = _merged(path)
    known = ", ".join(sorted(things["context"]))
    others = f"its contexts are: {shortened(known, LONGEST)}" if known else "it has no contexts"
    if context and context not in things["context"]:
        remedy = f"not found in {path}; {others}"
        raise SettingsError("context", context, remedy) from None
    chosen = context or current
    if not chosen:
        remedy = f"it has no current-context; specify a context; {others}"
        raise SettingsError("kubeconfig", path, remedy) from None
    if chosen not in things["context"]:
        remedy = f"its current-context {shortened(chosen)} does not exist; specify another context; {others}"
        raise SettingsError("kubeconfig", path, remedy) from None
    entry = things["context"][chosen]
    return _named(path, chosen, entry, "cluster", things), _named(path, chosen, entry, "user", things)


def _named(path: str, context: str, entry: _Entry, word: str, things: _Things) -> _Entry:
    """The cluster or user that the context names; a context may do without a user."""
    name = str(entry.said.get(word) or "")
    if name in things[word]:
        return things[word][name]
    if not name and word == "user":
        return _Entry({}, entry.folder)
    which = f"the {word} {shortened(name)}, which does not exist" if name else f"no {word}"
    remedy = f"its context {shortened(context)} names {which}"
    raise SettingsError("kubeconfig", path, remedy) from None


def _merged(path: str) -> tuple[_Things, str]:
    """The merged files, and the current context. The first entry of a name wins, as in kubectl."""
    places = files(path)
    if not places:
        remedy = "file not found; specify a kubeconfig that exists"
        raise SettingsError("kubeconfig", path, remedy) from None
    things: _Things = {"context": {}, "cluster": {}, "user": {}}
    current = ""
    for place in places:
        said = yaml.load(place.read_text("utf-8"), _YAML)  # noqa: S506 - a safe loader
        if said is None:
            continue
        if not isinstance(said, dict):
            remedy = "must be YAML with clusters, users and contexts"
            raise SettingsError("kubeconfig", path, remedy) from None
        current = current or str(said.get("current-context") or "")
        for word, known in things.items():
            _add(known, word, said.get(f"{word}s") or (), place.parent)
    return things, current


def _add(known: dict[str, _Entry], word: str, entries: Iterable[dict[str, Any]], folder: Path) -> None:
    for own in entries:
        known.setdefault(str(own["name"]), _Entry(own.get(word) or {}, folder))


def files(path: str) -> list[Path]:
    """The files of this path that exist."""
    places = (Path(part).expanduser() for part in path.split(os.pathsep) if part)
    return [place for place in places if place.is_file()]
