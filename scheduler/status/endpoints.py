"""The answer of each route: views of the engine, and actions, for users with the necessary rights.

Lives here: the rights that each answer requires. Never here: HTTP, or how a right is checked.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from scheduler.engine import Engine
from scheduler.engine.explanation import Found
from scheduler.ledger import share_amounts
from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import GangKey
from scheduler.objects.device_claims import DeviceClaims
from scheduler.objects.volumes import Volumes
from scheduler.status import (
    accounting,
    gang_views,
    history_views,
    inactive_gangs,
    label_selector,
    members,
    move_views,
    node_schemas,
    node_views,
    schemas,
    share_views,
    trials,
)
from scheduler.status.api_group import Standing
from scheduler.status.authorization import Alias, Reviews, Right, Sight, Subject
from scheduler.status.gang_views import UNASKED, Outlook, Page, Steps
from scheduler.status.label_selector import Selector
from scheduler.status.move_schemas import DefragAnswer, DefragRequest
from scheduler.status.operator_api import NOT_ACTING, OperatorError, OperatorService, Problem, Trial, reading
from scheduler.status.schemas import TrialRequest
from scheduler.status.trials import Trying

SPELL: Final = 0.001
"""Seconds that a view is computed without a pause. kube-scheduler may wait this long."""

PAUSE: Final = 0.001
"""Seconds between two spells, so that views take at most half of the time."""

ASKED_AT_ONCE: Final = 8
"""Concurrent access reviews for one caller."""

ASKED_AT_MOST: Final = 128
"""Maximum namespaces that one request reviews. The others stay hidden in this answer; the next request reviews them."""

FRESH: Final = 1.0
"""Seconds for which a survey of the nodes serves all callers: the nodes of a large cluster span several pages."""

MOVES_NAME_ALL: Final = "you may not list pods in all namespaces, which moves require"

PATIENCE: Final = 3.0
"""Seconds that a view of a gang waits for its turn to ask the planner how close the gang is to a placement."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """One parsed request: its caller, and the values of the path, the query and the body."""

    subject: Subject
    words: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None

    @property
    def page(self) -> Page:
        return Page(self.words["offset"], self.words["limit"])

    @property
    def selector(self) -> Selector:
        return label_selector.parse(self.words.get("labelSelector") or "")


class Endpoints:
    """One method per route. operator: None if the service offers none; then there are no actions and no dry runs.

    clock: the ledger's clock. fragmentation: by resource, as last measured. volumes: the volumes that claims of pods in
    dry runs are bound to; None: no claim is known. devices: likewise, their device claims.
    """

    def __init__(
        self,
        engine: Engine,
        reviews: Reviews,
        *,
        alias: Alias,
        clock: Callable[[], float],
        operator: OperatorService | None = None,
        fragmentation: Callable[[], Mapping[str, float]] = dict,
        volumes: Volumes | None = None,
        devices: DeviceClaims | None = None,
    ) -> None:
        self._engine = engine
        self._reviews = reviews
        self._alias = alias
        self._clock = clock
        self._operator = operator
        self._fragmentation = fragmentation
        self._volumes = volumes or Volumes()
        self._devices = devices or DeviceClaims()
        self._turn = asyncio.Lock()
        self._trying = Trying(clock)
        self._survey: node_views.Survey | None = None
        self._surveyed = 0.0

    @property
    def standing(self) -> Standing:
        """The current state of this replica."""
        ledger, states = self._engine.ledger, Standing
        found = (
            (not ledger.synced, states.READING), (not ledger.acting, states.STANDBY), (ledger.blind, states.STALE)
        )  # fmt: skip
        return next((state for holds, state in found if holds), states.ACTIVE)

    # ── views ───────────────────────────────────────────────────────────────────────────────────────────

    async def queue(self, ask: Ask) -> schemas.GangList:
        sight = await self._sight(ask.subject)
        return await self._leisurely(
            gang_views.queue(self._engine, sight, self._clock(), ask.page, self._outlook(), ask.selector)
        )

    async def gangs(self, ask: Ask) -> schemas.GangList:
        namespace = ask.words.get("namespace")
        sight = await self._sight(ask.subject, [namespace] if namespace is not None else None)
        _must_see(sight, namespace)
        view = gang_views.gangs(
            self._engine, sight, self._clock(), ask.page, self._outlook(), namespace, ask.selector
        )
        return await self._leisurely(view)

    async def gang(self, ask: Ask) -> schemas.GangDetail:
        namespace, name = ask.words["namespace"], ask.words["name"]
        await self._demand(ask.subject, Right("list", "pods", namespace))
        sight = await self._sight(ask.subject)
        found = await self._inquired(ask.subject, self._found(namespace, name))
        rows = await self._leisurely(members.rows(self._found(namespace, name)))
        record = self._found(namespace, name)
        return gang_views.detail(self._engine, record, sight, self._clock(), self._outlook(), found, rows)

    async def _inquired(self, subject: Subject, record: GangRecord) -> Found:
        operator, key = self._operator, record.key
        if operator is None or record.wanted is None or not self._engine.ledger.ready:
            return UNASKED
        try:
            # Parts that need a turn of the planner are omitted if its queue is long.
            async with asyncio.timeout(PATIENCE):
                return await self._trying.question(subject.user, lambda: operator.inquire(key))
        except TimeoutError:
            return UNASKED

    async def nodes(self, ask: Ask) -> node_schemas.NodeList:
        sight = await self._sight(ask.subject)
        return await self._leisurely(self._nodes(sight, ask.page))

    def _nodes(self, sight: Sight, page: Page) -> Steps[node_schemas.NodeList]:
        now = asyncio.get_running_loop().time()
        known, generation = self._survey, self._engine.ledger.nodes.generation
        if known is None or (known.picture.generation != generation and now - self._surveyed >= FRESH):
            self._survey, self._surveyed = (yield from node_views.survey(self._engine)), now
        return (yield from node_views.nodes(self._engine, sight, page, self._survey))

    async def cluster(self, ask: Ask) -> node_schemas.ClusterStatus:
        return await self._leisurely(
            node_views.cluster(self._engine, self._clock(), ask.subject.user, self._fragmentation())
        )

    async def shares(self, ask: Ask) -> accounting.ShareList:
        sight = await self._sight(ask.subject, share_amounts.namespaces(self._engine.ledger))
        return await self._leisurely(share_views.shares(self._engine, sight))

    async def history(self, ask: Ask) -> accounting.HistoryList:
        namespace, limit = ask.words.get("namespace"), ask.words["limit"]
        sight = await self._sight(ask.subject, history_views.namespaces(self._engine, namespace))
        _must_see(sight, namespace)
        return await self._leisurely(history_views.history(self._engine, sight, limit, namespace))

    # ── dry runs and actions ────────────────────────────────────────────────────────────────────────────

    async def simulate(self, ask: Ask) -> schemas.TrialAnswer:
        asked: TrialRequest = ask.body
        await self._demand(ask.subject, Right("create", "pods", asked.namespace))
        operator = self._acting()

        async def work() -> tuple[Trial, Mapping[str, str]]:
            policy, now = self._engine.policy, self._clock()
            steps = trials.pods(asked, policy.levels, self._volumes, self._devices, now)
            pods = await self._leisurely(steps)
            return await operator.simulate(pods), {pod.uid: pod.key.name for pod in pods}

        try:
            found, names = await self._trying.trial(ask.subject.user, trials.bounded(asked), work)
        except trials.Unfit as unfit:
            found, names = Trial(Reason.INVALID_SPEC, f"{TEXT[Reason.INVALID_SPEC]}: {unfit}"), {}
        sight = await self._sight(ask.subject) if found.victims else Sight(None, self._alias)
        return await self._leisurely(self._tried(found, names, sight))

    def _tried(self, found: Trial, names: Mapping[str, str], sight: Sight) -> Steps[schemas.TrialAnswer]:
        leaving: list[schemas.VictimRow] = []
        for some in gang_views.batched(found.victims):
            yield
            leaving += (gang_views.victim(self._engine, unit, sight) for unit in some)
        return schemas.TrialAnswer(
            starts=bool(found.seats),
            reason=found.reason,
            message=found.message,
            seats=[schemas.TrialSeat(names.get(uid, uid), node) for uid, node in found.seats.items()],
            victims=leaving,
            shortfalls=[gang_views.shortfall(found.shortfall)] if found.shortfall is not None else [],
            forecast=gang_views.forecast(found.start),
        )

    async def drain(self, ask: Ask) -> schemas.DrainAnswer:
        node = ask.words["node"]
        if not self._engine.ledger.synced:
            raise reading()  # the namespaces with pods on the node are not known yet, so rights cannot be checked
        if self._engine.ledger.nodes.get(node) is None:
            raise Problem(404, f"node {node} not found")
        await self._demand(ask.subject, Right("patch", "nodes", name=node), fresh=True)
        for namespace in self._tenants(node):
            right = Right("create", "pods", namespace, subresource="eviction")
            await self._demand(ask.subject, right, fresh=True)
        drained = await self._acting().drain(node, ask.subject.user)
        sight = await self._sight(ask.subject)
        moves = [schemas.Move(m.gang.namespace, m.gang.name, m.pods, m.outcome) for m in drained.moves]
        seen = [move for move in moves if sight.sees(GangKey(move.namespace, move.name))]
        return schemas.DrainAnswer(node, drained.done, seen)

    async def defrag(self, ask: Ask) -> DefragAnswer:
        asked: DefragRequest = ask.body
        if not await self._reviews.may(ask.subject, Right("list", "pods"), fresh=not asked.dry_run):
            raise Problem(403, MOVES_NAME_ALL)
        found = await self._trying.question(ask.subject.user, self._acting().find_moves)
        if found is None or not found.seats or asked.dry_run:
            return move_views.defrag(found)
        for namespace in sorted({move.gang.namespace for move in found.moves}):
            right = Right("create", "pods", namespace, subresource="eviction")
            await self._demand(ask.subject, right, fresh=True)
        self._acting().make_moves(found, ask.subject.user)
        return move_views.defrag(found, started=True)

    # ── rights ──────────────────────────────────────────────────────────────────────────────────────────

    async def _demand(self, subject: Subject, right: Right, *, fresh: bool = False) -> None:
        if not await self._reviews.may(subject, right, fresh=fresh):
            what = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
            raise _may_not(f"{right.verb} {what}", right.namespace, right.name)

    async def _sight(self, subject: Subject, among: Iterable[str] | None = None) -> Sight:
        """Namespaces whose names the caller may read. among: those that matter; None: all that have a gang."""
        if await self._reviews.may(subject, Right("list", "pods")):
            return Sight(None, self._alias)
        wanted = gang_views.namespaces(self._engine) if among is None else sorted(among)
        unknown = [name for name in wanted if self._seen(subject, name) is None]
        now = asyncio.Semaphore(ASKED_AT_ONCE)

        async def review(namespace: str) -> None:
            async with now:
                await self._reviews.may(subject, Right("list", "pods", namespace))

        await asyncio.gather(*map(review, unknown[:ASKED_AT_MOST]))
        seen = frozenset(name for name in wanted if self._seen(subject, name))
        return Sight(seen, self._alias, len(unknown[ASKED_AT_MOST:]))

    def _seen(self, subject: Subject, namespace: str) -> bool | None:
        return self._reviews.remembered(subject, Right("list", "pods", namespace))

    # ── engine and operator ────────────────────────────────────────────────────────────────────────────────

    def _found(self, namespace: str, name: str) -> GangRecord:
        record = gang_views.find(self._engine, namespace, name)
        if record is not None:
            return record
        if not self._engine.ledger.synced:
            raise reading()
        key, why = GangKey(namespace, name), ""
        if inactive_gangs.suspended_jobs(self._engine, key):
            why = f": {inactive_gangs.how_it_resumes(self._engine, key)}"
        raise Problem(404, f"gang {name} not found in namespace {namespace}{why}")

    def _tenants(self, node: str) -> list[str]:
        """Namespaces that have a pod of a gang on this node."""
        gangs = self._engine.ledger.registry.gangs.values()
        places = ((record, node_views.place(m)) for record in gangs for m in record.members.values())
        return sorted({record.key.namespace for record, place in places if place == node})

    def _outlook(self) -> Outlook:
        operator = self._operator
        return Outlook(operator.forecasts(), operator.victims) if operator is not None else Outlook()

    def _acting(self) -> OperatorService:
        if not self._engine.ledger.ready:
            raise Problem(409, NOT_ACTING)
        if self._operator is None:
            raise OperatorError("this status service is read-only")
        return self._operator

    async def _leisurely(self, steps: Steps[T]) -> T:
        """Compute a view step by step, so that kube-scheduler need not wait for a user. One view at a time."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            began = loop.time()
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    view: T = end.value
                    return view
                if loop.time() - began >= SPELL:
                    await asyncio.sleep(PAUSE)
                    began = loop.time()


def _must_see(sight: Sight, namespace: str | None) -> None:
    """Raises Problem if the caller may not read the names of the requested namespace."""
    if namespace is not None and not sight.sees(GangKey(namespace, "")):
        raise _may_not("list pods", namespace)


def _may_not(what: str, namespace: str, name: str = "") -> Problem:
    where = f" in namespace {namespace}" if namespace else ""
    return Problem(403, f"you may not {what}{' ' if name else ''}{name}{where}")
