"""Settings of the agent, read once from the environment. The master writes the variables into the pod.

A missing or wrong variable is reported with its value and the valid values, before anything is started.
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
    """Address of the master."""

    host: str
    port: int
    secure: bool


@dataclass(frozen=True)
class Settings:
    """All settings of the agent. Times are in seconds."""

    master: Address
    """GANGWRIGHT_MASTER, `https://HOST:PORT`. Plain http only to loopback and with GANGWRIGHT_INSECURE=1."""
    job: str
    """GANGWRIGHT_JOB, `namespace/name`."""
    pod: str
    """GANGWRIGHT_POD: name of the pod, which identifies it in every message."""
    uid: str
    """GANGWRIGHT_POD_UID."""
    ca: str
    """GANGWRIGHT_CA: PEM of the only CA whose certificates are accepted."""
    token_file: str
    """GANGWRIGHT_TOKEN_FILE: file of the token. Read for every request, because the kubelet renews it."""
    grace: float
    """GANGWRIGHT_GRACE: time from SIGTERM to SIGKILL, the pod's terminationGracePeriodSeconds. Defaults to 30, as in
    Kubernetes.
    """
    gloo_timeout: float
    """GANGWRIGHT_GLOO_TIMEOUT: time that Horovod waits for a peer, and limit of the shim's answers. Defaults to 10."""
    prefix: bool
    """GANGWRIGHT_LOG_PREFIX: `1` prefixes each line of output with the pod's name. Defaults to unchanged output."""
    stopped_limit: float
    """GANGWRIGHT_STOPPED_LIMIT: time until a stopped child (SIGSTOP) is killed, so that its peers see a reset
    immediately instead of a timeout. Defaults to 2, which allows short halts of a debugger."""
    silent_limit: float
    """GANGWRIGHT_SILENT_LIMIT: minimum time without a sign of life before a child counts as hung. Defaults to 60."""
    finish_limit: float
    """GANGWRIGHT_FINISH_LIMIT: time that a script may run after its training before its silence counts. Defaults to
    `training_run.FINISH`.
    """


def read(environment: Mapping[str, str]) -> Settings:
    """The settings in these variables. Raises SettingsError at the first wrong one."""

    def take(name: str, reader: Callable[[str], T], right: str, default: str | None = None) -> T:
        text = environment.get(name, default)
        if text is None:
            raise SettingsError(name, "", f"is required and must be {right}")
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
        ca=take("GANGWRIGHT_CA", _like(PEM), "the PEM of the master's CA", "" if insecure else None),
        token_file=take("GANGWRIGHT_TOKEN_FILE", _like(PATH), "an absolute path", TOKEN_FILE),
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
            "must be https. http is allowed only to loopback, with GANGWRIGHT_INSECURE=1",
        )
    return Address(host, port, url.scheme == "https")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _like(pattern: str) -> Callable[[str], str]:
    """A reader of strings that match this pattern."""

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
