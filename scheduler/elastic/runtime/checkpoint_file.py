"""A state on disk: one npz file, written to a temporary name and renamed; older files are removed.

Each run of a job has its own folder inside the folder that the job names, so that files of an old run are never used
for this one, and do not make it delete its own files. Files are numbered in the order of writing, and the last one is
the newest, regardless of its step: steps go back when a file is lost, and clocks of machines differ.

The format is numpy's without pickle: a file from an untrusted writer must not be able to run code. The nested state is
a JSON text inside the file (see `state_codec`). Numbers for which numpy has no type (bfloat16) are stored as bytes,
with the name of their type. The newest complete file is the checkpoint. A writer that dies leaves only an unfinished
file, which is ignored, and which a later writer removes. A corrupt file is skipped in favor of the previous one.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Tuple

from .runtime_errors import CheckpointError
from .training_progress import say

KEPT = 2
"""Number of files kept: the newest, and the previous one in case the newest is corrupt."""

NATIVE = "biufcSUMm"
"""Kinds of types that numpy's format stores directly: numbers, strings, dates. Objects would need a pickle."""

UNFINISHED, SUFFIX = ".unfinished-", ".npz"
NAME = re.compile(r"(\d{6,})-step-(\d{12,})\.npz")

ABANDONED = 3600.0
"""Seconds since the last write to an unfinished file after which its writer counts as dead. Until then it may belong to
another writer that waits for a slow disk.
"""

Content = Tuple[Mapping[str, Any], str, Mapping[str, Any]]
"""Header, JSON text of the nested state, arrays."""


class Saved(NamedTuple):
    """A file: the `number`-th of its run, with the state after `step`."""

    number: int
    step: int
    path: Path


def run_folder(folder: str, env: Mapping[str, str]) -> str:
    """The folder of this run inside `folder`: named by the job's uid, which is unique, else by its name."""
    name = env.get("GANGWRIGHT_JOB_UID") or env.get("GANGWRIGHT_JOB") or "run"
    return str(Path(folder) / (re.sub(r"[^-\w.]", ".", name).lstrip(".") or "run"))


def write(folder: str, step: int, head: Mapping[str, Any], text: str, arrays: Mapping[str, Any]) -> str:
    """Writes the checkpoint of `step` atomically, and removes old ones. Raises CheckpointError."""
    numpy = importlib.import_module("numpy")
    former = newest(folder)
    number = former.number + 1 if former else 1
    target = Path(folder) / f"{number:06d}-step-{step:012d}{SUFFIX}"
    plain, types = _plain(numpy, arrays)
    told = json.dumps({**head, "types": types, "tree": text})
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=UNFINISHED, suffix=SUFFIX, dir=folder)
        try:
            _forget_unfinished(folder, os.fstat(handle).st_mtime)
            with os.fdopen(handle, "wb") as file:
                numpy.savez(file, told=numpy.frombuffer(told.encode(), numpy.uint8), **plain)
                file.flush()
                os.fsync(file.fileno())
            Path(beside).replace(target)
            _keep_names(folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                Path(beside).unlink()
        _forget_old(folder)
    except OSError as error:
        raise CheckpointError(f"the checkpoint {target} cannot be written: {error}") from error
    return str(target)


def read(path: str) -> Content | None:
    """The content of a checkpoint file, or of the newest readable one of a folder; None if the folder has none.

    Raises CheckpointError if no existing file can be read.
    """
    if path.endswith(SUFFIX):
        return _load(Path(path))
    found = _listed(path)
    for place, saved in enumerate(reversed(found), 1):
        try:
            return _load(saved.path)
        except CheckpointError as error:
            if place == len(found):
                raise
            say(f"{error}. Using the previous one")
    return None


def newest(folder: str) -> Saved | None:
    """The last written checkpoint in `folder`, if there is one. Raises CheckpointError."""
    found = _listed(folder)
    return found[-1] if found else None


def _load(place: Path) -> Content:
    numpy = importlib.import_module("numpy")
    try:
        with place.open("rb") as opened, numpy.load(opened, allow_pickle=False) as file:
            head = json.loads(file["told"].tobytes())
            arrays = {name: file[name] for name in file.files if name != "told"}
        types = head.pop("types")
        return head, head.pop("tree"), {name: _typed(one, types.get(name)) for name, one in arrays.items()}
    except Exception as error:  # a corrupt file may raise anything in zipfile, zlib and numpy
        said = str(error) or type(error).__name__
        raise CheckpointError(f"the checkpoint {place} cannot be read: {said}") from error


def _listed(folder: str) -> list[Saved]:
    """The files of a run, in the order of writing."""
    try:
        places = list(Path(folder).iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"the checkpoint folder {folder} cannot be read: {error}") from error
    matches = [(NAME.fullmatch(place.name), place) for place in places]
    return sorted(Saved(int(match.group(1)), int(match.group(2)), place) for match, place in matches if match)


def _keep_names(folder: str) -> None:
    """Syncs the new name to disk before the file is reported: otherwise it is lost when the node loses power. Volumes
    that cannot sync a folder do it implicitly, or not at all.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _forget_old(folder: str) -> None:
    for saved in _listed(folder)[:-KEPT]:
        with contextlib.suppress(OSError):
            saved.path.unlink()


def _forget_unfinished(folder: str, now: float) -> None:
    """Removes the files of dead writers, each as large as a checkpoint. now: by the clock of the file system."""
    for place in Path(folder).glob(f"{UNFINISHED}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if now - place.stat().st_mtime > ABANDONED:
                place.unlink()


def _plain(numpy: Any, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    plain, types = {}, {}
    for name, array in arrays.items():
        if array.dtype.kind in NATIVE or array.dtype.fields:
            plain[name] = array
        else:
            if _foreign(array.dtype.name) != array.dtype:
                raise CheckpointError(f"a checkpoint cannot hold an array of {array.dtype.name}")
            types[name] = [array.dtype.name, list(array.shape)]
            plain[name] = numpy.frombuffer(numpy.ascontiguousarray(array).tobytes(), numpy.uint8)
    return plain, types


def _typed(array: Any, kind: Any) -> Any:
    if kind is None:
        return array
    name, shape = kind
    return array.view(_foreign(name)).reshape(shape)


def _foreign(name: str) -> Any:
    """A type that numpy does not have, for example bfloat16. Raises CheckpointError if it is not installed."""
    try:
        return getattr(importlib.import_module("ml_dtypes"), name)  # installed with frameworks
    except (ImportError, AttributeError):
        raise CheckpointError(f"the type {name} is unknown: ml_dtypes does not provide it") from None
