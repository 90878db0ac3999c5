"""An ElasticJob on the whole plane; its `scale` is patched, as `kubectl scale` does."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.elastic.jobs import job
from bench.elastic.roads.turn import Turn, Watch, summed
from bench.elastic.stage import NAMESPACE, Stage
from bench.plane import where

LOOK: Final = 5.0
"""Seconds over which the agents' processor time is taken."""

SCRIPT: Final = Path(__file__).parents[1] / "training.py"


class Ours:
    name = "gangwright"

    def __init__(self, stage: Stage, model: str, pause: float) -> None:
        self._stage, self._model, self._pause = stage, model, pause
        self._turns = 0

    def turn(self, low: int, high: int) -> Turn:
        self._turns += 1
        name = f"turn-{self._model}-{high}-{self._turns}"
        watch = Watch(self._stage.output(name), self._model, self._pause)
        command = (SCRIPT, "--model", self._model)
        self._stage.submit(job(name, low, high, *command, spec={"workers": low}))
        try:
            seen = watch.settled(low)
            self._stage.scale(name, high)
            seen = watch.settled(high, seen)
            agents = self._agents(name)
            self._stage.scale(name, low)
            watch.settled(low, seen)
        finally:
            self._stage.delete(name)
        return replace(summed(self.name, watch.output.lines, low, high), agents=agents)

    def _agents(self, name: str) -> float:
        """Processor seconds a second of one agent: the first process of each pod that runs. On a machine with more
        workers than cores one may seem slow, and what is to replace it waits for a slot.
        """
        api, labels = self._stage.api, f"gangwright.io/elastic-job={name}"
        pods = self._stage.run(api.items(where("pods", NAMESPACE), labels=labels))
        running = (pod for pod in pods if pod.get("status", {}).get("phase") == "Running")
        pids = [pid for pod in running for pid in self._stage.kubelet.pids(pod)[:1]]
        before, began = spent(pids), time.monotonic()
        time.sleep(LOOK)
        return (spent(pids) - before) / (time.monotonic() - began) / len(pids)


def spent(pids: Sequence[int]) -> float:
    """Processor seconds of these processes so far, without their children's."""
    ticks = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])  # utime and stime, fields 14 and 15 of the whole line
    return ticks / os.sysconf("SC_CLK_TCK")
