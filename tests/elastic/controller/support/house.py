"""The master at work against the small API server: its watches, controllers and desk, without sockets for workers.

`House.open` begins as a process does: every list is read first. `close` ends as SIGKILL does, as far as the API server
can
see: nothing is said any more.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from scheduler.clock import steady
from scheduler.elastic.controller import job_registry, requests
from scheduler.elastic.controller.elastic_master import keep_seeing
from scheduler.elastic.controller.job_metrics import JobMetrics
from scheduler.elastic.controller.job_registry import JobRegistry, WorkerHandler
from scheduler.elastic.controller.pod_control import Site
from scheduler.elastic.controller.pod_template import Kit
from scheduler.elastic.controller.request_retry import RequestRetry
from scheduler.elastic.reconciler import Timeouts, job_events
from scheduler.elastic.rendezvous.kv_store import Values
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.kube.watch import Freshness, Reflector
from scheduler.settings import Confinement, Workers
from scheduler.telemetry.elastic_metrics import ElasticMetrics
from tests.kube.support.follower import until
from tests.kube.support.kubeconfig import kubeconfig
from tests.kube.support.writable import Writable

JOBS, PODS, NODES = requests.JOBS, requests.PODS, requests.NODES
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "tf", "command": ["python", "train.py"]}]}}
KIT = Kit("https://rendezvous.example:10273", "PEM", settings=Workers(image="gangwright:test"))
LIMITS = Timeouts(coalesce=0.0, stand=0.0, settle=0.2, newcomers=0.2, again=0.5)
"""So that a test does not wait for what is about people's patience."""


def world() -> Writable:
    return Writable(JOBS, PODS, NODES, requests.POLICIES, requests.EVENTS)


class Told(Values):
    """What the rendezvous is told of rounds and jobs."""

    def __init__(self) -> None:
        super().__init__(keys=1, size=1, total=1)
        self.all_met: list[tuple[str, int]] = []
        self.all_broken: list[tuple[str, int]] = []
        self.forgotten: list[str] = []

    def met(self, job: str, number: int) -> None:
        self.all_met.append((job, number))

    def broken(self, job: str, number: int) -> None:
        self.all_broken.append((job, number))

    def forget(self, job: str) -> None:
        self.forgotten.append(job)


class House:
    """One master process."""

    def __init__(self, api: Writable, folder: Path, **settings: Any) -> None:
        self.api = api
        self.metrics = ElasticMetrics()
        self.counting = JobMetrics(self.metrics)
        confine = settings.pop("confinement", Confinement.INGRESS)
        self._kit = replace(KIT, settings=replace(KIT.settings, confine=confine))
        self.blind_after = settings.pop("blind_after", 10.0)
        self.master = JobRegistry(self.counting, **{"limits": LIMITS, "taints": ("going",), **settings})
        self.leading = True
        self.seeing = True
        self._folder = folder
        self._tasks: list[asyncio.Task[Any]] = []
        self.actors: list[Any] = []
        self.values = Told()

    async def __aenter__(self) -> Self:
        self._client = Client(await find_access(kubeconfig(self._folder, self.api.url)))
        watches = {name: Reflector(self._client, *watch) for name, watch in self.master.watches().items()}
        running = [watch.run() for watch in watches.values()]
        of_pods = {name: each for name, each in watches.items() if name.startswith(job_registry.PODS)}
        sight = Freshness(self._client, of_pods)
        running += [keep_seeing(self.master, sight, self.blind_after, sleep=lambda _: asyncio.sleep(0.02))]
        self._tasks = [asyncio.create_task(one) for one in running]
        await until(lambda: self.master.synced)
        self.trying = RequestRetry(
            self._client,
            asyncio.Semaphore(16),
            least=0.01,
            most=0.05,
            counted=lambda *what: self.metrics.writes_total.labels(*what).inc(),
            acting=lambda: self.leading,
        )
        self.handler = WorkerHandler(
            self.master,
            leading=lambda: self.leading,
            seeing=lambda: self.seeing and sight.stands(steady()),
            interval=1.0,
        )
        self.master.begin(Site(self.trying, self._kit, steady, self.values))
        return self

    async def __aexit__(self, *_: object) -> None:
        for actor in self.actors:
            actor.kill()
        self.master.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._client.close()
        for task in self._tasks:
            if not task.cancelled():
                task.result()  # a sink must not raise

    # What a test looks at

    def controller(self, name: str = "train") -> Any:
        return next(c for c in self.master.controllers.values() if c.owner.name == name)

    def seated(self, uid: str) -> bool:
        """The master has heard that this worker has its node."""
        controller = self.master.controller_of(uid)
        return controller is not None and bool(controller.workers[uid].seen.node)

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"gangwright_elastic_{name}", labels) or 0.0

    async def until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait for it; figures are written into the status meanwhile."""
        async with asyncio.timeout(seconds):
            for turn in itertools.count():
                if condition():
                    return
                if turn % 10 == 0:
                    for controller in list(self.master.controllers.values()):
                        controller.refresh()
                await asyncio.sleep(0.005)


def job(api: Writable, name: str = "train", namespace: str = "team", **spec: Any) -> dict[str, Any]:
    """Somebody creates, or changes, an ElasticJob."""
    known = api.objects[JOBS].get((namespace, name))
    wanted = {"minWorkers": 2, "maxWorkers": 4, "template": TEMPLATE, **spec}
    if known is None:
        return api.make(JOBS, namespace, name, spec=wanted)
    generation = known["metadata"].get("generation", 1) + 1
    gone = dict.fromkeys(known["spec"].keys() - wanted.keys())
    return api.change(JOBS, namespace, name, spec=gone | wanted, metadata={"generation": generation})


def status(api: Writable, name: str = "train", namespace: str = "team") -> dict[str, Any]:
    found = api.objects[JOBS][namespace, name].get("status")
    return found or {}


def pods(api: Writable, name: str = "train") -> list[dict[str, Any]]:
    """The job's pods, by number."""
    mine = [
        pod
        for pod in api.objects[PODS].values()
        if pod["metadata"]["labels"].get("gangwright.io/elastic-job") == name
    ]
    return sorted(mine, key=lambda pod: int(pod["metadata"]["annotations"]["gangwright.io/elastic-number"]))


def seat(api: Writable, pod: dict[str, Any], node: str = "n0") -> str:
    """The scheduler seats it, kubelet runs it; gives its uid."""
    meta = pod["metadata"]
    api.change(
        PODS,
        meta["namespace"],
        meta["name"],
        spec={"nodeName": node, "schedulingGates": None},
        status={"phase": "Running"},
    )
    return str(meta["uid"])


def beat(uid: str, **told: Any) -> job_events.Beat:
    return job_events.Beat(uid, **{"phase": "Training", **told})


class Actor:
    """A worker as the agent plays it: it beats, stands at the barrier when a newer round is announced, and trains."""

    EVERY = 0.03
    """Seconds between two beats."""

    def __init__(self, house: House, uid: str) -> None:
        self.house = house
        self.uid = uid
        self.told: list[Any] = []
        """Every assignment, in order."""
        self.step = 0
        self._task = asyncio.create_task(self._live())

    @property
    def round(self) -> int:
        return self.told[-1].round if self.told else 0

    def kill(self) -> None:
        """It vanishes."""
        self._task.cancel()

    async def leave(self) -> None:
        await self.house.handler.leave(job_events.Leaving(self.uid, grace_s=20.0))

    async def _live(self) -> None:
        await self.house.until(lambda: self.house.seated(self.uid))
        beating = asyncio.create_task(self._beat())
        try:
            while not self.told or not self.told[-1].removed:
                await self._meet()
                await self._train()
        finally:
            beating.cancel()

    async def _meet(self) -> None:
        why = "announced" if self.told else "newcomer"
        while True:
            arrived = job_events.Arrived(self.uid, self.round, self.step, self.step, why)
            found = await self.house.handler.ready(arrived, 0.5)
            if found is not None:
                self.told.append(found)
                return

    async def _train(self) -> None:
        """Until a newer round is announced."""
        while not self.told[-1].removed:
            self.step += 1
            if await self.house.handler.announced(self.uid, self.round, self.EVERY) > self.round:
                return

    async def _beat(self) -> None:
        while True:
            phase = "Training" if self.told else "Ready"
            told = beat(
                self.uid,
                phase=phase,
                round=self.round,
                step=self.step,
                committed=self.step,
                samples=32.0 * self.step,
            )
            await self.house.handler.beat(told)
            await asyncio.sleep(self.EVERY)


async def train(house: House, count: int, name: str = "train") -> list[Actor]:
    """The job's first pods are seated and train, in one round of so many."""
    await house.until(lambda: len(pods(house.api, name)) >= count)
    actors = [Actor(house, seat(house.api, pod)) for pod in pods(house.api, name)[:count]]
    house.actors += actors
    await house.until(lambda: all(actor.told and actor.told[-1].size == count for actor in actors))
    return actors
