"""`gangwright snapshot`: the cluster in one file, to be judged again elsewhere; and the reading of such a file."""

import secrets
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from scheduler.cli import cluster_document, screen
from scheduler.cli.options import Context, Kubeconfig, Reach, Settings
from scheduler.errors import SettingsError
from scheduler.replay import Document, InvalidSnapshot, decode, encode
from scheduler.replay.redaction import redact

LARGEST: Final = 512 * 2**20
"""Bytes of a snapshot that is read: some hundred thousand pods."""


def snapshot(
    redacted: Annotated[
        bool,
        typer.Option(
            "--redact", help="Replace every name by a hash; ties that names decide may end otherwise."
        ),
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
) -> None:
    """Write the scheduling state as JSON, for simulate.

    `gangwright simulate --snapshot s.json` decides on it again. It holds names of nodes, pods and namespaces, labels of
    nodes and what pods ask for; no images, commands, environments or secrets.
    """
    if sys.stdout.isatty():
        raise SettingsError("standard output", "a terminal", "write to a file: gangwright snapshot > s.json")
    found = cluster_document.reading(Reach(kubeconfig, context, settings)).document()
    text = encode(redact(found, secrets.token_bytes(32)) if redacted else found)
    sys.stdout.write(text.decode() + "\n")
    screen.note(f"{len(found.nodes)} nodes, {len(found.pods)} pods, {len(text)} bytes")


def load(place: Path) -> Document:
    """The snapshot in a file. Raises SettingsError for one that is torn, or none."""
    try:
        with place.open("rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise SettingsError("--snapshot", str(place), error.strerror or "cannot be read") from None
    if len(text) > LARGEST:
        raise SettingsError("--snapshot", str(place), f"too long; at most {LARGEST // 2**20} MiB are read")
    try:
        return decode(text)
    except InvalidSnapshot as torn:
        raise SettingsError("--snapshot", str(place), f"is no snapshot that can be used: {torn}") from None
