"""Gangs as users see them: the engine's state → schemas. Pure: no await, no clock; `now` is an argument.

Lives here: the fact for each field, and which fields are hidden. Never here: the identity of the caller.

Why views are computed in steps: a cluster has thousands of gangs, and kube-scheduler waits during each step. So a view
is a generator that may pause between any two steps. It keeps no record across a step, because it may be deleted then.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from scheduler.engine import Engine
from scheduler.engine.explanation import Found
from scheduler.ledger import conditions, gang_spec, phase, quorum, runtime_limit
from scheduler.ledger.gang import GangRecord, Spec, Step
from scheduler.ledger.phase import State
from scheduler.model.decision import Reason, Refuse, Shortfall, Wait
from scheduler.model.preemption_units import Unit
from scheduler.model.queueing import Estimate
from scheduler.model.workload import GangKey
from scheduler.status import gang_detail, inactive_gangs, label_selector, members, schemas
from scheduler.status.authorization import Sight
from scheduler.status.label_selector import Selector

T = TypeVar("T")
Steps = Generator[None, None, T]

STRIDE: Final = 16
"""Gangs processed in one step: with a few dozen pods each, about half a millisecond."""

_WAITS: Final = frozenset({State.GATHERING, State.WAITING, State.FREEING, State.REFUSED})
_LACKS_ROOM: Final = (Reason.CAPACITY_RESERVED, Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY_UNSATISFIED)


@dataclass(frozen=True, slots=True)
class Page:
    """The requested part of a list."""

    offset: int = 0
    limit: int = 500


@dataclass(frozen=True, slots=True)
class Outlook:
    """Facts from outside the ledger: when gangs start, which pods they preempt, and which gangs wait in vain."""

    forecasts: Mapping[GangKey, Estimate] = field(default_factory=dict)
    victims: Callable[[GangKey], Sequence[Unit]] = lambda _gang: ()
    in_vain: Callable[[GangRecord], bool] = lambda record: record.waits_in_vain


NOTHING: Final = Outlook()
UNASKED: Final = Found()


def at_once(steps: Steps[T]) -> T:
    """Compute a view without pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            view: T = end.value
            return view


def namespaces(engine: Engine) -> list[str]:
    """Every namespace that has a gang, in order."""
    registry = engine.ledger.registry
    return sorted({key.namespace for key in (*registry.gangs, *registry.asleep)})


def queue(
    engine: Engine, sight: Sight, now: float, page: Page, outlook: Outlook = NOTHING, selector: Selector = ()
) -> Steps[schemas.GangList]:
    """Pending gangs in queue order, followed by gangs that cannot be placed as they are."""
    places = yield from _places(engine, outlook)
    behind: list[tuple[int, float, GangKey]] = []
    for records in each_gang(engine):
        behind += (
            (-record.priority, record.arrived, record.key)
            for record in records
            if record.key not in places and state(engine, record) in _WAITS
        )
        yield
    keys = [*places, *(key for *_, key in sorted(behind))]
    if selector:
        keys = yield from _chosen(engine, sight, keys, selector)
    return (yield from _listed(engine, sight, now, page, outlook, keys, places))


def gangs(
    engine: Engine,
    sight: Sight,
    now: float,
    page: Page,
    outlook: Outlook = NOTHING,
    namespace: str | None = None,
    selector: Selector = (),
) -> Steps[schemas.GangList]:
    """All gangs, or those of one namespace, by namespace and name. Hidden gangs come last, in no order.

    Gangs that are over are omitted.
    """
    places = yield from _places(engine, outlook)
    keys: list[GangKey] = []
    for records in each_gang(engine, namespace):
        keys += (record.key for record in records if not inactive_gangs.is_over(engine, record))
        yield
    for some in batched([key for key in engine.ledger.registry.asleep if namespace in {None, key.namespace}]):
        keys += (key for key in some if inactive_gangs.is_without_pods(engine, key))
        yield
    shown = sorted(key for key in keys if sight.sees(key))
    yield
    keys = shown + sorted((key for key in keys if not sight.sees(key)), key=sight.alias)
    if selector:
        keys = yield from _chosen(engine, sight, keys, selector)
    return (yield from _listed(engine, sight, now, page, outlook, keys, places))


def _chosen(
    engine: Engine, sight: Sight, keys: Sequence[GangKey], selector: Selector
) -> Steps[list[GangKey]]:
    """The gangs whose first pod has the labels. Labels of hidden gangs are hidden too."""
    gangs, chosen = engine.ledger.registry.gangs, list[GangKey]()
    for some in batched(keys):
        seen = (gangs[key] for key in some if key in gangs and sight.sees(key))
        chosen += (record.key for record in seen if label_selector.chooses(selector, record))
        yield
    return chosen


def _places(engine: Engine, outlook: Outlook) -> Steps[dict[GangKey, int]]:
    """The positions in the queue, in order, of the gangs that do not wait in vain."""
    places: dict[GangKey, int] = {}
    for some in batched(engine.ledger.pending.queue()):
        for record in some:
            if not outlook.in_vain(record):
                places[record.key] = len(places) + 1
        yield
    return places


def _listed(
    engine: Engine,
    sight: Sight,
    now: float,
    page: Page,
    outlook: Outlook,
    keys: Sequence[GangKey],
    places: Mapping[GangKey, int],
) -> Steps[schemas.GangList]:
    rows: list[schemas.GangRow] = []
    shown = keys[page.offset : page.offset + page.limit]
    end = page.offset + len(shown)
    for some in batched(shown):
        for key in some:
            record = engine.ledger.registry.gangs.get(key)
            if record is not None:
                rows.append(row(engine, record, sight, now, outlook, places.get(key)))
            elif inactive_gangs.is_without_pods(engine, key):
                rows.append(inactive_gangs.row_without_pods(engine, key, sight))
        yield
    return schemas.GangList(
        acting=engine.ledger.acting,
        generation=engine.ledger.nodes.generation,
        total=len(keys),
        offset=page.offset,
        next=end if end < len(keys) else None,
        unchecked=sight.unchecked,
        gangs=rows,
    )


def batched(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    """The keys in batches, one per step."""
    return (keys[start : start + STRIDE] for start in range(0, len(keys), STRIDE))


def each_gang(engine: Engine, namespace: str | None = None) -> Iterator[list[GangRecord]]:
    """All gangs, or those of one namespace, in batches, one per step. Gangs deleted before their step are omitted."""
    gangs = engine.ledger.registry.gangs
    for some in batched([key for key in gangs if namespace in {None, key.namespace}]):
        yield [gangs[key] for key in some if key in gangs]


def find(engine: Engine, namespace: str, name: str) -> GangRecord | None:
    """The gang of this name, or the gang of one whose pod has this name."""
    gangs = engine.ledger.registry.gangs
    alone = (
        found
        for key, found in gangs.items()
        if key.namespace == namespace and gang_spec.is_gang_of_one(key) and name_of(found) == name
    )
    return gangs.get(GangKey(namespace, name)) or next(alone, None)


def row(
    engine: Engine,
    record: GangRecord,
    sight: Sight,
    now: float,
    outlook: Outlook = NOTHING,
    position: int | None = None,
) -> schemas.GangRow:
    """One gang in a list."""
    judged, sees, key = engine.ledger.acting, sight.sees(record.key), record.key
    eldest, (wanted, held) = members.eldest(record), members.devices(record)
    owner = eldest.pod.owner if eldest is not None and sees else None
    where, why = state(engine, record), conditions.reason(record)
    waits = where in _WAITS or position is not None
    said = conditions.sentence(record, why) if judged and sees else None
    if where == inactive_gangs.SUSPENDED:
        why, said = (
            inactive_gangs.why_asleep(engine, key),
            said and inactive_gangs.how_it_resumes(engine, key),
        )
    elif where == inactive_gangs.OVER:
        why, said = Reason.FINISHED, said and inactive_gangs.how_it_ended(record)
    return schemas.GangRow(
        id=sight.alias(key),
        namespace=key.namespace if sees else None,
        name=name_of(record) if sees else None,
        key=key.name if sees else None,
        alone=gang_spec.is_gang_of_one(key),
        state=where,
        reason=why if judged else None,
        message=said,
        position=position,
        priority=record.priority,
        wait_seconds=_wait(record, now) if waits else None,
        members=_members(engine, record),
        forecast=_starts(record, outlook, now) if judged and waits else None,
        owner=f"{owner.kind}/{owner.name}" if owner is not None else None,
        created=(eldest.pod.created or None) if eldest is not None else None,
        started=record.account.began if record.account is not None else None,
        devices_wanted=wanted,
        devices_held=held,
    )


def _starts(record: GangRecord, outlook: Outlook, now: float) -> schemas.Forecast | None:
    """When the gang starts. None if that time has passed, or if the gang waits in vain."""
    found = outlook.forecasts.get(record.key)
    told = found is not None and found.high >= now and not outlook.in_vain(record)
    return forecast(found) if told else None


def detail(
    engine: Engine,
    record: GangRecord,
    sight: Sight,
    now: float,
    outlook: Outlook = NOTHING,
    found: Found = UNASKED,
    rows: Iterable[schemas.MemberRow] | None = None,
) -> schemas.GangDetail:
    """Everything about one gang, for a user who may read its name.

    found: the planner's answer about it. rows: its pods, if they were processed in steps.
    """
    spec, plan, judged = _spec(engine, record), record.plan, engine.ledger.acting
    helped = (other for other in engine.ledger.pending.queue() if not outlook.in_vain(other))
    place = next((i for i, other in enumerate(helped, start=1) if other is record), None)
    verdict, victims = record.verdict.decision, outlook.victims(record.key) if judged else ()
    reserved = engine.cycle.head.reserved
    return schemas.GangDetail(
        acting=judged,
        generation=engine.ledger.nodes.generation,
        gang=row(engine, record, sight, now, outlook, place),
        quorum=dict(spec.quorum) if isinstance(spec, Spec) else None,
        size=spec.size if isinstance(spec, Spec) else None,
        wishes=gang_detail.wishes(engine.policy, spec),
        deadline=record.bind_limit.by,
        ends_by=runtime_limit.end(record, now),
        not_before=record.backoff.not_before if record.backoff.not_before > now else None,
        tries=record.backoff.tries,
        broken_pins=record.pinning.broken,
        soft=record.pinning.soft,
        plan=schemas.PlanRow(plan.name, plan.step.name.lower(), len(plan.outstanding))
        if plan is not None and plan.step is not Step.DONE
        else None,
        shortfalls=[shortfall(verdict.shortfall)] if isinstance(verdict, Wait) and verdict.shortfall else [],
        nearest=[shortfall(one) for one in found.nearest],
        refusal=gang_detail.refusal(spec) or gang_detail.refusal(verdict),
        notices=[
            schemas.NoticeRow(why, notice.message, notice.at)
            for why, notice in record.notices.items()
            if notice.message
        ],
        barred=gang_detail.barred(record, now),
        victims=[victim(engine, unit, sight) for unit in victims],
        would_cost=[victim(engine, unit, sight) for unit in found.victims],
        behind=_behind(engine, record, verdict, sight),
        leaving=[gang_detail.leaving(own, sight) for own in plan.victims.values()]
        if plan is not None
        else [],
        preempted=members.preempted(record, sight),
        reserved_from=reserved.start if reserved is not None and reserved.key == record.key else None,
        members=list(map(members.row, members.ordered(record)) if rows is None else rows),
    )


def name_of(record: GangRecord) -> str:
    """The gang's name for users: that of its pod for a gang of one."""
    if not gang_spec.is_gang_of_one(record.key):
        return record.key.name
    return next((member.pod.key.name for member in record.members.values()), record.key.name)


def _called(engine: Engine, unit: Unit) -> str:
    """The gang's name; for a pod without a gang, also of another scheduler, the pod's name."""
    record = engine.ledger.registry.gangs.get(unit.gang)
    if record is not None:
        return name_of(record)
    pod = engine.ledger.registry.pod(unit.uids[0])
    return pod.key.name if pod is not None else unit.gang.name


def state(engine: Engine, record: GangRecord) -> str:
    """The gang's state. If the gang has not been reviewed yet, the state that a review would find."""
    found = _state(engine, record)
    if found != State.LEAVING:
        return found
    if inactive_gangs.is_suspended(engine, record):
        return inactive_gangs.SUSPENDED
    return inactive_gangs.OVER if inactive_gangs.is_over(engine, record) else found


def _state(engine: Engine, record: GangRecord) -> str:
    if record.state:
        return str(record.state)
    spec = _spec(engine, record)
    if isinstance(spec, Spec):
        return phase.state(quorum.facts(record, spec))
    if not any(member.live for member in record.members.values()):
        return State.LEAVING
    return State.REFUSED if isinstance(spec, Refuse) else State.GATHERING


def _spec(engine: Engine, record: GangRecord) -> Spec | Refuse | Reason:
    return record.spec or gang_spec.spec(record, engine.ledger.groups, engine.policy)


def _wait(record: GangRecord, now: float) -> float:
    since = record.waiting_since if record.waiting_since is not None else record.arrived
    return round(max(0.0, now - since), 1)


def _members(engine: Engine, record: GangRecord) -> schemas.Members:
    spec = _spec(engine, record)
    said = spec.total if isinstance(spec, Spec) else None
    lives = any(member.live for member in record.members.values())
    return members.counts(record, said if lives else inactive_gangs.needed(engine, record))


def _behind(engine: Engine, record: GangRecord, verdict: object, sight: Sight) -> schemas.Behind | None:
    """The gang that capacity is reserved for: by a reservation, or until preempted pods have terminated."""
    if not isinstance(verdict, Wait) or verdict.reason not in _LACKS_ROOM:
        return None
    reserved, gangs = engine.cycle.head.reserved, engine.ledger.registry.gangs
    if verdict.reason is Reason.CAPACITY_RESERVED:
        key, start = (reserved.key, reserved.start) if reserved is not None else (record.key, 0.0)
    else:
        frees = (own for own in gangs.values() if own.state == State.FREEING)
        holder = next((own for own in frees if own is not record), record)
        key, start = holder.key, holder.preemption.at
    if key == record.key:
        return None
    sees, name = sight.sees(key), name_of(gangs[key]) if key in gangs else key.name
    return schemas.Behind(sight.alias(key), key.namespace if sees else None, name if sees else None, start)


def shortfall(found: Shortfall) -> schemas.LevelShortfall:
    """How close the best domain is to holding the gang."""
    return schemas.LevelShortfall(
        found.needed, found.demand, found.level, found.domain, found.best, dict(found.blocked)
    )


def forecast(found: Estimate | None) -> schemas.Forecast | None:
    """The forecast, if there is one."""
    return schemas.Forecast(found.middle, found.low, found.high) if found is not None else None


def victim(engine: Engine, unit: Unit, sight: Sight) -> schemas.VictimRow:
    """A potential victim. Names that the caller may not read are omitted."""
    sees = sight.sees(unit.gang)
    return schemas.VictimRow(
        id=sight.alias(unit.gang),
        namespace=unit.gang.namespace if sees else None,
        gang=_called(engine, unit) if sees else None,
        kind=unit.kind.name.lower(),
        pods=len(unit.uids),
        priority=unit.priority,
        lost=unit.lost,
        way=unit.way,
    )
