"""Effects of one job: creates and deletes pods, writes events, maintains the job's NetworkPolicy.

Lives here: one task for each effect, and what its failure means to the job. Never here: whether it should be done. Jobs
do not wait for each other, except for a turn at the API server.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog

from scheduler import errors
from scheduler.elastic.controller import requests
from scheduler.elastic.controller.pod_template import Kit, Owner, Worker, manifest, worker_name
from scheduler.elastic.controller.request_retry import RequestRetry
from scheduler.elastic.job.spec import Spec
from scheduler.elastic.reconciler.job_effects import StartWorker, StopWorker, Tell
from scheduler.elastic.reconciler.job_events import StartRefused, Uid, WorkerGone
from scheduler.elastic.rendezvous.kv_store import Values
from scheduler.errors import abridged
from scheduler.settings import Confinement

TELLS: Final = 3
"""Attempts for an event; an old event is of little use."""

STARTS: Final = 7
"""Attempts for a pod, and for the policy before it. With waits that double from one second, they take about as long as
the reconciler waits for a pod (`Timeouts.unseen`), and rarely overlap with the next start. A late rejection counts."""

STANDS: Final = 60.0
"""Seconds for which a NetworkPolicy that was confirmed is assumed to exist. It may be deleted at any time, without any
notice. The workers of a quorum, or of one growth, need one check."""

STANDS_REFUSED: Final = 3600.0
"""The same while the API server rejects the job's pods, so no worker starts that would need it. The first created pod
triggers another check, long before it can run."""

LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Alphabet of the random suffix of a name, as in Kubernetes, so that no word is spelled by accident."""

T = TypeVar("T")
Report = Callable[[StartRefused | WorkerGone], None]
_log = structlog.get_logger("elastic")


@dataclass(frozen=True, slots=True)
class Site:
    """What all jobs share. clock: seconds since the epoch. values: of their rounds. refused: namespace → the jobs whose
    last pod the API server rejected.
    """

    trying: RequestRetry
    kit: Kit
    clock: Callable[[], float]
    values: Values
    refused: defaultdict[str, set[Uid]] = field(default_factory=lambda: defaultdict(set))


class PodControl:
    """The tasks of one job. report: called for a pod that was rejected, and for one that is deleted already."""

    def __init__(self, owner: Owner, site: Site, report: Report) -> None:
        self._owner = owner
        self._site = site
        self._report = report
        self._tasks: set[asyncio.Task[Any]] = set()
        self._confining: asyncio.Task[errors.KubeError | None] | None = None
        self._confined_at = float("-inf")
        self._stopping: dict[Uid, float] = {}

    def close(self) -> None:
        """Cancel all pending work."""
        self._site.refused[self._owner.namespace].discard(self._owner.uid)
        for task in self._tasks:
            task.cancel()

    def start(self, effect: StartWorker, spec: Spec) -> None:
        self._begin(self._start(effect, spec))

    def stop(self, effect: StopWorker, name: str) -> None:
        if self._stopping.get(effect.uid, float("inf")) > effect.grace_s:
            self._stopping[effect.uid] = effect.grace_s
            self._begin(self._stop(effect, name))

    def tell(self, effect: Tell) -> None:
        call = requests.tell(self._owner, effect.type, effect.reason, effect.message, self._site.clock())
        self._begin(self._site.trying.until_answered("event", call, TELLS))

    def requote(self, uid: Uid, name: str, quorum: int) -> None:
        """Update the quorum on a member's pod: all members of the gang must agree."""
        call = requests.requote_pod(self._owner.namespace, name, uid, quorum)
        self._begin(self._site.trying.until_answered("quorum", call))

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task of a job failed", job=self._owner.key, exc_info=error)

    async def _start(self, effect: StartWorker, spec: Spec) -> None:
        # The name is chosen once, so that a repeated attempt after a lost answer does not create a second pod.
        chance = "".join(secrets.choice(LETTERS) for _ in range(5))
        name = worker_name(self._owner.name, effect.number, chance)
        crowd = self._site.refused[self._owner.namespace]
        error = await self._confine(STANDS_REFUSED if self._owner.uid in crowd else STANDS)
        if error is not None:
            self._refused(effect.number, f"the job's NetworkPolicy could not be written: {error.words}")
            return
        worker = Worker(name, effect.number, effect.role, effect.avoid)
        try:
            pod = manifest(self._owner, spec, worker, self._site.kit)
        except (TypeError, ValueError, LookupError, AttributeError) as wrong:
            self._refused(effect.number, f"spec.template is not a valid PodTemplateSpec: {wrong}")
            return
        error = await self._site.trying.until_answered("start", requests.create_pod(pod), STARTS)
        if error is not None and error.reason != "AlreadyExists":  # that was an earlier attempt of this start
            self._refused(effect.number, error.words.replace(name, f"{self._owner.name}-…"))
        elif self._owner.uid in crowd:
            crowd.discard(self._owner.uid)
            error = await self._confine(STANDS)
            # It existed before the first attempt, and the next start does not begin without it.
            if error is not None:
                _log.warning("policy not confirmed", job=self._owner.key, error=str(error))

    def _refused(self, number: int, why: str) -> None:
        _log.warning("worker rejected", job=self._owner.key, number=number, error=why)
        crowd = self._site.refused[self._owner.namespace]
        crowd.add(self._owner.uid)
        # The API server first names what it rejects, and at the end what would be valid.
        self._report(StartRefused(number, abridged(why), len(crowd)))

    async def _confine(self, stands: float) -> errors.KubeError | None:
        """Write the policy once for all starts that wait for it. In sequence they would pile up, because each takes as
        long as the reconciler waits for a pod before it requests another one.
        """
        site = self._site
        if site.kit.settings.confine is Confinement.NONE or site.clock() - self._confined_at < stands:
            return None
        if self._confining is None or self._confining.done():
            self._confining = self._begin(self._write_policy())
        return await asyncio.shield(self._confining)

    async def _write_policy(self) -> errors.KubeError | None:
        call = requests.confine(self._owner, self._site.kit.settings.confine, self._site.kit.port)
        error = await self._site.trying.until_answered("policy", call, STARTS)
        self._confined_at = self._site.clock() if error is None else float("-inf")
        return error

    async def _stop(self, effect: StopWorker, name: str) -> None:
        call = requests.delete_pod(self._owner.namespace, name, effect.uid, effect.grace_s)
        try:
            error = await self._site.trying.until_answered("stop", call)
        finally:
            self._stopping.pop(effect.uid, None)
        if isinstance(error, errors.NotFound | errors.Conflict):
            self._report(WorkerGone(effect.uid))
        elif error is not None:
            _log.warning("worker not stopped", job=self._owner.key, pod=name, error=str(error))
