"""The life of one pod on one of our nodes: what a kubelet does from its bind to its last line in the API.

Init containers in order, then all containers; restarts by policy; SIGTERM, grace and SIGKILL when it is deleted.
"""

import asyncio
import itertools
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

from bench.plane.client import Object, key
from bench.plane.errors import ApiError
from bench.plane.kubelet import probes
from bench.plane.kubelet.container import LOST, Container, Order, StartError
from bench.plane.kubelet.environment import Addresses, ConfigError
from bench.plane.kubelet.ground import AGAIN, Ground, now
from bench.plane.kubelet.images import Image
from bench.plane.kubelet.orders import Orders
from bench.plane.kubelet.status import OOM, State, restarts
from bench.plane.kubelet.telling import ENDED, Teller
from bench.plane.kubelet.volumes import Volumes
from bench.plane.kubelet.written import Written

BACKOFF = (0.5, 5.0)
"""Seconds before a container is started again, or an image asked for again: at first, and the most; doubled each time.
A real kubelet's are 10 and 300; nobody here learns anything by waiting that long."""

SHORTEST_GRACE = 1.0
"""Seconds that a pod has whose object is gone without warning."""

START_FAILED = 128
"""The exit code of a command that could not be started, as container runtimes report it."""

UNKNOWN = "ContainerStatusUnknown"
NEVER_SEEN = "The container could not be located when the pod was terminated"


class Life:
    """Of one pod: `begin`, then `seen` for every change of its object and `vanished` when that is gone."""

    def __init__(self, ground: Ground, pod: Object, ip: str) -> None:
        self.pod = pod
        self.containers: dict[str, Container] = {}
        """Those that run now, by name."""
        self.written: dict[Path, Written] = {}
        """By its log: when each run wrote what."""
        self._ground = ground
        addresses = Addresses(ip, ground.host)
        uid = pod["metadata"]["uid"]
        folder = ground.folder / "pods" / uid
        self.logs = ground.folder / "logs" / f"{key(pod).replace('/', '_')}_{uid}"
        self._policy: str = pod["spec"].get("restartPolicy", "Always")
        self._inits = [State(own["name"], own["image"]) for own in pod["spec"].get("initContainers", ())]
        self._mains = [State(own["name"], own["image"]) for own in pod["spec"]["containers"]]
        self._volumes = Volumes(ground.api, pod, folder / "volumes", addresses)
        self._orders = Orders(ground, pod, addresses, self._volumes, folder, self.logs)
        self._teller = Teller(ground.api, pod, addresses, self._inits, self._mains)
        self._ip = ip
        self._killed_for_memory: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._runs: set[asyncio.Task[int]] = set()
        self._main: asyncio.Task[Any] | None = None
        self._ending: asyncio.Task[Any] | None = None
        self._deadline = float("inf")
        self._sooner = asyncio.Event()

    # ── what happens to it ──────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Runs it, unless it has ended already. A pod that ran under a kubelet before us is lost."""
        before = self.pod.get("status", {}).get("phase")
        if before not in ENDED:
            self._task(self._teller.tell_on())
            self._main = self._task(self._live(lost=before == "Running"))
        self.seen(self.pod)

    def seen(self, pod: Object) -> None:
        """The newest picture of its object."""
        self.pod = self._teller.pod = pod
        if "deletionTimestamp" in pod["metadata"]:
            self._end_within(pod["metadata"].get("deletionGracePeriodSeconds") or 0)

    def vanished(self) -> None:
        """Its object is gone; whatever still runs ends."""
        self._teller.silent = True
        self._end_within(SHORTEST_GRACE)

    async def cut(self) -> None:
        """The machine under it is dead: SIGKILL to everything, and not a word to anybody."""
        self._teller.silent = self._teller.stopped = True
        if self._main is not None:
            self._main.cancel()
        self.signal(signal.SIGKILL)
        await asyncio.gather(*self._runs)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def signal(self, number: int, container: str = "", *, all_: bool = False, memory: bool = False) -> bool:
        """Sends a signal to its containers, or to the one of that name. Whether a process was there to get it.

        all_: to every process in them, not to the first alone. memory: its end is told as one for want of memory.
        """
        got = False
        for name, own in list(self.containers.items()):
            if container in {"", name}:
                self._killed_for_memory |= {name} if memory else set()
                got |= (own.signal_all if all_ else own.signal)(number)
        return got

    def runs(self, container: str) -> list[Path]:
        """The logs of a container's runs, the first one first."""
        found = self.logs.glob(f"{container}-*.log")
        numbered = {file.stem.removeprefix(f"{container}-"): file for file in found}
        return [numbered[text] for text in sorted(filter(str.isdecimal, numbered), key=int)]

    @property
    def alive(self) -> bool:
        """Whether a process of it runs."""
        return any(own.alive for own in list(self.containers.values()))

    @property
    def busy(self) -> bool:
        """Whether anything of it still goes on."""
        return bool(self._tasks or self._runs)

    async def renew_tokens(self) -> None:
        """Every token in its volumes anew."""
        await self._volumes.renew_now()

    # ── its life ────────────────────────────────────────────────────────────────────────────────────────

    async def _live(self, *, lost: bool) -> None:
        self._teller.changed()
        if lost and not self._may_go_on():
            return
        self.logs.mkdir(parents=True, exist_ok=True)
        for state in self._mains if self._inits else ():
            state.wait("PodInitializing")
        await self._insist(self._volumes.prepare, self._inits or self._mains, "ContainerCreating")
        self._teller.placed = True
        self._task(self._volumes.renew())
        for said, state in zip(self.pod["spec"].get("initContainers", ()), self._inits, strict=True):
            if await self._serve(said, state, "OnFailure" if self._policy == "Always" else self._policy):
                return
        for state in self._mains:
            state.wait("ContainerCreating")
        async with asyncio.TaskGroup() as all_:
            for said, state in zip(self.pod["spec"]["containers"], self._mains, strict=True):
                all_.create_task(self._serve(said, state, self._policy))

    def _may_go_on(self) -> bool:
        """Whether its lost containers are started again."""
        for state in (*self._inits, *self._mains):
            state.end(LOST, now(), UNKNOWN, NEVER_SEEN)
        return restarts(self._policy, LOST)

    async def _serve(self, said: Object, state: State, policy: str) -> int:
        """Runs a container until it is not started any more; its last exit code."""
        for number, pause in enumerate(_pauses()):
            code = await self._run(said, state, number)
            if not restarts(policy, code):
                return code
            state.wait("CrashLoopBackOff", f"back-off {pause:g}s restarting failed container={said['name']}")
            self._teller.changed()
            await asyncio.sleep(pause)
        raise AssertionError

    async def _run(self, said: Object, state: State, number: int) -> int:
        """One run. It goes on when we are cancelled; whoever does that finds it in `_runs`."""
        image = await self._pulled(said, state)
        orders: list[Order] = []

        async def ordered() -> None:
            orders.append(await self._orders.of(said, image, number))

        await self._insist(ordered, [state], "CreateContainerConfigError")
        run = asyncio.create_task(self._whole(said, state, orders[0]))
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)
        return await asyncio.shield(run)

    async def _whole(self, said: Object, state: State, order: Order) -> int:
        try:
            container = await Container.start(order)
        except StartError as error:
            state.end(START_FAILED, now(), "StartError", str(error))
            self._teller.changed()
            return START_FAILED
        self.containers[state.name] = container
        written = self.written[Path(order.log)] = Written(Path(order.log))
        noted = self._task(written.keep())
        state.run(now())
        if self._teller.stopped:
            container.signal(signal.SIGKILL)
        give_up = self._giver_up(container)
        asked = self._task(probes.watch(said, container, state, self._ip, self._teller.changed, give_up))
        code = await container.wait()
        asked.cancel()
        noted.cancel()
        written.look()
        del self.containers[state.name]
        state.end(code, now(), OOM if state.name in self._killed_for_memory else "")
        self._killed_for_memory.discard(state.name)
        self._teller.changed()
        return code

    def _giver_up(self, container: Container) -> Callable[[], None]:
        """What ends a container whose probes have failed: as if its pod were deleted."""

        async def end() -> None:
            container.signal(signal.SIGTERM)
            with suppress(TimeoutError):
                grace = self.pod["spec"].get("terminationGracePeriodSeconds", 30)
                await asyncio.wait_for(container.wait(), grace)
            container.signal(signal.SIGKILL)

        return lambda: (self._task(end()), None)[1]

    async def _pulled(self, said: Object, state: State) -> Image:
        for pause in _pauses():
            if image := self._ground.images.get(said["image"]):
                return image
            why = f'failed to pull and unpack image "{said["image"]}": not found'
            back_off = f'Back-off pulling image "{said["image"]}": ErrImagePull: {why}'
            for reason, message in (("ErrImagePull", why), ("ImagePullBackOff", back_off)):
                state.wait(reason, message)
                self._teller.changed()
                await asyncio.sleep(pause / 2)
        raise AssertionError

    async def _insist(
        self, step: Callable[[], Coroutine[Any, Any, None]], states: list[State], reason: str
    ) -> None:
        """Does it, again and again while something that it needs is not there, and says so meanwhile."""
        while True:
            try:
                return await step()
            except (ConfigError, ApiError, aiohttp.ClientError) as error:
                for state in states:
                    state.wait(reason, str(error))
                self._teller.changed()
                await asyncio.sleep(AGAIN)

    # ── its end ─────────────────────────────────────────────────────────────────────────────────────────

    def _end_within(self, grace: float) -> None:
        """Ends it within so many seconds; said more than once, the soonest deadline counts."""
        deadline = asyncio.get_running_loop().time() + grace
        if deadline < self._deadline:
            self._deadline = deadline
            self._sooner.set()
        if self._ending is None:
            self._ending = self._task(self._end())

    async def _end(self) -> None:
        self._teller.stopped = True
        if self._main is not None:
            self._main.cancel()
            await asyncio.wait([self._main])
        self.signal(signal.SIGTERM)
        while self._runs:
            await self._wait_until_deadline()
        for state in (*self._inits, *self._mains):
            if state.code is None:
                state.end(LOST, now(), UNKNOWN, NEVER_SEEN)
        await self._teller.tell()
        await self._teller.release()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    async def _wait_until_deadline(self) -> None:
        self._sooner.clear()
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            self.signal(signal.SIGKILL)
        sooner = asyncio.create_task(self._sooner.wait())
        await asyncio.wait(
            {*self._runs, sooner}, timeout=left if left > 0 else None, return_when=asyncio.FIRST_COMPLETED
        )
        sooner.cancel()

    def _task(self, step: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(step)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()):
            self._ground.failures.append(fault)


def _pauses() -> Iterator[float]:
    first, longest = BACKOFF
    return (min(longest, first * 2**number) for number in itertools.count())
