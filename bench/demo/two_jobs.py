"""Two elastic jobs on six slots, as act 7 shows them: what happens, and what is seen of it while it does.

Pods are processes of this machine here (`bench.plane.kubelet`), and the training is real: forward, backward, allreduce.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from bench.demo import training
from bench.demo.palette import Palette
from bench.demo.record import PATIENCE, Record
from bench.demo.screen import indented
from bench.demo.slots import Span, busy, by_second
from bench.demo.stage import Stage
from bench.demo.training import JOBS, History
from bench.elastic.jobs import SCRIPT, STEP_SECONDS, Jobs, in_phase, job, of_size
from bench.plane import Fleet, where
from bench.plane.client import Object
from bench.plane.kubelet import Kubelet

PLACE = "elastic"
SLOTS = Fleet(nodes_per_rack=6, gpus=1, cpu="8")
ROOM = SLOTS.nodes_per_rack * SLOTS.gpus

FIRST, SECOND = "first", "second"
FIRST_SIZE = 4
SECOND_LEAST, SECOND_MOST = 2, 4
BATCH = 16
"""Samples of a worker in a step."""
FIRST_STEPS = 15
"""So many, and the first job ends: 3 s of 0.2 s."""
MORE_STEPS = 10
"""So many steps of the second at its full size, and the story is over."""
FOREVER = 100_000

OWNED = ("networking.k8s.io/v1/networkpolicies", "pods")
"""What an elastic job has besides itself."""

FRAMES = 2
"""Pictures a second on a terminal."""
LINES = 5.0
"""Seconds between two lines elsewhere."""
COLUMNS = 72
"""Most of the picture: a second each, or more seconds where it takes longer."""

PALETTE = Palette((FIRST, SECOND), {FIRST: "A", SECOND: "B"})


Processes = dict[str, list[int]]
"""Pod → its processes, as this machine numbers them."""


class Story:
    """What happens in the act, and what is seen of it."""

    def __init__(self, stage: Stage, record: Record, history: History, kubelet: Kubelet) -> None:
        self.stage, self.record, self.history, self.kubelet = stage, record, history, kubelet
        self.jobs = Jobs(stage.api, PLACE, kubelet)
        self.clock = asyncio.get_running_loop().time
        self.began = self.clock()
        self.steps: dict[str, list[Object]] = {FIRST: [], SECOND: []}
        self.left: list[str] = []

    async def play(self) -> tuple[Processes, Processes]:
        """The processes of the second job's quorum, before it grew and after."""
        await self.stage.api.create(where("serviceaccounts", PLACE), {"metadata": {"name": "default"}})
        async with self._shown():
            before = await self._both_train()
            after = await self._grown()
        self.stage.console.print(indented(self.picture()))
        await self.read()
        return before, after

    async def _both_train(self) -> Processes:
        """The processes of the second job's quorum, which begins to train."""
        await self.jobs.submit(self._job(FIRST, FIRST_SIZE, FIRST_SIZE, FIRST_STEPS))
        await self.record.until(lambda r: r.bound(FIRST) == FIRST_SIZE, f"{FIRST} has its seats")
        await self.jobs.submit(self._job(SECOND, SECOND_LEAST, SECOND_MOST, FOREVER))
        await self.jobs.until_step(SECOND, lambda step: step["size"] == SECOND_LEAST)
        return await self.processes()

    async def _grown(self) -> Processes:
        """The same once it has trained on all that it can use, after the first one's end."""
        await self.jobs.until(FIRST, in_phase("Succeeded", "Failed"))
        await self.jobs.until(SECOND, of_size(SECOND_MOST))
        full = await self.jobs.until_step(SECOND, lambda step: step["size"] == SECOND_MOST)
        await self.jobs.until_step(SECOND, lambda step: step["step"] >= full["step"] + MORE_STEPS)
        return await self.processes()

    @staticmethod
    def _job(name: str, least: int, most: int, steps: int) -> Object:
        words = ("--steps", steps, "--epochs", FOREVER, "--step-time", STEP_SECONDS, "--batch", BATCH)
        return job(name, least, most, SCRIPT, *words, serviceAccountName="default")

    async def processes(self) -> Processes:
        """Pod of the second job's quorum → the processes in it."""
        names = [seen.name for seen in self.record.here(SECOND) if not seen.surplus]
        return {name: await asyncio.to_thread(self.kubelet.pids, f"{PLACE}/{name}") for name in names}

    async def read(self) -> None:
        self.steps = {name: await self.jobs.steps(name) for name in (FIRST, SECOND)}

    def first_steps(self) -> dict[str, float]:
        """Pod → when it made its first step, by the record's clock."""
        shift = self.clock() - time.time_ns() / 1e9
        begun = training.begun(step for steps in self.steps.values() for step in steps)
        return {pod: at + shift for pod, at in begun.items()}

    # ── what is seen while it goes on ───────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def _shown(self) -> AsyncIterator[None]:
        show = asyncio.create_task(self._show())
        try:
            yield
        finally:
            show.cancel()
            await asyncio.gather(show, return_exceptions=True)

    async def _show(self) -> None:
        if not self.stage.live:
            while True:
                await asyncio.sleep(LINES)
                await self.read()
                self.stage.say(f"  {self.clock() - self.began:5.1f} s  {self.stand()}")
        with Live(console=self.stage.console, auto_refresh=False, transient=True) as live:
            while True:
                await self.read()
                live.update(indented(Group(self.picture(), Text(), Text(self.stand()))), refresh=True)
                await asyncio.sleep(1 / FRAMES)

    def picture(self) -> RenderableType:
        span = Span(self.began, self.clock(), COLUMNS)
        return by_second(SLOTS.names(), self.record.pods.values(), self.first_steps(), PALETTE, span)

    def stand(self) -> str:
        """In a line."""
        slots, present = busy(self.record.present(), self.first_steps(), self.clock()), self.record.present()
        if not slots and present:
            return f"{len(present)} workers import TensorFlow: seconds of processor time each"
        return f"{slots} of {ROOM} slots train   " + "   ".join(map(self._one, self.steps))

    def _one(self, name: str) -> str:
        status = self.history.last(name)
        made = max((step["step"] for step in self.steps[name]), default=0)
        return f"{name}: {status.get('phase', 'not there')}, {status.get('workers', 0)} workers, step {made}"

    def why(self) -> str:
        """How it stands, and each job's own reason for it."""
        reasons = [f"{name}: {self.history.last(name).get('reason', 'no status')}" for name in self.steps]
        return "; ".join([self.stand(), *reasons])

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────

    async def remove(self) -> None:
        """Deletes the jobs, and what belongs to them as the garbage collector would, which does not run here; notes
        what stays.
        """
        for kind in (JOBS, *OWNED):
            await self.stage.api.delete_all(where(kind, PLACE))
        deadline = self.clock() + PATIENCE
        while (objects := await self._objects()) and self.clock() < deadline:
            await asyncio.sleep(0.05)
        uids = [seen.uid for seen in self.record.pods.values()]
        self.left = objects + [f"process {number}" for number in await asyncio.to_thread(running, uids)]

    async def _objects(self) -> list[str]:
        things = [
            thing for kind in (JOBS, *OWNED) for thing in await self.stage.api.items(where(kind, PLACE))
        ]
        return [thing["metadata"]["name"] for thing in things]


def running(uids: Iterable[str], proc: Path = Path("/proc")) -> list[str]:
    """Numbers of the processes of this machine whose environment names one of these pods."""
    wanted = {f"GANGWRIGHT_POD_UID={uid}".encode() for uid in uids}
    found = []
    for place in proc.glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "environ").read_bytes().split(b"\0")
            if wanted.intersection(words):
                found.append(place.name)
    return found
