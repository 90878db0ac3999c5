"""Names for shell completion: gangs, and the namespaces that have gangs. The status service provides them.

Lives here: one request with a short timeout, of which only names reach the terminal. Never here: which option is
completed with which names (`options`), or the protocols of shells.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, suppress
from io import StringIO
from threading import Thread
from typing import Any, Final

from scheduler.cli.options import Reach
from scheduler.cli.status_client import StatusClient

PATIENCE: Final = 2.0
"""Seconds after which nothing is completed."""


def gangs(said: Mapping[str, Any], begun: str) -> list[str]:
    """Gangs with this prefix, as `[NAMESPACE/]GANG`. said: the values of the other options, by name."""
    before, slash, name = begun.rpartition("/")

    def find() -> Iterable[str]:
        reach = _reach(said)
        rows = StatusClient(reach).gangs(reach.namespace(before or said.get("namespace") or ""))
        return (f"{before}{slash}{row.name}" for row in rows if row.name and row.name.startswith(name))

    return _in_time(find)


def namespaces(said: Mapping[str, Any], begun: str) -> list[str]:
    """Namespaces with gangs and this prefix."""

    def find() -> Iterable[str]:
        rows = StatusClient(_reach(said)).gangs()
        return (row.namespace for row in rows if row.namespace and row.namespace.startswith(begun))

    return _in_time(find)


def _reach(said: Mapping[str, Any]) -> Reach:
    """The connection from the other options. The variable also applies to commands without --server."""
    kubeconfig, context = (said.get(name) or "" for name in ("kubeconfig", "context"))
    return Reach(kubeconfig, context, server=said.get("server") or os.environ.get("GANGWRIGHT_SERVER", ""))


def _in_time(find: Callable[[], Iterable[str]]) -> list[str]:
    """The result, sorted. Empty after an error or PATIENCE, because a message would disturb the typed line."""
    found: list[str] = []

    def run() -> None:
        with suppress(Exception):
            found.extend(sorted(set(find())))

    thread = Thread(target=run, daemon=True)
    with redirect_stderr(StringIO()):
        thread.start()
        thread.join(PATIENCE)
    return list(found)
