"""The whole plane: API server, schedulers, extender, elastic master, and nodes of one slot each. Synchronous."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bench.elastic.following import Output
from bench.elastic.jobs import JOBS, TRAINING, slots
from bench.horovod import build
from bench.plane import Client, Plane, where
from bench.plane.elastic_master import MANIFESTS, Master
from bench.plane.installation import Installation
from bench.plane.kubelet import OURS, PLAIN, Image, Kubelet
from scheduler.settings import ElasticMaster

T = TypeVar("T")

Object = dict[str, Any]

QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "NUMPY_MADVISE_HUGEPAGE": "0",
}
"""What an image for training on few cores would say. The last is for roads to be alike: NumPy asks for huge pages where
it puts large arrays, and two workers of ours had 8 and 67 MB of them, two bare ones none; with it nobody has any.
"""

NAMESPACE = "training"

PATIENT = {"elastic.hangLimit": f"{ElasticMaster().hang_limit:g}s"}
"""As installed. Benches commit seldom, on machines that may be busy with others, and a commit is what shows
progress.
"""

INSTALLED = {
    **PATIENT,
    "elastic.sizingEvery": f"{ElasticMaster().sizing_every:g}s",
    "elastic.statusEvery": f"{ElasticMaster().status_every:g}s",
}
"""The master as installed. With ten times as many statuses, master, API server and etcd take 1 % of a core more from
those that train beside them here, and in a cluster do not.
"""


class Stage:
    """A running plane, seen from the bench: objects by path, jobs by name, output by pod."""

    def __init__(self, plane: Plane, kubelet: Kubelet, master: Master) -> None:
        self.plane = plane
        self.kubelet = kubelet
        self.master = master
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stage", daemon=True)
        self._thread.start()
        self.api: Client = self.run(plane.client().__aenter__())

    def close(self) -> None:
        self.run(self.api.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """One call of the client's, done."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def master_ended(self) -> bool:
        """Whether the master had ended, as one does that loses its Lease when the machine stands still; it runs again
        then, as a Deployment would have it.
        """
        ended = not self.master.program.alive
        if ended:
            self.master.restart()
        return ended

    def submit(self, job: Object) -> None:
        self.run(self.api.create(where(JOBS, NAMESPACE), job))

    def scale(self, name: str, workers: int) -> None:
        """What `kubectl scale` does."""
        body = {"spec": {"replicas": workers}}
        self.run(self.api.patch(where(JOBS, NAMESPACE, name, "scale"), body, how="merge"))

    def status(self, name: str) -> Object:
        found: Object = self.run(self.api.get(where(JOBS, NAMESPACE, name))).get("status", {})
        return found

    def delete(self, name: str, within: float = 120) -> None:
        """The job and its pods are gone when this returns."""
        self.run(self.api.delete(where(JOBS, NAMESPACE, name)))
        self.run(self.api.gone(where(JOBS, NAMESPACE, name), within=within))
        self.run(self._no_pods(name, within))

    async def _no_pods(self, name: str, within: float) -> None:
        async with asyncio.timeout(within):
            while await self.api.items(where("pods", NAMESPACE), labels=f"gangwright.io/elastic-job={name}"):
                await asyncio.sleep(0.1)

    def output(self, name: str) -> Output:
        """Of all workers of a job."""
        return Output(lambda: sorted((self.kubelet.folder / "logs").glob(f"{NAMESPACE}_{name}-*/main-*.log")))


@contextmanager
def stage(count: int, set_: Mapping[str, str] = PATIENT) -> Iterator[Stage]:
    """count: slots. set_: settings of the master, which by default looks for room twice a second."""
    python = build.python()
    images = {TRAINING: Image(path=[python.parent], env=QUIET), "gangwright": OURS, "plain": PLAIN}
    with Plane(controllers=True) as plane, Installation(plane):
        plane.apply_manifests(MANIFESTS)
        plane.kubectl("create", "namespace", NAMESPACE)
        with Master(plane, set_=set_) as master, Kubelet(plane, slots(count), images=images) as kubelet:
            running = Stage(plane, kubelet, master)
            try:
                running.run(running.api.until(where("serviceaccounts", NAMESPACE, "default"), bool))
                yield running
            finally:
                running.close()


def python() -> Path:
    """The interpreter that has Horovod."""
    return build.python()
