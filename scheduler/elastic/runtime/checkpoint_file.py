"""A state on disk: one npz file, written beside its place and renamed, the older ones removed.

Each run of a job has a folder of its own in the folder that the job names, so that nothing an old run left there is
ever taken for this one's, or makes it forget its own files. Files are numbered as they are written, and the last
written is the newest, whatever its step: steps go back when a file is lost, and clocks of machines differ.

numpy's format without pickle: a file that somebody else could write must not be able to run anything. The nest of the
state is a JSON text inside the file (see `state_codec`); numbers that numpy has no type for (bfloat16) are kept as bytes
beside the name of their type. The newest whole file is the checkpoint: a writer that dies leaves only an unfinished
one, which nobody looks at and a later writer removes, and one that a disk has spoilt is passed over for the one before.
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
"""Files kept: the newest, and the one before in case the newest's disk block is bad."""

NATIVE = "biufcSUMm"
"""Kinds of types that numpy's format keeps as they are: numbers, texts, dates. Objects would need a pickle."""

UNFINISHED, SUFFIX = ".unfinished-", ".npz"
NAME = re.compile(r"(\d{6,})-step-(\d{12,})\.npz")

ABANDONED = 3600.0
"""Seconds since anything was written into an unfinished file, after which nobody does any more: its writer has died.
Until then it may be another's, that waits for a slow disk.
"""

Content = Tuple[Mapping[str, Any], str, Mapping[str, Any]]
"""Head, JSON text of the nest, arrays."""


class Saved(NamedTuple):
    """A file: the `number`-th of its run, with the state after `step`."""

    number: int
    step: int
    path: Path


def run_folder(folder: str, env: Mapping[str, str]) -> str:
    """Where in `folder` this run's files are: by the job's uid, which no other job ever has, else by its name."""
    name = env.get("GANGWRIGHT_JOB_UID") or env.get("GANGWRIGHT_JOB") or "run"
    return str(Path(folder) / (re.sub(r"[^-\w.]", ".", name).lstrip(".") or "run"))


def write(folder: str, step: int, head: Mapping[str, Any], text: str, arrays: Mapping[str, Any]) -> str:
    """Writes the checkpoint of `step`, whole or not at all, and removes old ones. Raises CheckpointError."""
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
    """What is in a checkpoint file, or in the newest readable one of a folder; None when the folder has none.

    Raises CheckpointError when what is there cannot be read.
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
            say(f"{error}; the one before is taken")
    return None


def newest(folder: str) -> Saved | None:
    """The checkpoint that was written last in `folder`, if there is one. Raises CheckpointError."""
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
    except Exception as error:  # what a disk has spoilt may raise anything in zipfile, zlib and numpy
        said = str(error) or type(error).__name__
        raise CheckpointError(f"the checkpoint {place} cannot be read: {said}") from error


def _listed(folder: str) -> list[Saved]:
    """The files of a run, in the order in which they were written."""
    try:
        places = list(Path(folder).iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"the folder of checkpoints {folder} cannot be read: {error}") from error
    matches = [(NAME.fullmatch(place.name), place) for place in places]
    return sorted(Saved(int(match.group(1)), int(match.group(2)), place) for match, place in matches if match)


def _keep_names(folder: str) -> None:
    """Have the disk know the new name too, before anybody is told of the file: a node that loses power forgets it
    else. Volumes that cannot do that for a folder do it by themselves, or not at all.
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
    """What writers that died have left, each as large as a checkpoint. now: by the clock that dates the files."""
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
                raise CheckpointError(f"no checkpoint can hold an array of {array.dtype.name}")
            types[name] = [array.dtype.name, list(array.shape)]
            plain[name] = numpy.frombuffer(numpy.ascontiguousarray(array).tobytes(), numpy.uint8)
    return plain, types


def _typed(array: Any, kind: Any) -> Any:
    if kind is None:
        return array
    name, shape = kind
    return array.view(_foreign(name)).reshape(shape)


def _foreign(name: str) -> Any:
    """A type that is not numpy's own, such as bfloat16. Raises CheckpointError where nobody brought it."""
    try:
        return getattr(importlib.import_module("ml_dtypes"), name)  # frameworks bring it
    except (ImportError, AttributeError):
        raise CheckpointError(f"nothing here knows the type {name}") from None
