"""Names that the Tab key completes: gangs, and the namespaces that have gangs. The status service knows them.

Lives here: one question with little patience, of which nothing but names reaches the terminal. Never here: which option
completes by which names (`options`), or the protocols of shells.
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
    """Gangs that begin so, as `[NAMESPACE/]GANG`. said: what the other options say, by name."""
    before, slash, name = begun.rpartition("/")

    def find() -> Iterable[str]:
        reach = _reach(said)
        rows = StatusClient(reach).gangs(reach.namespace(before or said.get("namespace") or ""))
        return (f"{before}{slash}{row.name}" for row in rows if row.name and row.name.startswith(name))

    return _in_time(find)


def namespaces(said: Mapping[str, Any], begun: str) -> list[str]:
    """Namespaces with gangs that begin so."""

    def find() -> Iterable[str]:
        rows = StatusClient(_reach(said)).gangs()
        return (row.namespace for row in rows if row.namespace and row.namespace.startswith(begun))

    return _in_time(find)


def _reach(said: Mapping[str, Any]) -> Reach:
    """As the other options have it. The variable counts for commands that have no --server, too."""
    kubeconfig, context = (said.get(name) or "" for name in ("kubeconfig", "context"))
    return Reach(kubeconfig, context, server=said.get("server") or os.environ.get("GANGWRIGHT_SERVER", ""))


def _in_time(find: Callable[[], Iterable[str]]) -> list[str]:
    """What is found, sorted; nothing after an error or PATIENCE. In the midst of a line there is no place for words."""
    found: list[str] = []

    def run() -> None:
        with suppress(Exception):
            found.extend(sorted(set(find())))

    thread = Thread(target=run, daemon=True)
    with redirect_stderr(StringIO()):
        thread.start()
        thread.join(PATIENCE)
    return list(found)
