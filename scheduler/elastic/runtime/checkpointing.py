"""Checkpoints of the running training: on request, periodically, and restoring.

Rank 0 writes while the training runs; when it ends, the worker that the master names. The file contains the last
commit, which does not change any more. So another thread can write it while the training continues; at most one file at
a time.
"""

from __future__ import annotations

import os
import threading
import time

from . import checkpoint_file, state_codec
from .checkpoint_file import Content
from .frameworks import Plain
from .runtime_errors import CheckpointError
from .training_progress import Progress, say


class Disk:
    """The folder GANGWRIGHT_CHECKPOINT; every GANGWRIGHT_CHECKPOINT_EVERY seconds, if that is greater than 0."""

    def __init__(self, framework: Plain, progress: Progress) -> None:
        self._framework, self._progress = framework, progress
        folder = os.environ.get("GANGWRIGHT_CHECKPOINT", "")
        self._folder = checkpoint_file.run_folder(folder, os.environ) if folder else ""
        self._every = float(os.environ.get("GANGWRIGHT_CHECKPOINT_EVERY") or 0)
        self._last = time.monotonic()
        self._writer: threading.Thread | None = None

    def perhaps(self, rank: int) -> None:
        """After a commit: writes in the background if it is due and this is rank 0."""
        now = time.monotonic()
        if rank or not self._folder or self._every <= 0 or now - self._last < self._every or self.saving:
            return
        self._begin(later=False)

    def hold(self) -> None:
        """While the training waits: writes the last commit in the background, unless the folder has a checkpoint of
        that step or a later one.
        """
        if not (self._folder and self._progress.committed) or self.saving:
            return
        self._begin(later=True)

    @property
    def saving(self) -> bool:
        """Whether a file is being written in the background."""
        return self._writer is not None and self._writer.is_alive()

    def write(self) -> None:
        """Writes the last commit now. Raises CheckpointError: the caller must not continue as if the file existed."""
        self.finish()
        try:
            if not self._folder:
                raise CheckpointError("no checkpoint folder. Set checkpoint.path of the job")
            self._write(self._content())
        except CheckpointError as error:
            raise CheckpointError(
                f"the state of step {self._progress.committed} is not saved: {error}"
            ) from error

    def read(self, path: str) -> bool:
        """Restores the state and the counters from a file, or from the newest one of this run in a folder.

        False if this run has none there: nothing was saved yet. Raises CheckpointError if the file cannot be used.
        """
        whence = (
            path if path.endswith(checkpoint_file.SUFFIX) else checkpoint_file.run_folder(path, os.environ)
        )
        found = checkpoint_file.read(whence)
        if found is None:
            say(f"nothing to restore: no checkpoint in {whence}. The training starts from the beginning")
            return False
        head, text, arrays = found
        self._framework.load(state_codec.unpack(text, arrays))
        self._progress.moved(int(head["step"]), int(head["samples"]))
        self._progress.epoch_length = int(head.get("epoch_length", 0))
        say(f"restored step {head['step']} from {whence}")
        return True

    def finish(self) -> None:
        """Waits until the current file is written."""
        if self._writer is not None:
            self._writer.join()

    def _begin(self, *, later: bool) -> None:
        """Starts a write that is not on request. If it fails, the error is logged and the training continues."""
        self._last = time.monotonic()
        try:
            content = self._content()
        except CheckpointError as error:
            say(str(error))
            return
        self._writer = threading.Thread(
            target=self._quietly, args=(content,), kwargs={"later": later}, daemon=True
        )
        self._writer.start()

    def _quietly(self, content: Content, *, later: bool) -> None:
        """later: only if the folder has no file of this step or a later one."""
        try:
            former = checkpoint_file.newest(self._folder) if later else None
            if former is None or former.step < content[0]["step"]:
                self._write(content)
        except CheckpointError as error:
            say(str(error))

    def _content(self) -> Content:
        progress = self._progress
        head = {
            "step": progress.committed,
            "samples": progress.committed_samples,
            "epoch_length": progress.epoch_length,
        }
        return (head, *state_codec.pack(self._framework.export(), self._framework.as_array))

    def _write(self, content: Content) -> None:
        step = content[0]["step"]
        path = checkpoint_file.write(self._folder, step, *content)
        self._progress.ours["checkpoint_step"] = float(step)
        say(f"saved step {step} to {path}")
