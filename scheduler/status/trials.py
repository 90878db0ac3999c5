"""Dry runs: pods as they would be created, and one question to the planner at a time.

Lives here: the fields that a pod gets at creation (a uid, a name, Gangwright's gate), the order of dry runs, and limits
on pods per user. Never here: the decision about them.

Why so strict: a dry run of 4,096 pods is a request of 330 bytes and takes a tenth of a second, partly on a thread that
shares the interpreter with the extender endpoints. So each user may have one in the queue, and a pause follows each.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import msgspec

from scheduler.errors import shortened
from scheduler.model.cluster import Level
from scheduler.model.workload import Pod, Uid, gang_of_one
from scheduler.objects import api
from scheduler.objects.device_claims import DeviceClaims
from scheduler.objects.interner import Interner
from scheduler.objects.pods import pod as read
from scheduler.objects.volumes import Volumes
from scheduler.serving.rate_limit import Buckets
from scheduler.status.authorization import tenant
from scheduler.status.gang_views import Steps
from scheduler.status.operator_api import Problem, too_often
from scheduler.status.schemas import TrialRequest

MOST: Final = 4096
"""Maximum pods of one request. No gang has more."""

STRIDE: Final = 64
"""Pods created in one step: about half a millisecond."""

PODS, PODS_RATE = 8192, 512
"""Pods in one user's dry runs: at once, and per second. Twice the largest gang, and a gang of 1,000 every 2 seconds."""

SHARE: Final = 0.25
"""Maximum share of time for these questions: the next one pauses for three times the duration of the last, up to
LONGEST_REST. One of more than 0.7 s exceeds its share, but mostly runs on a thread.
"""

LONGEST_REST: Final = 2.0
"""Seconds, so that the next request still has most of its 15 seconds."""

AGAIN: Final = 1.0
"""Seconds to wait before another request while a dry run is under way."""

T = TypeVar("T")


class Unfit(Exception):  # noqa: N818 - never leaves this package
    """These pods would be rejected. The text names the fix."""


def bounded(asked: TrialRequest) -> int:
    """The number of pods to simulate. Raises Unfit for more than MOST."""
    total = int(sum(each.count for each in asked.pods))
    if total > MOST:
        raise Unfit(f"{total} pods: a gang must have at most {MOST}")
    return total


def pods(
    asked: TrialRequest, levels: tuple[Level, ...], volumes: Volumes, devices: DeviceClaims, now: float
) -> Steps[list[Pod]]:
    """The pods, each with Gangwright's gate and a unique name. volumes, devices: what their claims have.

    Raises Problem for an invalid Pod, and Unfit for pods that Gangwright would reject.
    """
    interner, numbers = Interner(), itertools.count()
    made: list[Pod] = []
    for index, each in enumerate(asked.pods):
        place = f"pods[{index}].pod"
        found = _decoded(each.pod, place, asked.namespace)
        first = read(found, volumes, levels, interner, devices.asked(found))
        complaint = next((complaint for complaint in first.complaints if complaint.fatal), None)
        if complaint is not None:
            raise Unfit(f"{place}: {shortened(str(complaint))}")
        for start in range(0, int(each.count), STRIDE):
            yield
            some = range(start, min(start + STRIDE, int(each.count)))
            made += (_numbered(first, next(numbers), each.count > 1, now) for _ in some)
    return made


def _decoded(found: Mapping[str, object], place: str, namespace: str) -> api.Pod:
    try:
        one = msgspec.convert({"metadata": {}, **found}, api.Pod)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Problem(400, f"{place}: must be a Kubernetes Pod: {shortened(str(error))}") from None
    if one.metadata.namespace not in {"", namespace}:
        raise Problem(400, f"{place}.metadata.namespace: must be {namespace}, as in the field `namespace`")
    one.metadata.namespace = namespace
    one.metadata.name = one.metadata.name or "pod"
    return one


def _numbered(pod: Pod, number: int, several: bool, now: float) -> Pod:
    name = f"{pod.key.name}-{number}" if several else pod.key.name
    own = Uid(f"trial-{number}")
    said = pod.membership
    if said is not None and ":" in said.gang.name:  # explicitly a gang of one
        said = replace(said, gang=gang_of_one(pod.key.namespace, own))
    return replace(
        pod,
        uid=own,
        key=pod.key._replace(name=name),
        created=now,
        gated=True,
        held_back=False,
        node=None,
        membership=said,
    )


class Trying:
    """The queue of questions. clock: seconds that never go back."""

    def __init__(
        self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._pods = Buckets(PODS, PODS_RATE)
        self._trying: set[str] = set()
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turn = asyncio.Lock()
        self._free_at = float("-inf")

    async def trial(self, user: str, pods: int, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, in its turn. Raises Problem while the user's last one runs, or for too many pods."""
        if user in self._trying:
            raise too_often(AGAIN, "your last dry run is still under way; a user may run one at a time")
        wait = self._pods.take(user, self._clock(), pods)
        if wait:
            raise too_often(
                wait, f"too many pods: dry runs of a user may have {PODS} at once and {PODS_RATE} per second"
            )
        self._trying.add(user)
        try:
            return await self.question(user, work)
        finally:
            self._trying.discard(user)

    async def question(self, user: str, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, in its turn. A user's questions wait for each other first, so that users take turns."""
        line = self._lines.setdefault(tenant(user), asyncio.Lock())
        async with line:
            await self._turn.acquire()
            try:
                await self._sleep(max(0.0, min(LONGEST_REST, self._free_at - self._clock())))
            except BaseException:
                self._turn.release()
                raise
            # If the caller gives up, its thread goes on: the turn ends with the thread.
            task, began = asyncio.ensure_future(work()), self._clock()
            task.add_done_callback(lambda done: self._over(done, began))
            return await asyncio.shield(task)

    def _over(self, done: "asyncio.Future[T]", began: float) -> None:
        if not done.cancelled():
            done.exception()  # the caller may have given up
        ended = self._clock()
        self._free_at = ended + (ended - began) * (1 / SHARE - 1)
        self._turn.release()
