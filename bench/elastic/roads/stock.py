"""Horovod's own elastic driver: `horovodrun --host-discovery-script`; the script's answer is changed."""

import tempfile
from pathlib import Path

from bench.elastic.roads.launched import Launched
from bench.elastic.roads.turn import Turn, Watch, summed


class Stock:
    name = "stock"

    def __init__(self, python: Path, model: str, pause: float) -> None:
        self._python, self._model, self._pause = python, model, pause

    def turn(self, low: int, high: int) -> Turn:
        with tempfile.TemporaryDirectory(prefix="gangwright-bench-") as place:
            folder = Path(place)
            hosts, ask = folder / "hosts", folder / "discover.sh"
            ask.write_text(f"#!/bin/sh\ncat {hosts}\n")
            ask.chmod(0o700)
            _say(hosts, low)
            launch = ["-np", low, "--min-np", low, "--max-np", high, "--host-discovery-script", ask]
            with Launched(self._python, folder, launch, "$$", ["--model", self._model]) as running:
                watch = Watch(running.output, self._model, self._pause, lambda: running.alive)
                seen = watch.settled(low)
                for size in (high, low):
                    _say(hosts, size)
                    seen = watch.settled(size, seen)
                return summed(self.name, watch.output.lines, low, high)


def _say(hosts: Path, slots: int) -> None:
    """All at once: the driver looks every second."""
    fresh = hosts.with_suffix(".new")
    fresh.write_text(f"localhost:{slots}\n")
    fresh.replace(hosts)
