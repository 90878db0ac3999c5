"""Options that several commands have, once: how the cluster is reached, which namespace is meant, how it is shown.

Exit codes of every command: 0, done, or the answer is yes; 1, the answer is no, or what was named is not there;
2, the question itself is wrong, or it could not be answered.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
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


Kubeconfig: TypeAlias = Annotated[
    str, typer.Option("--kubeconfig", help="How to reach the cluster; by default as kubectl.")
]
Context: TypeAlias = Annotated[
    str, typer.Option("--context", help="The kubeconfig's context; by default the current one.")
]
Settings: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--settings", help="Gangwright's settings file; by default read from the cluster's ConfigMap."
    ),
]
Server: TypeAlias = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="GANGWRIGHT_SERVER",
        metavar="URL|pod",
        help="Ask the status service at this URL, or, with the word pod, in its Pod through the API server. "
        "By default the answer is worked out here, from what you may read.",
    ),
]
Offline: TypeAlias = Annotated[bool, typer.Option("--offline", help="Work the answer out here.")]
Namespace: TypeAlias = Annotated[
    str, typer.Option("--namespace", "-n", help="The namespace; by default the context's.")
]
Everywhere: TypeAlias = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
Shown: TypeAlias = Annotated[Form, typer.Option("--output", "-o", help="How the answer is shown.")]
GangName: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="[NAMESPACE/]GANG", help="The gang; a pod without a gang goes by its own name."),
]


@dataclass(frozen=True, slots=True)
class Reach:
    """How to reach a cluster, as the person said."""

    kubeconfig: str = ""
    context: str = ""
    settings: Path | None = None
    server: str = ""

    async def client(self, *, unbounded: bool = False) -> "Client":
        """A session to its API server. unbounded: of any number of connections. Raises SettingsError."""
        from scheduler.kube.client import CONNECTIONS, Client  # late: help comes without aiohttp
        from scheduler.kube.credentials import find_access

        return Client(
            await find_access(self.kubeconfig, self.context), connections=0 if unbounded else CONNECTIONS
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
