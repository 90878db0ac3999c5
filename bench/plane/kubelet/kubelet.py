"""The stand-in kubelet as tests see it: nodes whose pods run as processes of this machine."""

import asyncio
import itertools
import signal
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp

from bench.plane.certificates import Identity
from bench.plane.client import Object, key
from bench.plane.control_plane import Plane
from bench.plane.errors import DescriptionError, NeverCameError, NotReadyError
from bench.plane.kubelet.container import best_isolation
from bench.plane.kubelet.ground import Ground
from bench.plane.kubelet.images import PLAIN, Image
from bench.plane.kubelet.life import Life
from bench.plane.kubelet.machine import Machine
from bench.plane.kubelet.serving import Server
from bench.plane.nodes import Fleet

T = TypeVar("T")

KUBELET = Identity("kubelet", ("system:masters",))

PATIENCE = 60
"""Seconds within which a call must be done: all of them end by themselves long before."""

LOOK = 0.02
"""Seconds between two looks for a process."""

_numbers = itertools.count()
_addresses = itertools.count(1)


class Kubelet:
    """Runs the pods of its nodes, from `start` to `stop`.

        with Kubelet(plane, Fleet(prefix="real-", nodes_per_rack=3, gpus=1), images={"sh": PLAIN}) as kubelet:
            ...
            kubelet.kill_node("real-r00-n00")

    images: what the images that pods name stand for; others cannot be pulled. May be changed while it runs.
    isolation: a row of `container.ISOLATIONS`; by default the best that this machine permits.

    Its own thread and event loop keep it alive over the event loops of tests; everything here may be called from any
    thread, takes milliseconds and waits for nothing but what it says. A pod is its object, or "namespace/name".
    """

    def __init__(
        self, plane: Plane, *fleets: Fleet, images: Mapping[str, Image] | None = None, isolation: str = ""
    ) -> None:
        self.images: dict[str, Image] = dict({"none": PLAIN} if images is None else images)
        self.folder: Path = plane.folder / f"kubelet-{next(_numbers)}"
        self._plane = plane
        self._fleets = fleets
        self._isolation = isolation or best_isolation()
        self._machines: dict[str, Machine] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="plane-kubelet", daemon=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        self.folder.mkdir(parents=True)
        self._thread.start()
        self._run(self._open())
        self.add(*self._fleets)
        return self

    def stop(self) -> None:
        """Ends every process, and takes nodes and pods out of the cluster. Raises what went wrong inside of it."""
        try:
            self._run(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        if self._ground.failures:
            raise BaseExceptionGroup("the stand-in kubelet failed", self._ground.failures)

    # ── nodes ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def nodes(self) -> list[str]:
        return list(self._machines)

    @property
    def isolation(self) -> str:
        return self._isolation

    def add(self, *fleets: Fleet) -> list[str]:
        """More nodes, which take pods at once; their names. Raises ApiError when there are some of these names."""
        return [self._run(self._added(body)) for fleet in fleets for body in fleet.objects()]

    def remove(self, node: str) -> None:
        """The node dies, and its object and its pods go from the cluster."""
        self._run(self._machine(node).leave())
        del self._machines[node]

    def kill_node(self, node: str) -> None:
        """The power goes off: all its processes are gone when this returns, and nothing more is heard of it or of
        its pods.
        """
        self._run(self._machine(node).die())

    def revive_node(self, node: str) -> None:
        """The power is back: what ran there has failed or, where the pod's policy says so, is started again."""
        self._call(self._machine(node).begin)

    # ── pods ────────────────────────────────────────────────────────────────────────────────────────────

    def kill(
        self,
        pod: Object | str,
        number: int = signal.SIGKILL,
        *,
        container: str = "",
        all_: bool = False,
        memory: bool = False,
    ) -> None:
        """Sends a signal to the first process of its containers, from outside.

        container: only to this one. all_: to every process in them. memory: what dies is told as OOMKilled.
        Raises NotReadyError when no process of it runs; a pod's log may say more than its kubelet knows yet, so that
        who has only read that waits `until_runs`.
        """
        life = self._life(pod)
        if not self._call(lambda: life.signal(number, container, all_=all_, memory=memory)):
            whose = f"container {container!r} of {_name(pod)!r}" if container else repr(_name(pod))
            raise NotReadyError(f"pod: no process of {whose} runs; wait for one with `until_runs`")

    def until_runs(self, pod: Object | str, within: float = 20.0) -> None:
        """Until a process of the pod runs. Raises NeverCameError."""
        end = time.monotonic() + within
        while not ((life := self._found(_name(pod))) and life.alive):
            if time.monotonic() > end:
                raise NeverCameError(f"pod: no process of {_name(pod)!r} runs within {within:g} s")
            time.sleep(LOOK)

    def freeze(self, pod: Object | str) -> None:
        """Stops every process of the pod where it is (SIGSTOP)."""
        self.kill(pod, signal.SIGSTOP, all_=True)

    def thaw(self, pod: Object | str) -> None:
        self.kill(pod, signal.SIGCONT, all_=True)

    def pids(self, pod: Object | str) -> list[int]:
        """Every process of the pod as this machine numbers them, the first one first."""
        life = self._life(pod)
        found: list[int] = self._call(lambda: [pid for own in life.containers.values() for pid in own.pids()])
        return found

    def renew_tokens(self, pod: Object | str) -> None:
        """The pod's projected tokens are renewed, as they are at four fifths of their life."""
        self._run(self._life(pod).renew_tokens())

    def log(self, pod: Object | str, container: str = "") -> str:
        """What its containers wrote, run by run; also of a pod that is gone. Of several of one name, the last one's."""
        folders = (self.folder / "logs").glob(f"{_name(pod).replace('/', '_')}_*")
        newest = max(folders, key=lambda place: place.stat().st_mtime, default=None)
        if newest is None:
            return ""
        files = sorted(newest.glob(f"{container or '*'}-*.log"), key=_order)
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def _machine(self, node: str) -> Machine:
        if node not in self._machines:
            raise DescriptionError(f"node: {node!r} is not one of {', '.join(self._machines) or 'none'}")
        return self._machines[node]

    def _life(self, pod: Object | str) -> Life:
        if life := self._found(_name(pod)):
            return life
        raise DescriptionError(f"pod: {_name(pod)!r} is on none of the nodes here")

    def _found(self, name: str) -> Life | None:
        lives = (life for machine in self._machines.values() for life in list(machine.lives.values()))
        return next((life for life in lives if key(life.pod) == name), None)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(timeout=PATIENCE)

    def _call(self, step: Any) -> Any:
        async def called() -> Any:
            return step()

        return self._run(called())

    async def _open(self) -> None:
        self._client = self._plane.client(KUBELET)
        await self._client.__aenter__()
        server = urlsplit(self._plane.url)
        cluster = {
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
        self._server = Server(self._found, self._plane.server_context())
        port = await self._server.start()
        self._ground = Ground(self._client, self.folder, self._isolation, self.images, cluster, port)

    async def _added(self, body: Object) -> str:
        machine = Machine(self._ground, body, _ips())
        await machine.create()
        self._machines[machine.name] = machine
        return machine.name

    async def _close(self) -> None:
        await self._server.stop()
        machines = self._machines.values()
        await asyncio.gather(*(machine.die() for machine in machines))
        with suppress(aiohttp.ClientError):  # an API server that is down has forgotten them already
            await asyncio.gather(*(machine.leave() for machine in machines))
        await self._client.__aexit__(None, None, None)


def _ips() -> Iterator[str]:
    """An address of the loopback for each pod, where every address is this machine."""
    for number in _addresses:
        yield f"127.1.{number // 250 % 250}.{number % 250 + 1}"


def _name(pod: Object | str) -> str:
    return pod if isinstance(pod, str) else key(pod)


def _order(file: Path) -> tuple[float, str]:
    return file.stat().st_ctime_ns, file.name
