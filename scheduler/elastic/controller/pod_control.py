"""What is to be done for one job: pods made and removed, people told, the job's policy.

Lives here: one task for each, and what its failure means to the job. Never here: whether it should be done. Nothing of
one job waits for another's, but for a turn at the API server.
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
"""Tries for an event that people read; it is worth little when it is old."""

STARTS: Final = 7
"""Tries for a pod, and for the policy before it. With waits that double from a second such a row takes about as long as
the reconciler waits for a pod (`Timeouts.unseen`), and seldom runs into the next one; a refusal counts however late."""

STANDS: Final = 60.0
"""Seconds for which a NetworkPolicy that was seen to stand is taken to do so. Whoever may delete it may do so at any
time, and nothing tells of it; a quorum, and what grows in one go, costs one look."""

STANDS_REFUSED: Final = 3600.0
"""The same while the API server refuses the job's pods: no worker begins that could miss it. The first that is made has
it looked at again, long before it can run."""

LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of the word of chance in a name: as Kubernetes has them, so that no word is spelt by accident."""

T = TypeVar("T")
Report = Callable[[StartRefused | WorkerGone], None]
_log = structlog.get_logger("elastic")


@dataclass(frozen=True, slots=True)
class Site:
    """What is the same for all jobs. clock: seconds since the epoch. values: of their rounds. refused: by namespace,
    the jobs whose last pod the API server refused.
    """

    trying: RequestRetry
    kit: Kit
    clock: Callable[[], float]
    values: Values
    refused: defaultdict[str, set[Uid]] = field(default_factory=lambda: defaultdict(set))


class PodControl:
    """The tasks of one job. report: told of a pod that was refused, and of one that is gone already."""

    def __init__(self, owner: Owner, site: Site, report: Report) -> None:
        self._owner = owner
        self._site = site
        self._report = report
        self._tasks: set[asyncio.Task[Any]] = set()
        self._confining: asyncio.Task[errors.KubeError | None] | None = None
        self._confined_at = float("-inf")
        self._stopping: dict[Uid, float] = {}

    def close(self) -> None:
        """Give up whatever is under way."""
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
        """The gang's quorum changed: its members must agree about it."""
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
        # The name is chosen once, so that a try whose answer was lost makes no second pod.
        chance = "".join(secrets.choice(LETTERS) for _ in range(5))
        name = worker_name(self._owner.name, effect.number, chance)
        crowd = self._site.refused[self._owner.namespace]
        error = await self._confine(STANDS_REFUSED if self._owner.uid in crowd else STANDS)
        if error is not None:
            self._refused(effect.number, f"without its NetworkPolicy no worker starts: {error.words}")
            return
        worker = Worker(name, effect.number, effect.role, effect.avoid)
        try:
            pod = manifest(self._owner, spec, worker, self._site.kit)
        except (TypeError, ValueError, LookupError, AttributeError) as wrong:
            self._refused(effect.number, f"spec.template is no PodTemplateSpec: {wrong}")
            return
        error = await self._site.trying.until_answered("start", requests.create_pod(pod), STARTS)
        if error is not None and error.reason != "AlreadyExists":  # then it was our own earlier try
            self._refused(effect.number, error.words.replace(name, f"{self._owner.name}-…"))
        elif self._owner.uid in crowd:
            crowd.discard(self._owner.uid)
            error = await self._confine(STANDS)
            # It stood before the first try, and the next start does not begin without it.
            if error is not None:
                _log.warning("policy not seen", job=self._owner.key, error=str(error))

    def _refused(self, number: int, why: str) -> None:
        _log.warning("worker refused", job=self._owner.key, number=number, error=why)
        crowd = self._site.refused[self._owner.namespace]
        crowd.add(self._owner.uid)
        # The API server says first what it refuses, and at the end what would be right.
        self._report(StartRefused(number, abridged(why), len(crowd)))

    async def _confine(self, stands: float) -> errors.KubeError | None:
        """One row of tries for all that wait for it. One after the other they would grow ever more, for each takes as
        long as the reconciler waits for a pod before it asks for another.
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
