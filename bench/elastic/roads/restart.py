"""Checkpoint and restart: an ordinary Horovod job saves and ends, and is started again at the other size."""

import tempfile
from pathlib import Path

from bench.elastic.following import Output
from bench.elastic.roads.launched import Launched
from bench.elastic.roads.turn import START, Turn, Watch, summed


class Restart:
    name = "restart"

    def __init__(self, python: Path, model: str, pause: float) -> None:
        self._python, self._model, self._pause = python, model, pause

    def turn(self, low: int, high: int) -> Turn:
        with tempfile.TemporaryDirectory(prefix="gangwright-bench-") as place:
            folder = Path(place)
            output = Output(lambda: sorted(folder.glob("worker-*/main-*.log")))
            for size in (low, high, low):
                self._until_stopped(folder, output, size)
            return summed(self.name, output.lines, low, high)

    def _until_stopped(self, folder: Path, output: Output, size: int) -> None:
        """Ends as the launcher ends: the next start is nobody's wait but the launcher's own."""
        stop = folder / "stop"
        stop.unlink(missing_ok=True)
        words = ["--model", self._model, "--restart", folder]
        with Launched(self._python, folder, ["-np", size], "$HOROVOD_RANK", words) as running:
            Watch(output, self._model, self._pause, lambda: running.alive).settled(size, len(output.lines))
            stop.touch()
            output.until(lambda: not running.alive, START, "the job to save and end")
