"""What the environment of a worker says, read once. The master writes it into the pod.

A variable that is missing or wrong is named with its value and what would be right, before anything is started.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass
from typing import Callable, Mapping, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from .agent_errors import SettingsError
from .training_run import FINISH

T = TypeVar("T")

TOKEN_FILE = "/var/run/secrets/gangwright/token"  # noqa: S105 - a place, not a token
JOB = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?"
NAME = r"[A-Za-z0-9][-._A-Za-z0-9]{0,252}"
PEM = r"(?s)(.*-----BEGIN CERTIFICATE-----.*)?"
PATH = r"(?s)/.*"
YES = {"1": True, "true": True, "0": False, "false": False, "": False}


class Address(NamedTuple):
    """Where the master is."""

    host: str
    port: int
    secure: bool


@dataclass(frozen=True)
class Settings:
    """Everything the agent is told. Times in seconds."""

    master: Address
    """GANGWRIGHT_MASTER, `https://HOST:PORT`. Plain http only to loopback and with GANGWRIGHT_INSECURE=1."""
    job: str
    """GANGWRIGHT_JOB, `namespace/name`."""
    pod: str
    """GANGWRIGHT_POD: the pod's name, which also stands for it in every message."""
    uid: str
    """GANGWRIGHT_POD_UID."""
    ca: str
    """GANGWRIGHT_CA: the PEM of the only authority whose certificates are believed."""
    token_file: str
    """GANGWRIGHT_TOKEN_FILE: read anew for every request, since the kubelet renews it."""
    grace: float
    """GANGWRIGHT_GRACE: from SIGTERM to SIGKILL, the pod's terminationGracePeriodSeconds; default 30, as
    Kubernetes'.
    """
    gloo_timeout: float
    """GANGWRIGHT_GLOO_TIMEOUT: how long Horovod waits for a peer; no answer of the shim takes longer. Default 10."""
    prefix: bool
    """GANGWRIGHT_LOG_PREFIX: `1` puts the pod's name before each line of output. Default: output as it is."""
    stopped_limit: float
    """GANGWRIGHT_STOPPED_LIMIT: a child that stays stopped (SIGSTOP) this long is killed, so that its peers see a
    reset at once instead of a time-out. Default 2: a debugger's short halts pass."""
    silent_limit: float
    """GANGWRIGHT_SILENT_LIMIT: the least time without a sign of life before a child counts as hung. Default 60."""
    finish_limit: float
    """GANGWRIGHT_FINISH_LIMIT: how long a script may go on after its training before its silence counts. Default
    `training_run.FINISH`.
    """


def read(environment: Mapping[str, str]) -> Settings:
    """The settings that these variables say. Raises SettingsError at the first that is wrong."""

    def take(name: str, reader: Callable[[str], T], right: str, default: str | None = None) -> T:
        text = environment.get(name, default)
        if text is None:
            raise SettingsError(name, "", f"is not set; it must be {right}")
        try:
            return reader(text)
        except (ValueError, KeyError):
            raise SettingsError(name, text, f"must be {right}") from None

    master = take("GANGWRIGHT_MASTER", _url, "https://HOST:PORT of the elastic master")
    insecure = take("GANGWRIGHT_INSECURE", _flag, "1 or 0", "0")
    return Settings(
        master=_address(master, insecure=insecure),
        job=take("GANGWRIGHT_JOB", _like(JOB), "NAMESPACE/NAME of the ElasticJob"),
        pod=take("GANGWRIGHT_POD", _like(NAME), "the pod's name (downward API: metadata.name)"),
        uid=take("GANGWRIGHT_POD_UID", _like(NAME), "the pod's uid (downward API: metadata.uid)"),
        ca=take("GANGWRIGHT_CA", _like(PEM), "the PEM of the master's authority", "" if insecure else None),
        token_file=take("GANGWRIGHT_TOKEN_FILE", _like(PATH), "a path from the root", TOKEN_FILE),
        grace=take("GANGWRIGHT_GRACE", _seconds, "seconds above 0", "30"),
        gloo_timeout=take("GANGWRIGHT_GLOO_TIMEOUT", _seconds, "seconds above 0", "10"),
        prefix=take("GANGWRIGHT_LOG_PREFIX", _flag, "1 or 0", "0"),
        stopped_limit=take("GANGWRIGHT_STOPPED_LIMIT", _seconds, "seconds above 0", "2"),
        silent_limit=take("GANGWRIGHT_SILENT_LIMIT", _seconds, "seconds above 0", "60"),
        finish_limit=take("GANGWRIGHT_FINISH_LIMIT", _seconds, "seconds above 0", f"{FINISH:g}"),
    )


def _url(text: str) -> SplitResult:
    url = urlsplit(text)
    rest = url.path.strip("/") or url.query or url.fragment or url.username or url.password
    if url.scheme not in {"https", "http"} or not url.hostname or not url.port or rest:
        raise ValueError(text)
    return url


def _address(url: SplitResult, *, insecure: bool) -> Address:
    host, port = url.hostname or "", url.port or 0
    if url.scheme == "http" and not (insecure and _loopback(host)):
        raise SettingsError(
            "GANGWRIGHT_MASTER",
            url.geturl(),
            "must be https; http is for loopback, with GANGWRIGHT_INSECURE=1",
        )
    return Address(host, port, url.scheme == "https")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _like(pattern: str) -> Callable[[str], str]:
    """Reads a text of this form."""

    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(text)
        return text

    return read


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(text)
    return value


def _flag(text: str) -> bool:
    return YES[text.lower()]
