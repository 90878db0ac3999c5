"""Elastic jobs as people submit them, and what is seen of them by stories, benches and the demo. Every wait ends with what it waited for or with the last state
seen.
"""

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.elastic.following import Output
from bench.plane import watches
from bench.plane.client import Client, Object, where
from bench.plane.errors import NeverCameError
from bench.plane.installation import ROOT, SCHEDULER_NAME
from bench.plane.kubelet import Kubelet
from bench.plane.nodes import GPU, Fleet

JOBS = "gangwright.io/v1alpha1/elasticjobs"
SCRIPTS = ROOT / "tests" / "stories" / "elastic" / "scripts"
"""Trainings that the stories submit."""

SCRIPT = Path(__file__).with_name("digits.py")
STOCK = SCRIPTS / "stock.py"
HANGING = SCRIPTS / "hanging.py"
DYING = SCRIPTS / "dying.py"
WAITING = SCRIPTS / "waiting.py"
LATE = SCRIPTS / "late.py"
EXAMPLES = SCRIPTS / "examples"
"""The shapes of Horovod's own elastic examples."""

TRAINING = "training"
"""The image that holds Horovod, with TensorFlow."""

TORCH = "torch"
"""The one that holds it with PyTorch."""

STEP_SECONDS = 0.2
"""A pass is padded to this, so that on a machine with few cores every worker takes as long as on one of its own."""

REAL = (SCRIPT, "--epochs", 10000, "--step-time", STEP_SECONDS, "--batch", 16)
"""A training with TensorFlow and Horovod, for a very long time."""

STANDIN = (SCRIPTS / "plain.py", "--step-time", STEP_SECONDS)
"""The same on Horovod's stand-in: for stories that test the master and the agent, not Horovod."""

START = 200.0
"""Seconds within which a worker trains, on a machine that does much else: TensorFlow alone may take a minute."""

COLLECTIVE = 10.0
"""Seconds: `workers.glooTimeout`. A worker that has to wait for it stands still for longer; a killed worker's end is
seen at once (1 s).
"""

COLLECTED = 60.0
"""Seconds until what a deleted job owns is told to go: at first the garbage collector does not know of such jobs, and
it looks for new kinds every 30 s.
"""

Holds = Callable[[Object], object]


def job(name: str, least: int, most: int, *command: object, spec: Object | None = None, **pod: Any) -> Object:
    """An ElasticJob of one-slot workers. command: of the worker; by default STANDIN."""
    said = command or STANDIN
    container = {
        "name": "main",
        "image": TRAINING,
        "command": ["python", *map(str, said)],
        "resources": {"requests": {"cpu": "1"}, "limits": {GPU: "1"}},
    }
    return {
        "apiVersion": "gangwright.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {
            "minWorkers": least,
            "maxWorkers": most,
            "sizing": {"policy": "offer", "parameters": {"hold": 1}},
            "template": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 20, **pod}},
            **(spec or {}),
        },
    }


def slots(count: int, prefix: str = "slot-") -> Fleet:
    """So many nodes for one worker each."""
    return Fleet(prefix=prefix, nodes_per_rack=count, gpus=1, cpu="8")


class Jobs:
    """The elastic jobs of one namespace."""

    def __init__(self, api: Client, namespace: str, kubelet: Kubelet) -> None:
        self.api = api
        self.namespace = namespace
        self.kubelet = kubelet
        self._outputs: dict[str, Output] = {}

    async def submit(self, thing: Object) -> Object:
        return await self.api.create(where(JOBS, self.namespace), thing)

    async def pod(self, name: str, **spec: Any) -> Object:
        """A single pod of one slot that runs until it is told to go."""
        wait = "trap 'kill $!; exit 0' TERM; sleep 1000000 & wait"
        container = {"name": "main", "image": "plain", "command": ["sh", "-c", wait]}
        container["resources"] = {"requests": {"cpu": "1"}, "limits": {GPU: "1"}}
        whole = {
            "schedulerName": SCHEDULER_NAME,
            "containers": [container],
            "terminationGracePeriodSeconds": 5,
        }
        body = {"metadata": {"name": name}, "spec": {**whole, **spec}}
        return await self.api.create(where("pods", self.namespace), body)

    async def say(self, name: str, **spec: Any) -> Object:
        """Changes the job's spec; None takes a word back."""
        return await self.api.patch(where(JOBS, self.namespace, name), {"spec": spec}, how="merge")

    async def remove(self) -> None:
        """Deletes all jobs and waits until their workers are told to go: before the namespace may refuse new ones."""
        await self.api.delete_all(where(JOBS, self.namespace))
        workers, label = where("pods", self.namespace), "gangwright.io/elastic-job"
        await watches.until(self.api, workers, _all_going, within=COLLECTED, labels=label)

    async def status(self, name: str) -> Object:
        found: Object = (await self.api.get(where(JOBS, self.namespace, name))).get("status", {})
        return found

    async def until(self, name: str, holds: Holds, within: float = START) -> Object:
        """The job's status as soon as it holds. Raises NeverCameError with the status and the ends of all logs."""
        path = where(JOBS, self.namespace, name)
        try:
            found = await watches.until_one(
                self.api, path, lambda own: holds(own.get("status", {})), within=within
            )
        except NeverCameError as error:
            raise NeverCameError(f"{error}\n{await self._logs(name)}") from None
        status: Object = found["status"]
        return status

    def members(self, status: Object) -> set[str]:
        """`namespace/name` of all its workers."""
        return {f"{self.namespace}/{own['name']}" for own in status["members"]}

    def worker(self, status: Object, rank: int) -> str:
        """`namespace/name` of the pod that has this rank, as the kubelet wants it."""
        (name,) = [own["name"] for own in status["members"] if own.get("rank") == rank]
        return f"{self.namespace}/{name}"

    def training(self, worker: str) -> int:
        """The process that trains in this pod, below the agent; 0 while there is none."""
        return training(self.kubelet, worker)

    async def told(self, name: str, reason: str) -> list[str]:
        """What events of this reason say of the job."""
        events = await self.api.items(where("events", self.namespace))
        return [own["note"] for own in events if own["reason"] == reason and own["regarding"]["name"] == name]

    async def workers(self, name: str) -> list[Object]:
        """Its pods that have not ended, the oldest first."""
        pods = await self.api.items(where("pods", self.namespace), labels=f"gangwright.io/elastic-job={name}")
        living = [pod for pod in pods if pod["status"].get("phase") in {"Pending", "Running"}]
        return sorted(living, key=lambda pod: pod["metadata"]["creationTimestamp"])

    async def until_pods(
        self, name: str, holds: Callable[[list[Object]], object], within: float = START
    ) -> list[Object]:
        """All its pods as soon as they hold."""
        label = f"gangwright.io/elastic-job={name}"
        return await watches.until(
            self.api, where("pods", self.namespace), holds, within=within, labels=label
        )

    async def steps(self, name: str) -> list[Object]:
        """What the training script printed of its steps, over all workers that there ever were, in order of time."""
        output = self._outputs.setdefault(
            name, Output(lambda: itertools.chain.from_iterable(self._files(name).values()))
        )
        output.read()
        return sorted(output.steps(), key=lambda own: float(own["at"]))

    async def last_step(self, name: str) -> Object:
        """The newest step that was printed."""
        return await self.until_step(name, lambda _: True) and (await self.steps(name))[-1]

    async def until_step(self, name: str, holds: Holds, within: float = START) -> Object:
        """The first step that was printed and holds. Raises NeverCameError with the ends of all logs."""
        try:
            async with asyncio.timeout(within):
                while True:
                    for step in await self.steps(name):
                        if holds(step):
                            return step
                    await asyncio.sleep(0.1)
        except TimeoutError:
            logs = await self._logs(name)
            raise NeverCameError(f"{name} made no such step within {within:g} s\n{logs}") from None

    async def until_log(self, worker: str, words: str, times: int = 1, within: float = START) -> None:
        """As soon as the worker's log holds these words so many times."""
        try:
            async with asyncio.timeout(within):
                while self.kubelet.log(worker).count(words) < times:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise NeverCameError(f"{worker} never said {words!r}:\n{self.kubelet.log(worker)}") from None

    def _files(self, name: str) -> dict[str, list[Path]]:
        """Of each worker that there ever was."""
        places = sorted((self.kubelet.folder / "logs").glob(f"{self.namespace}_{name}-*"))
        return {place.name: sorted(place.iterdir()) for place in places}

    async def _logs(self, name: str) -> str:
        pods = await self.api.items(where("pods", self.namespace))
        states = [f"{pod['metadata']['name']}: {json.dumps(pod.get('status', {}))[:600]}" for pod in pods]
        logs = {
            worker: "".join(file.read_text(errors="replace") for file in files)
            for worker, files in self._files(name).items()
        }
        ends = [f"--- {worker}\n" + "\n".join(log.splitlines()[-25:]) for worker, log in logs.items()]
        return "\n".join(states + ends)


def training(kubelet: Kubelet, worker: str) -> int:
    """The process that trains in this pod (`namespace/name`), below the agent; 0 while there is none."""
    for pid in kubelet.pids(worker):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"python") and not any(word.endswith(b"agent.pyz") for word in words):
            return pid
    return 0


def in_phase(*phases: str) -> Holds:
    return lambda status: status.get("phase") in phases


def of_size(size: int) -> Holds:
    """It trains with so many workers."""
    return lambda status: status.get("phase") == "Running" and status.get("workers") == size


def whole(steps: list[Object]) -> bool:
    """Every step was taken, and no worker had to take one again."""
    numbers, taken = {own["step"] for own in steps}, [(own["pod"], own["step"]) for own in steps]
    return numbers == set(range(1, max(numbers) + 1)) and len(taken) == len(set(taken))


def stillness(steps: list[Object], since: float) -> float:
    """The longest that nobody took a step, from the last one at this time on: seconds, by the steps' own stamps."""
    stamps = [own["at"] for own in steps if own["at"] >= since]
    return max(later - earlier for earlier, later in itertools.pairwise(stamps))


async def grows(
    jobs: Jobs, kubelet: Kubelet, script: Path, training: tuple[object, ...], marked: Path, words: str = ""
) -> Object:
    """The status of a job of one that has saved, and is to be of two from now on. script: runs the training, and looks
    for the file `marked` where workers meet.
    """
    kept = marked.with_name("kept")
    await asyncio.to_thread(kubelet.add, slots(2))
    command = (script, marked, *training)
    checkpoint = {"path": str(kept), "every": "1s"}
    await jobs.submit(job("train", 1, 2, *command, spec={"workers": 1, "checkpoint": checkpoint}))
    alone = await jobs.until("train", of_size(1))
    await jobs.until_step("train", lambda _: saved(kept) > 1)
    marked.write_text(words)
    await jobs.say("train", workers=2)
    return alone


def saved(folder: Path) -> int:
    """The step of the newest checkpoint in a job's folder; 0 while there is none."""
    names = [place.stem for place in folder.glob("*/[0-9]*.npz")]
    return max((int(name.rpartition("-")[2]) for name in names), default=0)


def _all_going(pods: list[Object]) -> bool:
    return all("deletionTimestamp" in pod["metadata"] for pod in pods)
