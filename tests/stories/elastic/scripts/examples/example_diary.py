"""What an example keeps for the tests: the samples of each step, what a writer wrote, and the weights at the end.

Every process has files of its own, named by a token of its own, so that two writers never share a name.

    set-up.<token>.json      rank and size as the script heard them while it set up
    steps.<token>.jsonl      a line for each step
    weights.<token>.npz      the weights at the end
    end.<token>.json         rank, size and the number of steps at the end
    <name>.<token>.<suffix>  what only a writer writes

A step is known by its number in the elastic state. A step that was taken back and is taken once more replaces itself.
"""

import argparse
import json
import os
import time
import uuid
from pathlib import Path

import numpy as np


def parser(about):
    """The options that all examples have."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=Path, required=True, help="folder for what the tests read")
    made.add_argument("--seed", type=int, default=1, help="of weights and order")
    made.add_argument("--pause", type=float, default=0.0, help="seconds added to every step")
    return made


class Diary:
    """Of one process."""

    def __init__(self, options, rank, size):
        self._folder, self._pause = options.out, options.pause
        self._token = uuid.uuid4().hex[:12]
        self._steps = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        self._put("set-up.json", [{"rank": rank, "size": size}])

    def place(self, name):
        """The path of a file that only a writer writes."""
        stem, dot, suffix = name.rpartition(".")
        return self._folder / f"{stem}.{self._token}{dot}{suffix}"

    def others(self, name):
        """All files of this name, by whichever process."""
        stem, dot, suffix = name.rpartition(".")
        return sorted(self._folder.glob(f"{stem}.*{dot}{suffix}"))

    def took(self, number, epoch, samples, rank, size):
        """Step `number` trained these samples."""
        said = {"step": number, "epoch": epoch, "rank": rank, "size": size}
        taken = [int(one) for one in samples]
        self._steps[number] = {**said, "samples": taken, "at": time.time_ns() / 1e9}
        self._put("steps.jsonl", self._steps.values())
        time.sleep(self._pause)

    def end(self, weights, steps, rank, size):
        """The training is over."""
        np.savez(self.place("weights.npz"), *(np.asarray(one) for one in weights))
        self._put("end.json", [{"rank": rank, "size": size, "steps": steps}])

    def _put(self, name, lines):
        """All at once: a process may be killed at any time."""
        place = self.place(name)
        fresh = place.with_name(f".{place.name}")
        fresh.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.replace(fresh, place)
