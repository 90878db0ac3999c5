"""Options that several commands share: how to reach the cluster, the namespace, and the output format.

Exit codes of every command: 0 success or a positive answer; 1 a negative answer, or not found; 2 an invalid request, or
one that could not be answered.
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
"""The namespace of Gangwright in manifests/."""


class Form(StrEnum):
    """Output format of an answer."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


CLUSTER: Final = "Cluster"
"""The last panel of every help: how to reach the cluster."""


def known(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """Completes a word with names of this kind. Loaded by name and late, because completion uses the options below."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        found: list[str] = getattr(import_module("scheduler.cli.shell_completion"), kind)(
            ctx.params, incomplete
        )
        return found

    return complete


Kubeconfig: TypeAlias = Annotated[
    str,
    typer.Option(
        "--kubeconfig", rich_help_panel=CLUSTER, help="Path to the kubeconfig file. Defaults to kubectl's."
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
        help="Path to a settings file, with --offline if the command has it. Defaults to the cluster's ConfigMap.",
    ),
]
Server: TypeAlias = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="GANGWRIGHT_SERVER",
        metavar="URL|pod",
        rich_help_panel=CLUSTER,
        help="URL of the status service, or pod for a port-forward to its Pod. Defaults to the API server, with the "
        "credentials of your kubeconfig.",
    ),
]
Offline: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--offline",
        rich_help_panel=CLUSTER,
        help="Local computation from what you may read of the cluster, without the status service.",
    ),
]
Namespace: TypeAlias = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace. Defaults to the context's.",
        autocompletion=known("namespaces"),
    ),
]
Everywhere: TypeAlias = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
Shown: TypeAlias = Annotated[Form, typer.Option("--output", "-o", help="Output format.")]
GangName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="[NAMESPACE/]GANG",
        help="Name of the gang, or of a pod without a gang.",
        autocompletion=known("gangs"),
    ),
]


@dataclass(frozen=True, slots=True)
class Reach:
    """How to reach a cluster, from the options."""

    kubeconfig: str = ""
    context: str = ""
    settings: Path | None = None
    server: str = ""
    offline: bool = False

    def is_offline(self) -> bool:
        """Whether the answer is computed locally. Raises SettingsError for options that contradict each other."""
        if self.offline and self.server:
            remedy = "has no effect with --offline. Leave out --server and unset GANGWRIGHT_SERVER"
            raise SettingsError("--server", self.server, remedy)
        if self.settings is not None and not self.offline:
            remedy = "requires --offline, because the service uses its own settings. Add --offline"
            raise SettingsError("--settings", str(self.settings), remedy)
        return self.offline

    async def client(self, *, unbounded: bool = False) -> "Client":
        """A session to the API server, for a user: it logs retries, and gives up soon if the address does not answer.
        unbounded: with any number of connections. Raises SettingsError.
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
        """The given namespace, or the context's. Raises SettingsError for an invalid name."""
        return a_namespace(said) if said else usual_namespace(self.kubeconfig, self.context)


def a_namespace(said: str) -> str:
    """The name, which becomes part of a path. Raises SettingsError for an invalid name."""
    if not re.fullmatch(names.NAMESPACE, said):
        remedy = "must be the name of a namespace: at most 63 lowercase letters, digits and '-'"
        raise SettingsError("namespace", said, remedy)
    return said


def scope(reach: Reach, namespace: str, *, everywhere: bool) -> str:
    """The namespace to show; empty: all of them. Raises SettingsError if both were requested."""
    if namespace and everywhere:
        raise SettingsError("--namespace", namespace, "must not be combined with -A. Leave out one of them")
    return "" if everywhere else reach.namespace(namespace)


def split(said: str, namespace: str, reach: Reach) -> tuple[str, str]:
    """Namespace and name of `[NAMESPACE/]GANG`. Raises SettingsError."""
    before, slash, name = said.rpartition("/")
    if not name or "/" in before or (slash and not before):
        raise SettingsError("gang", said, "must be NAMESPACE/GANG, or GANG with -n NAMESPACE")
    if before and namespace and before != namespace:
        raise SettingsError(
            "--namespace", namespace, f"must match the namespace in {said}. Leave out one of them"
        )
    return reach.namespace(before or namespace), name


def duration_of(option: str, said: str) -> float:
    """Seconds of a duration, for example 90s or 1h30m. Raises SettingsError."""
    from scheduler.objects.parsing import YEAR, Unfit, duration

    try:
        return duration(1.0, YEAR)(said)
    except Unfit as unfit:
        raise SettingsError(option, said, f"write {unfit}") from None
