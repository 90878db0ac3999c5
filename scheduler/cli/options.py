"""Options that several commands have, once: how the cluster is reached, which namespace is meant, how it is shown.

Exit codes of every command: 0, done, or the answer is yes; 1, the answer is no, or what was named is not there;
2, the question itself is wrong, or it could not be answered.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from scheduler.errors import SettingsError
from scheduler.kube.credentials import usual_namespace
from scheduler.model import names

if TYPE_CHECKING:
    from scheduler.kube.client import Client

OK: Final = 0
NO: Final = 1
WRONG: Final = 2

HOME: Final = "gangwright-system"
"""Where manifests/ put Gangwright."""


class Form(StrEnum):
    """How an answer is shown."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


CLUSTER: Final = "Cluster"
"""The last panel of every help: how the cluster is reached."""


def known(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """Completes a word by names of this kind. Loaded by name and late: what completes asks by the options below."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        found: list[str] = getattr(import_module("scheduler.cli.shell_completion"), kind)(
            ctx.params, incomplete
        )
        return found

    return complete


Kubeconfig: TypeAlias = Annotated[
    str,
    typer.Option(
        "--kubeconfig", rich_help_panel=CLUSTER, help="Path of the kubeconfig file. Defaults to kubectl's."
    ),
]
Context: TypeAlias = Annotated[
    str,
    typer.Option(
        "--context", rich_help_panel=CLUSTER, help="Context of the kubeconfig. Defaults to the current one."
    ),
]
Settings: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        rich_help_panel=CLUSTER,
        help="Gangwright's settings file. Defaults to the cluster's ConfigMap. Where the service answers, it needs --offline.",
    ),
]
Server: TypeAlias = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="GANGWRIGHT_SERVER",
        metavar="URL|pod",
        rich_help_panel=CLUSTER,
        help="Ask the status service at this URL, or, with the word pod, in its Pod by a port-forward. By default it is "
        "asked through the API server, which knows you by your kubeconfig.",
    ),
]
Offline: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--offline",
        rich_help_panel=CLUSTER,
        help="Ask no service: work the answer out here, from what you may read of the cluster.",
    ),
]
Namespace: TypeAlias = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        help="The namespace. Defaults to the context's.",
        autocompletion=known("namespaces"),
    ),
]
Everywhere: TypeAlias = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
Shown: TypeAlias = Annotated[Form, typer.Option("--output", "-o", help="Output format.")]
GangName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="[NAMESPACE/]GANG",
        help="The gang; a pod without a gang goes by its own name.",
        autocompletion=known("gangs"),
    ),
]


@dataclass(frozen=True, slots=True)
class Reach:
    """How to reach a cluster, as the person said."""

    kubeconfig: str = ""
    context: str = ""
    settings: Path | None = None
    server: str = ""
    offline: bool = False

    def is_offline(self) -> bool:
        """Whether the answer is worked out here. Raises SettingsError for options that contradict each other."""
        if self.offline and self.server:
            remedy = "leave it out with --offline, and so GANGWRIGHT_SERVER: no service is asked"
            raise SettingsError("--server", self.server, remedy)
        if self.settings is not None and not self.offline:
            remedy = "add --offline: the service answers by its own settings"
            raise SettingsError("--settings", str(self.settings), remedy)
        return self.offline

    async def client(self, *, unbounded: bool = False) -> "Client":
        """A session to its API server, for a person: retries are logged where they can help, and an address where
        nothing is does not keep it waiting. unbounded: of any number of connections. Raises SettingsError.
        """
        from scheduler.kube.client import CONNECTIONS, Client  # late: help comes without aiohttp
        from scheduler.kube.credentials import find_access
        from scheduler.kube.http_connection import CONNECT_WITHIN
        from scheduler.settings import Log, LogFormat, LogLevel
        from scheduler.telemetry import log

        log.configure(Log(level=LogLevel.WARNING, format=LogFormat.CONSOLE))
        return Client(
            await find_access(self.kubeconfig, self.context),
            connections=0 if unbounded else CONNECTIONS,
            connect_within=CONNECT_WITHIN,
        )

    def namespace(self, said: str) -> str:
        """The namespace that is meant: the one named, or the context's. Raises SettingsError for what is no name."""
        return a_namespace(said) if said else usual_namespace(self.kubeconfig, self.context)


def a_namespace(said: str) -> str:
    """The name, which becomes part of a path. Raises SettingsError for what no namespace is called."""
    if not re.fullmatch(names.NAMESPACE, said):
        remedy = "write a namespace's name: at most 63 small letters, digits and '-'"
        raise SettingsError("namespace", said, remedy)
    return said


def scope(reach: Reach, namespace: str, *, everywhere: bool) -> str:
    """The namespace to show; empty: all of them. Raises SettingsError when both were asked for."""
    if namespace and everywhere:
        raise SettingsError("--namespace", namespace, "name one namespace with -n, or all of them with -A")
    return "" if everywhere else reach.namespace(namespace)


def split(said: str, namespace: str, reach: Reach) -> tuple[str, str]:
    """Namespace and name of `[NAMESPACE/]GANG`. Raises SettingsError."""
    before, slash, name = said.rpartition("/")
    if not name or "/" in before or (slash and not before):
        raise SettingsError("gang", said, "write NAMESPACE/GANG, or GANG and -n NAMESPACE")
    if before and namespace and before != namespace:
        raise SettingsError(
            "--namespace", namespace, f"{said} names another namespace; leave one of them out"
        )
    return reach.namespace(before or namespace), name


def duration_of(option: str, said: str) -> float:
    """Seconds, from a duration such as 90s or 1h30m. Raises SettingsError."""
    from scheduler.objects.parsing import YEAR, Unfit, duration

    try:
        return duration(1.0, YEAR)(said)
    except Unfit as unfit:
        raise SettingsError(option, said, f"write {unfit}") from None
