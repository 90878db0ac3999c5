"""The messages about a gang, and how often they are repeated.

A message goes to one member and to its owner. It is repeated when its numbers change, at most once in `announce_every`
seconds. If unchanged, the interval doubles each time, up to 5 minutes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from scheduler.ledger import gang_spec, quorum
from scheduler.ledger.gang import Aside, GangRecord, Member, Spec, arrival
from scheduler.ledger.messages import Mishap, Notice, Overlooked
from scheduler.ledger.namespace_usage import Quotas
from scheduler.ledger.phase import QUORUM_BOUND, State
from scheduler.model.decision import TEXT, Reason, Refuse, Wait
from scheduler.model.effects import Announce, Effect
from scheduler.model.policy import Policy
from scheduler.model.workload import GangKey, OwnerTraits, Phase

LONGEST = 300.0
NAMED = 3
"""Members of one gang that a message names."""

PATIENCE = 2.0
"""Seconds that a gang may miss members or capacity before it is reported: most gangs need less."""

Words: TypeAlias = tuple[Reason, str] | None
"""A reason with its message."""

_WAITING = {State.GATHERING, State.WAITING, State.FREEING, State.REFUSED}


def reason(record: GangRecord) -> Reason:
    """The reason for the gang's current state."""
    if isinstance(record.spec, Refuse):
        return record.spec.reason
    if isinstance(record.spec, Reason):
        return record.spec
    if record.state in QUORUM_BOUND:
        return Reason.BOUND
    if record.state == State.HELD:
        return Reason.SEATED
    if record.state == State.FREEING:
        return Reason.WAITING_FOR_PREEMPTION
    if record.state == State.LEAVING:
        return Reason.POD_DELETED
    if record.was_bound or any(member.bound for member in record.live()):
        return Reason.PARTIALLY_BOUND
    if record.state == State.GATHERING:
        return Reason.MISSING_MEMBERS
    return record.verdict.decision.reason if record.verdict.decision is not None else Reason.QUEUED


def words(record: GangRecord) -> Words:
    """Why it waits, with the message; None if it does not wait."""
    if record.state not in _WAITING:
        return None
    why = reason(record)
    return why, sentence(record, why)


def due(
    record: GangRecord,
    said: Words,
    policy: Policy,
    owners: Mapping[str, OwnerTraits],
    quotas: Quotas,
    now: float,
) -> Iterator[Effect]:
    """What to report now.  said: its `words`."""
    yield from _mishaps(record, policy, now)
    yield from _aside(record, policy, now)
    if record.state in QUORUM_BOUND:
        yield from _late(record, policy, now)
    if record.state not in _WAITING | {State.HELD} and not _seated_unsaid(record):
        return
    live = record.live()
    if not live:
        return
    if said is not None:
        why, message = said
        if _speak(record, why, message, policy, now):
            record.told_waiting = True
            yield _announce(record, why, message, now, seated=False)
    elif _seated_unsaid(record) and now >= _may_say(record, Reason.SEATED, policy):
        record.told_waiting = False
        record.notices[Reason.SEATED] = Notice(TEXT[Reason.SEATED], now, policy.announce_every)
        yield _announce(record, Reason.SEATED, TEXT[Reason.SEATED], now, seated=True)
    for text in _warnings(record, live, owners, quotas) if record.state in _WAITING | {State.HELD} else ():
        if _speak(record, Reason.IGNORED_FIELD, text, policy, now):
            record.warned |= {own.field for own in record.overlooked}
            yield _announce(record, Reason.IGNORED_FIELD, text, now, seated=None)


def note_mishaps(record: GangRecord, why: Reason, befell: Iterable[Mishap], action: str = "") -> None:
    """Record what happened to members and the reaction, to be reported as soon as permitted."""
    record.untold.setdefault(why, {}).setdefault(action, []).extend(befell)


def _mishaps(record: GangRecord, policy: Policy, now: float) -> Iterator[Announce]:
    """For each reason, one message with everything unreported, on the first affected member."""
    for why in [why for why in record.untold if now >= _may_say(record, why, policy)]:
        untold = record.untold.pop(why)
        head = f"{TEXT[why]}: " if why is Reason.NOT_STARTED else ""
        text = head + ". ".join(_sentence(befell, action) for action, befell in untold.items())
        record.notices[why] = Notice(text, now, policy.announce_every)
        pod = next(iter(untold.values()))[0].pod
        yield Announce(record.key, pod.uid, pod.key, pod.owner, why, text)


def _sentence(befell: list[Mishap], action: str) -> str:
    """What happened to the first few members, their number, and the reaction."""
    text = ", ".join(own.text for own in befell[:NAMED])
    count = f"{len(befell)} members: " if len(befell) > 1 else ""
    more = f" and {len(befell) - NAMED} more" if len(befell) > NAMED else ""
    return f"{count}{text}{more}; {action}" if action else f"{count}{text}{more}"


def _aside(record: GangRecord, policy: Policy, now: float) -> Iterator[Effect]:
    """Why members don't count, on the first of each kind. The gang itself may be fine."""
    for (why, text), speaker in _speakers_aside(record).items():
        if _speak(record, why, text, policy, now):
            yield _announce(record, why, text, now, seated=False, speaker=speaker)


def _speakers_aside(record: GangRecord) -> dict[Aside, Member]:
    aside = [m for m in record.members.values() if m.aside is not None and m.stays]
    if not aside:
        return {}
    first: dict[Reason, Member] = {}
    for member in sorted(aside, key=_speaks_first):
        if member.aside is not None:
            first.setdefault(member.aside.reason, member)
    return {m.aside: m for m in first.values() if m.aside is not None}


def _late(record: GangRecord, policy: Policy, now: float) -> Iterator[Effect]:
    """Ignored settings of a gang that has its seats, once per field: they may be rewritten at every checkpoint."""
    unsaid = _unsaid(record)
    if unsaid and record.live() and now >= _may_say(record, Reason.IGNORED_FIELD, policy):
        text = "; ".join(own.text for own in unsaid)
        record.warned |= {own.field for own in unsaid}
        record.notices[Reason.IGNORED_FIELD] = Notice(text, now, policy.announce_every)
        yield _announce(record, Reason.IGNORED_FIELD, text, now, seated=None)


def _unsaid(record: GangRecord) -> list[Overlooked]:
    return [own for own in record.overlooked if own.field not in record.warned] if record.overlooked else []


def _seated_unsaid(record: GangRecord) -> bool:
    return record.told_waiting and record.state in QUORUM_BOUND


def _may_say(record: GangRecord, why: Reason, policy: Policy) -> float:
    said = record.notices.get(why)
    return said.at + policy.announce_every if said is not None else float("-inf")


def next_due(record: GangRecord, said: Words, policy: Policy, now: float) -> float:
    """When something unreported may be reported, if nothing else happens.  said: its `words`."""
    free = list(record.untold)
    if record.state in QUORUM_BOUND:
        free += [Reason.SEATED] if record.told_waiting else []
        free += [Reason.IGNORED_FIELD] if _unsaid(record) else []
    times = [_may_say(record, why, policy) for why in free]
    times += [_again(record, *own, policy) for own in _speakers_aside(record)]
    times += [_again(record, *said, policy)] if said is not None and record.state not in QUORUM_BOUND else []
    return min([time for time in times if time > now], default=float("inf")) if times else float("inf")


def _again(record: GangRecord, why: Reason, message: str, policy: Policy) -> float:
    last = record.notices.get(why)
    if last is None:
        return float("inf")
    return last.at + (min(last.span, policy.announce_every) if message != last.message else last.span)


def _speaker(record: GangRecord) -> Member:
    """The member for messages: one that already has the condition, otherwise the oldest."""
    return min(record.live(), key=_speaks_first)


def _speaks_first(member: Member) -> tuple[bool, tuple[float, str]]:
    return member.says in {None, Reason.SEATED}, arrival(member)


def sentence(record: GangRecord, why: Reason) -> str:
    """The reason as a message, with its figures."""
    if isinstance(record.spec, Refuse):
        refused = record.spec
        return f"{TEXT[why]}: {refused.field}: {refused.value!r}: {refused.remedy}"
    verdict = record.verdict.decision
    if why is Reason.PARTIALLY_BOUND and isinstance(record.spec, Spec):
        lacks = _lacks(record, verdict, "; ")
        bound = f"{_bound(record, record.spec)} of {record.spec.total} are bound"
        kept = f"; reserved for missing members: {', '.join(record.kept)}" if record.kept else ""
        return f"{TEXT[why]}: {bound}{kept}{lacks}{_refused(record)}{_failed(record)}{record.quota_full}"
    if why is Reason.MISSING_MEMBERS and isinstance(record.spec, Spec):
        there = f"{_there(record, record.spec)} of {record.spec.total} exist"
        return f"{TEXT[why]}: {there}{_held_back(record)}{record.quota_full}"
    if isinstance(verdict, Refuse):
        return f"{TEXT[why]}: {verdict.field}: {verdict.value!r}: {verdict.remedy}"
    if why is Reason.WAITING_FOR_PREEMPTION and record.plan is not None and record.plan.victims:
        return f"{TEXT[why]}: pods remaining: {len(record.plan.victims)}{_failed(record)}"
    if isinstance(verdict, Wait) and verdict.ceiling is not None:
        return f"{TEXT[why]}: {verdict.ceiling}"
    if isinstance(verdict, Wait) and verdict.behind is not None:
        return f"{TEXT[why]}: {_lets_pass(record, verdict.behind)}"
    text = TEXT[why] + _lacks(record, verdict, ": ") + _held_for(record, verdict, why) + _refused(record)
    return text + _failed(record) if why in _WRITTEN else text


def _refused(record: GangRecord) -> str:
    """kube-scheduler's message for the first member that it rejects by rules that the planner does not model."""
    said = ((m.pod.key.name, m.pod.pending) for m in sorted(record.live(), key=arrival))
    if not record.unmodeled:
        return ""
    name, words = next(((name, own.message) for name, own in said if own and own.message), ("", ""))
    return f"; kube-scheduler reports for {name}: {words}" if words else ""


def _lets_pass(record: GangRecord, first: GangKey) -> str:
    """Names of gangs in another namespace are not disclosed."""
    ahead = first.name if first.namespace == record.key.namespace else "a gang in another namespace"
    rules = ", ".join(sorted({rule for member in record.live() for rule in member.pod.unmodeled}))
    return f"{ahead} is still starting; gangs with {rules} start one at a time"


_WRITTEN = frozenset({Reason.BACKING_OFF, Reason.SEATED})
"""Reasons during which members are written, or could not be."""


def _failed(record: GangRecord) -> str:
    """The error that keeps its members gated, for example an admission policy that denies Gangwright's write."""
    return f"; the last write for the gang failed: {record.failed.text}" if record.failed is not None else ""


def _held_for(record: GangRecord, verdict: Wait | None, why: Reason) -> str:
    """The gang that the free capacity is reserved for. Names of gangs in another namespace are not disclosed."""
    holder = verdict.held_for if why is Reason.CAPACITY_RESERVED and verdict is not None else None
    if holder is None:
        return ""
    name = "a single pod" if gang_spec.is_gang_of_one(holder) else str(holder)
    if holder.namespace != record.key.namespace:
        name = "a gang in another namespace"
    return f"; the remaining free capacity is reserved for {name}"


def _lacks(record: GangRecord, verdict: Wait | Refuse | None, joined: str) -> str:
    """The shortfall, and how long nodes stay excluded for this gang.

    The message has the full span, not the remainder: a text that always changes is always repeated.
    """
    if not isinstance(verdict, Wait) or verdict.shortfall is None:
        return ""
    if not verdict.shortfall.blocked.get("excluded", 0):
        return f"{joined}{verdict.shortfall}"
    span = max((record.pinning.barred[node][1] for node in record.pinning.barred_nodes), default=0.0)
    return f"{joined}{verdict.shortfall}; a failed placement excludes its node for {span:g} s"


def _bound(record: GangRecord, spec: Spec) -> int:
    return _of_quorum(spec, (m for m in record.members.values() if (m.bound and m.live) or _succeeded(m)))


def _there(record: GangRecord, spec: Spec) -> int:
    there = (m for m in record.members.values() if m.live and (m.bound or not m.pod.held_back))
    return _of_quorum(spec, (*there, *filter(_succeeded, record.members.values())))


def _succeeded(member: Member) -> bool:
    return member.pod.phase is Phase.SUCCEEDED


def _of_quorum(spec: Spec, members: Iterable[Member]) -> int:
    """How many of these members count for the quorum: at most its minimum per role, and no surplus."""
    return spec.total - quorum.QuorumCount(spec, members).left


def _held_back(record: GangRecord) -> str:
    """Pods that exist but have scheduling gates of another controller."""
    count = sum(m.pod.held_back and not m.bound for m in record.live())
    members = "1 member has" if count == 1 else f"{count} members have"
    return f"; {members} scheduling gates of another controller" if count else ""


def _speak(record: GangRecord, why: Reason, message: str, policy: Policy, now: float) -> bool:
    said = record.notices.get(why)
    if said is None:
        patient = why in _PATIENT
        span = PATIENCE if patient else policy.announce_every
        record.notices[why] = Notice("" if patient else message, now, span)
        return not patient
    if now < _again(record, why, message, policy):
        return False
    changed = message != said.message
    span = policy.announce_every if changed else min(2 * said.span, LONGEST)
    again = (said.since, said.count, said.uid) if not changed else ()
    record.notices[why] = Notice(message, now, span, *again)
    return True


_PATIENT = frozenset(
    {
        Reason.QUEUED,
        Reason.MISSING_MEMBERS,
        Reason.QUORUM_UNKNOWN,
        Reason.PARTIALLY_BOUND,
        Reason.NAME_CONFLICT,
    }
)
"""Reasons that most gangs pass through briefly. They are reported only if they last."""


def _warnings(
    record: GangRecord, live: Sequence[Member], owners: Mapping[str, OwnerTraits], quotas: Quotas
) -> list[str]:
    """Settings that have no effect as one message: ignored fields, and conflicts with the owner or a quota."""
    eldest = min(live, key=arrival, default=None)
    said = [own.text for own in record.overlooked]
    owner = eldest.pod.owner if eldest else None
    traits = owners.get(owner.uid) if owner else None
    said += [str(c) for c in traits.warnings] if traits else []
    said += quotas.too_small(record)
    return ["; ".join(said)] if said else []


def _announce(
    record: GangRecord,
    why: Reason,
    message: str,
    now: float,
    *,
    seated: bool | None,
    speaker: Member | None = None,
) -> Announce:
    """Report it on the speaker. The same message on the same member continues its series; any other starts one."""
    speaker, notice = speaker or _speaker(record), record.notices.get(why)
    pod = speaker.pod
    if notice is None or notice.message != message:
        notice = Notice(message, now, 0.0)  # a one-time message
    if notice.uid != pod.uid:
        notice.since, notice.count, notice.uid = now, 0, pod.uid
    notice.count += 1
    turned = not (seated is False and speaker.says not in {None, Reason.SEATED})
    if seated is not None:
        speaker.telling = why
    return Announce(
        record.key,
        pod.uid,
        pod.key,
        pod.owner,
        why,
        message,
        seated,
        turned,
        since=notice.since,
        count=notice.count,
    )
