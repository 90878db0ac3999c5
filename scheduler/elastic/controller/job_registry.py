"""All jobs: which watch event, which worker and which node concerns which of them.

Lives here: the sinks of the watches, the controllers by uid, and the lookup of a worker's job. Never here: a request to
the API server, the processing inside a job, or the authentication of workers. Until everything has been read, and on
standby, facts are only stored.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from scheduler.elastic.controller import decode, requests
from scheduler.elastic.controller.decode import Job, Known
from scheduler.elastic.controller.job_controller import JobController
from scheduler.elastic.controller.job_metrics import JobMetrics
from scheduler.elastic.controller.node_usage import NodeUsage
from scheduler.elastic.controller.pod_control import Site
from scheduler.elastic.controller.pod_template import Owner
from scheduler.elastic.reconciler import job_events
from scheduler.elastic.reconciler.job_effects import Assignment
from scheduler.elastic.reconciler.job_events import Uid
from scheduler.elastic.reconciler.timeouts import Timeouts
from scheduler.elastic.rendezvous.worker_messages import BeatAnswer, Reason, Refused
from scheduler.elastic.rendezvous.worker_requests import Worker
from scheduler.kube import changes as ch
from scheduler.objects import api

JOBS: Final = "elasticjobs"
PODS: Final = "pods"
NODES: Final = "nodes"

_log = structlog.get_logger("elastic")


class JobRegistry:
    """The managed jobs. taints: keys that mark a node as draining."""

    def __init__(
        self,
        counting: JobMetrics,
        *,
        namespaces: Sequence[str] = (),
        taints: Sequence[str] = (),
        limits: Timeouts | None = None,
    ) -> None:
        self.controllers: dict[Uid, JobController] = {}
        """ElasticJob uid → its controller."""
        self.usage = NodeUsage()
        self.whole = not namespaces
        """Every pod of the cluster is watched, so free capacity is known."""
        self._counting = counting
        self._taints = tuple(taints)
        self._limits = limits or Timeouts()
        self._site: Site | None = None
        self._jobs: dict[Uid, Job] = {}
        self._workers: dict[Uid, Known] = {}
        self._doomed: dict[str, str] = {}
        self._blind: dict[str, str] = {}
        self._sources = watched(namespaces)
        self._missing = set(self._sources)

    # ── watches ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def synced(self) -> bool:
        """Every list has been read."""
        return not self._missing

    def missing(self) -> list[str]:
        """The lists that have not been read."""
        return sorted(self._missing)

    def watches(self) -> dict[str, tuple[ch.Resource[Any], ch.Sink[Any]]]:
        """Name → what to watch, and the sink of its changes."""
        sinks: dict[str, tuple[type, Callable[[Any], None], Callable[[ch.Gone[Any]], None]]] = {
            JOBS: (Job, self._job_seen, lambda gone: self._forget(gone.uid)),
            PODS: (api.Pod, self._pod_seen, self._pod_gone),
            NODES: (api.Node, self._node_seen, self._node_gone),
        }
        return {
            name: (ch.Resource(path, sinks[kind][0]), self._sink(name, kind, *sinks[kind][1:]))
            for name, (kind, path) in self._sources.items()
        }

    def _sink(
        self, name: str, kind: str, seen: Callable[[Any], None], gone: Callable[[ch.Gone[Any]], None]
    ) -> ch.Sink[Any]:
        def sink(batch: Sequence[ch.Change[Any]]) -> None:
            for change in batch:
                try:
                    match change:
                        case ch.Seen():
                            seen(change.object)
                        case ch.Gone():
                            gone(change)
                        case ch.Malformed():
                            leave_out(change, change.message)
                        case ch.Synced():
                            self._missing.discard(name)
                except Exception as error:  # noqa: BLE001 - a fault in one object must not affect the others
                    leave_out(change, f"{type(error).__name__}: {error}")

        def leave_out(change: ch.Change[Any], message: str) -> None:
            self._counting.metrics.unreadable_objects_total.labels(kind).inc()
            place = "" if isinstance(change, ch.Synced) else "/".join(filter(None, change.key or ()))
            again = ("object skipped", name, place)
            _log.warning("object skipped", resource=name, object=place, message=message, kind=again)

        return sink

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, site: Site) -> None:
        """Everything has been read, and this master is active from now on."""
        self._site = site
        for job in list(self._jobs.values()):
            self._take(job)
        _log.info("active", jobs=len(self.controllers), workers=len(self._workers))

    def end(self) -> None:
        """This master is no longer active."""
        self._site = None
        for controller in self.controllers.values():
            controller.close()
        self.controllers.clear()

    def _take(self, job: Job) -> None:
        if self._site is None:
            return
        controller = JobController(job, self._site, self._limits, self._counting, self._doomed)
        self.controllers[controller.owner.uid] = controller
        workers = {uid: known for uid, known in self._workers.items() if known.owner == controller.owner}
        controller.begin(workers, self._why_blind(controller.owner))

    def _job_seen(self, job: Job) -> None:
        uid = job.metadata.uid
        if job.metadata.deletion_timestamp is not None:
            self._forget(uid)
            return
        self._jobs[uid] = job
        if (controller := self.controllers.get(uid)) is not None:
            controller.job_seen(job)
        else:
            self._take(job)

    def _forget(self, uid: Uid) -> None:
        """Stop managing a deleted job. Its pods are deleted with it, because it owns them."""
        self._jobs.pop(uid, None)
        controller = self.controllers.pop(uid, None)
        if controller is not None:
            controller.close()
            controller.site.values.forget(controller.owner.key)

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────

    def controller_of(self, worker: Uid) -> JobController | None:
        """The job of a live worker. A worker that has ended has none, even if its pod still exists."""
        known = self._workers.get(worker)
        if known is None or known.seen.phase in decode.ENDED:
            return None
        return self._controller_for(known)

    def _controller_for(self, known: Known) -> JobController | None:
        """The job that the pod names by namespace, name and uid. A uid alone does not make a pod its worker."""
        controller = self.controllers.get(known.owner.uid)
        return controller if controller is not None and controller.owner == known.owner else None

    def _pod_seen(self, pod: api.Pod) -> None:
        self.usage.pod_seen(pod)
        known = decode.known(pod)
        if known is None:
            return
        self._workers[known.seen.uid] = known
        controller = self._controller_for(known)
        if controller is not None:
            controller.worker_seen(known)

    def _pod_gone(self, gone: ch.Gone[api.Pod]) -> None:
        self.usage.pod_gone(gone.uid)
        known = self._workers.pop(gone.uid, None)
        controller = self._controller_for(known) if known is not None else None
        if controller is not None:
            controller.worker_gone(gone.uid)

    def sight_turned(self, blind: Mapping[str, str]) -> None:
        """blind: the names of the pod watches that are down, and why. All others are healthy."""
        self._blind = dict(blind)
        for controller in list(self.controllers.values()):
            controller.sight_turned(self._why_blind(controller.owner))

    def _why_blind(self, owner: Owner) -> str:
        return self._blind.get(PODS if self.whole else inside(PODS, owner.namespace), "")

    # ── nodes ───────────────────────────────────────────────────────────────────────────────────────────

    def _node_seen(self, node: api.Node) -> None:
        self.usage.node_seen(node)
        self._turn(node.metadata.name, decode.doom(node, self._taints))

    def _node_gone(self, gone: ch.Gone[api.Node]) -> None:
        """Its workers are practically lost, but that is detected from their beats."""
        self.usage.node_gone(gone.key.name)
        self._turn(gone.key.name, "")

    def _turn(self, node: str, why: str) -> None:
        if self._doomed.get(node, "") == why:
            return
        self._doomed.pop(node, None)
        if why:
            self._doomed[node] = why
        event = job_events.NodeDoomed(node, why) if why else job_events.NodeCleared(node)
        for controller in list(self.controllers.values()):
            controller.feed(event)


@dataclass(frozen=True, slots=True)
class WorkerHandler:
    """Handles the requests of workers. leading: whether this master is active. seeing: whether the pod watch is
    current. interval: seconds between two beats.
    """

    master: JobRegistry
    leading: Callable[[], bool]
    seeing: Callable[[], bool]
    interval: float

    def worker(self, uid: str) -> Worker | None:
        """The live worker with this pod uid."""
        if not self.leading():
            raise Refused(Reason.STANDBY, "another master is active; try again in a moment")
        controller = self.master.controller_of(uid)
        if controller is not None:
            return Worker(controller.owner.key, frozenset(controller.rounds.get(uid, ())))
        if not self.seeing():  # it may have been created since
            raise Refused(Reason.AWAY, "the API server is unavailable, and this worker was not known before")
        return None

    async def beat(self, beat: job_events.Beat) -> BeatAnswer:
        """Record a heartbeat."""
        controller = self._controller(beat.uid)
        controller.feed(beat)
        newest, abort, broken, place = controller.beat_answer(beat.uid)
        return BeatAnswer(newest, abort, self.interval, broken, place)

    async def ready(self, arrived: job_events.Arrived, wait: float) -> Assignment | None:
        """Record that the worker is at the barrier, and wait for its assignment."""
        controller = self._controller(arrived.uid)
        controller.feed(arrived)
        await asyncio.sleep(0)  # the rules run first: its place may go to another worker
        return await controller.assignment(arrived.uid, arrived.round, wait)

    async def announced(self, uid: str, known: int, wait: float) -> int:
        """The newest round announced to it."""
        return await self._controller(uid).announced(uid, known, wait)

    async def leave(self, leaving: job_events.Leaving) -> None:
        """Record that it leaves."""
        self._listening(leaving.uid).feed(leaving)

    async def exit(self, exited: job_events.Exited) -> bool:
        """Record that its process ended. Returns whether to restart it."""
        return self._listening(exited.uid).exited(exited)

    def _controller(self, uid: str) -> JobController:
        """Its job, which may have been deleted since the worker was authenticated."""
        controller = self.master.controller_of(uid)
        if controller is None:
            raise Refused(Reason.NO_WORKER, "this worker's job no longer exists")
        return controller

    def _listening(self, uid: str) -> JobController:
        """Its job, for a one-time message: the worker repeats the message until it is recorded."""
        controller = self._controller(uid)
        if not controller.hears:
            raise Refused(Reason.AWAY, "this worker's job is not managed at the moment; try again later")
        return controller


def watched(namespaces: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Name of a watch → its kind, and the path of the collection."""
    found = {NODES: (NODES, requests.NODES)}
    for kind, path in ((JOBS, requests.JOBS), (PODS, requests.PODS)):
        limited = {inside(kind, name): (kind, requests.inside(path, name)) for name in namespaces}
        found |= limited or {kind: (kind, path)}
    return found


def inside(kind: str, namespace: str) -> str:
    """The name of a watch of one namespace."""
    return f"{kind} of {namespace}"
