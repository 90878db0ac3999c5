"""`gangwright snapshot`: the cluster in one file, to replay decisions elsewhere; and reading such a file."""

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
"""Largest size of a snapshot in bytes: a few hundred thousand pods."""


def snapshot(
    redacted: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Hashes instead of names. Decisions that depend on the order of names may differ.",
        ),
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
) -> None:
    """Dump the scheduling state as JSON, for simulate.

    `gangwright simulate --snapshot s.json` decides on it again. It contains names of nodes, pods and namespaces, labels
    of nodes and requests of pods. It contains no images, commands, environments or secrets.
    """
    if sys.stdout.isatty():
        raise SettingsError("standard output", "a terminal", "must be a file: gangwright snapshot > s.json")
    found = cluster_document.reading(Reach(kubeconfig, context, settings)).document()
    text = encode(redact(found, secrets.token_bytes(32)) if redacted else found)
    sys.stdout.write(text.decode() + "\n")
    screen.note(f"{len(found.nodes)} nodes, {len(found.pods)} pods, {len(text)} bytes")


def load(place: Path) -> Document:
    """The snapshot in a file. Raises SettingsError for an invalid or missing one."""
    try:
        with place.open("rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise SettingsError("--snapshot", str(place), error.strerror or "can't be read") from None
    if len(text) > LARGEST:
        raise SettingsError("--snapshot", str(place), f"must not be larger than {LARGEST // 2**20} MiB")
    try:
        return decode(text)
    except InvalidSnapshot as torn:
        raise SettingsError("--snapshot", str(place), f"must be a valid snapshot: {torn}") from None
