"""What the examples in tests/stories/elastic/scripts/examples wrote down, read and judged.

Each judgment is a list of sentences that say what is wrong; it is empty where nothing is. What the files are, the
script example_diary.py says.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Step = dict[str, Any]

OWN = ("set-up", "steps", "weights", "end")
"""What every process writes. All other files are a writer's."""

TOKEN = 12
"""Characters of a process's token."""

CLOSE = 1e-5
"""How far weights may be from each other. Two runs of stock Horovod differ by 1e-7."""


@dataclass
class Process:
    """What one process wrote down."""

    token: str
    heard: tuple[int, int] = (-1, 0)
    """Rank and size while it set up."""
    steps: list[Step] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)
    end: dict[str, int] | None = None

    @property
    def rank(self) -> int:
        """At the end; that of its last step where it was killed, or what it heard where it made none."""
        last = self.end or (self.steps[-1] if self.steps else {"rank": self.heard[0]})
        return int(last["rank"])

    def sequence(self) -> list[list[int]]:
        return [step["samples"] for step in self.steps]


@dataclass
class Diary:
    """What all processes of one training wrote down."""

    processes: list[Process]
    writers: set[str]
    """The tokens of those that wrote what only a writer writes."""

    def by_rank(self) -> dict[int, Process]:
        return {process.rank: process for process in self.processes}


def read(folder: Path) -> Diary:
    """All that there is so far."""
    found: dict[str, Process] = {}
    writers = set()
    for place in sorted(folder.iterdir()):
        kind, *words = place.name.split(".")
        token = next(filter(_is_token, words), "")
        if not token:
            continue
        if kind not in OWN:
            writers.add(token)
            continue
        process = found.setdefault(token, Process(token))
        if kind == "weights":
            with np.load(place) as kept:
                process.weights = [kept[name] for name in kept.files]
            continue
        lines = [json.loads(line) for line in place.read_text().splitlines()]
        if kind == "steps":
            process.steps = trained(lines)
        elif kind == "set-up":
            process.heard = lines[0]["rank"], lines[0]["size"]
        else:
            process.end = lines[0]
    return Diary(sorted(found.values(), key=lambda own: own.rank), writers)


def trained(steps: list[Step]) -> list[Step]:
    """The steps without those that were only rehearsed.

    A process trains steps in a row, from the one at which it joins. A rehearsal is of the very first step. So where the
    process joins later, a gap follows. Where it joins at once, the same step takes the rehearsal's place.
    """
    steps = sorted(steps, key=lambda own: int(own["step"]))
    first = 0
    for place in range(1, len(steps)):
        if steps[place]["step"] != steps[place - 1]["step"] + 1:
            first = place
    return steps[first:]


def one_for_each_rank(diary: Diary, size: int) -> list[str]:
    """So many processes, each of which had one and the same place from its set-up to its end."""
    found = []
    ranks = sorted(process.rank for process in diary.processes if process.steps)
    if ranks != list(range(size)):
        found.append(f"the ranks are {ranks}")
    for process in diary.processes:
        places = {(step["rank"], step["size"]) for step in process.steps}
        if places != {(process.rank, size)}:
            found.append(f"rank {process.rank} trained as (rank, size) {sorted(places)}")
        if process.heard != (process.rank, size):
            found.append(f"rank {process.rank} heard (rank, size) {process.heard} while it set up")
    return found


def one_writer(diary: Diary) -> list[str]:
    """Rank 0 wrote, and no other process."""
    ranks = sorted(process.rank for process in diary.processes if process.token in diary.writers)
    return [] if ranks == [0] else [f"the ranks that wrote are {ranks}"]


def all_divided(steps: Iterable[Step], samples: int, padding: int) -> list[str]:
    """In every epoch each sample is trained, and of all samples at most so many once more."""
    found = []
    for epoch, taken in sorted(_by_epoch(steps).items()):
        counts = Counter(taken)
        again = sum(counts.values()) - len(counts)
        if missed := samples - len(counts):
            found.append(f"epoch {epoch}: {missed} of {samples} samples were not trained")
        if again > padding:
            found.append(f"epoch {epoch}: {again} samples were trained once more, where {padding} may be")
        if max(counts.values()) > 2:
            found.append(f"epoch {epoch}: a sample was trained {max(counts.values())} times")
    return found


def apart(steps: Iterable[Step], padding: int = 0) -> list[str]:
    """In each step the ranks train samples of their own."""
    taken: dict[int, list[int]] = defaultdict(list)
    for step in steps:
        taken[step["step"]] += step["samples"]
    shared = [number for number, each in taken.items() if len(each) - len(set(each)) > padding]
    return [f"{len(shared)} steps train samples on two ranks, the first is {shared[0]}"] if shared else []


def all_made(steps: Iterable[Step]) -> list[str]:
    """Every step up to the last but one, which all ranks of its size have made."""
    ranks, sizes = defaultdict(list), {}
    for step in steps:
        ranks[step["step"]].append(step["rank"])
        sizes[step["step"]] = step["size"]
    wanted = [
        number for number in range(max(ranks)) if sorted(ranks[number]) != [*range(sizes.get(number, 1))]
    ]
    return [f"{len(wanted)} steps are not made by all ranks, the first is {wanted[0]}"] if wanted else []


def as_long_as(diary: Diary, stock: Diary) -> list[str]:
    """Every process made as many steps as stock's of its rank, and says so itself."""
    wanted = {rank: len(process.steps) for rank, process in stock.by_rank().items()}
    found = []
    for process in diary.processes:
        said = process.end and process.end["steps"]
        if not len(process.steps) == said == wanted.get(process.rank):
            found.append(
                f"rank {process.rank} made {len(process.steps)} steps and says {said}, "
                f"stock {wanted.get(process.rank)}"
            )
    return found


def same_samples(diary: Diary, stock: Diary) -> list[str]:
    """Every rank trained what stock's trained, in the same order."""
    wanted = {rank: process.sequence() for rank, process in stock.by_rank().items()}
    return [
        f"rank {process.rank} trained other samples than stock's"
        for process in diary.processes
        if process.sequence() != wanted.get(process.rank)
    ]


def same_weights(diary: Diary, stock: Diary) -> list[str]:
    """Every rank ends with the weights of stock's."""
    found = []
    theirs = stock.by_rank()
    for process in diary.processes:
        other = theirs.get(process.rank, Process("none"))
        if [one.shape for one in process.weights] != [one.shape for one in other.weights]:
            found.append(
                f"rank {process.rank} has {len(process.weights)} weights, stock {len(other.weights)}"
            )
            continue
        most = max(float(np.abs(a - b).max()) for a, b in zip(process.weights, other.weights, strict=True))
        if not most <= CLOSE:
            found.append(f"rank {process.rank}: weights are {most:.2g} from stock's")
    return found


def effective(diary: Diary) -> list[Step]:
    """The steps that count, one for each rank and number, by number.

    A step that was taken back and then made by others, of another size or after a whole new start, counts as it was
    made last.
    """
    by_number: dict[int, list[tuple[float, str, Step]]] = defaultdict(list)
    for process in diary.processes:
        for step in process.steps:
            by_number[step["step"]].append((step["at"], process.token, step))
    counted = []
    for _, each in sorted(by_number.items()):
        each.sort(key=lambda own: own[0], reverse=True)
        size, newest = each[0][2]["size"], {}
        for _, _, step in each:
            if step["size"] == size:
                newest.setdefault(step["rank"], step)
        counted += [newest[rank] for rank in sorted(newest)]
    return counted


def by_size(steps: Iterable[Step]) -> dict[int, list[Step]]:
    """The steps of those epochs in which the size did not change. The last epoch, which may go on, is left out."""
    sizes: dict[int, set[int]] = defaultdict(set)
    steps = list(steps)
    for step in steps:
        sizes[step["epoch"]].add(step["size"])
    known = {epoch: size for epoch, (size, *more) in sizes.items() if not more and epoch < max(sizes)}
    found: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        if step["epoch"] in known:
            found[known[step["epoch"]]].append(step)
    return dict(found)


def _by_epoch(steps: Iterable[Step]) -> dict[int, Collection[int]]:
    epochs: dict[int, list[int]] = defaultdict(list)
    for step in steps:
        epochs[step["epoch"]] += step["samples"]
    return dict(epochs)


def _is_token(word: str) -> bool:
    return len(word) == TOKEN and set(word) <= set("0123456789abcdef")
