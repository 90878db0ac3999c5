"""What people are told of a gang, and how often.

One notice goes to one member and to its owner. The same reason is repeated when its numbers change, at most
once in `announce_every` seconds; unchanged it is repeated at twice the distance each time, up to five minutes.
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
"""Members of one gang of which people are told by name at a time."""

PATIENCE = 2.0
"""Seconds that a gang may lack members or room before people are told: most gangs need less."""

Words: TypeAlias = tuple[Reason, str] | None
"""A reason with its sentence."""

_WAITING = {State.GATHERING, State.WAITING, State.FREEING, State.REFUSED}


def reason(record: GangRecord) -> Reason:
    """Why the gang is where it is."""
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
    """Why it waits, and the sentence for it; None: it does not wait."""
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
    """What is to be said now.  said: its `words`."""
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
            record.warned.update(own.field for own in record.overlooked)
            yield _announce(record, Reason.IGNORED_FIELD, text, now, seated=None)


def note_mishaps(record: GangRecord, why: Reason, befell: Iterable[Mishap], action: str = "") -> None:
    """Members were lost, did not start …, and what is done: to be told as soon as it may be."""
    record.untold.setdefault(why, {}).setdefault(action, []).extend(befell)


def _mishaps(record: GangRecord, policy: Policy, now: float) -> Iterator[Announce]:
    """Of each reason all that is unsaid, in one notice on the first that it befell."""
    for why in [why for why in record.untold if now >= _may_say(record, why, policy)]:
        untold = record.untold.pop(why)
        head = f"{TEXT[why]}: " if why is Reason.NOT_STARTED else ""
        text = head + ". ".join(_sentence(befell, action) for action, befell in untold.items())
        record.notices[why] = Notice(text, now, policy.announce_every)
        pod = next(iter(untold.values()))[0].pod
        yield Announce(record.key, pod.uid, pod.key, pod.owner, why, text)


def _sentence(befell: list[Mishap], action: str) -> str:
    """What befell the first few, how many they are, and what is done."""
    text = ", ".join(own.text for own in befell[:NAMED])
    count = f"{len(befell)} members: " if len(befell) > 1 else ""
    more = f" and {len(befell) - NAMED} more" if len(befell) > NAMED else ""
    return f"{count}{text}{more}; {action}" if action else f"{count}{text}{more}"


def _aside(record: GangRecord, policy: Policy, now: float) -> Iterator[Effect]:
    """Why members do not count, on the first of each kind: the gang itself may be well."""
    for (why, text), speaker in _speakers_aside(record).items():
        if _speak(record, why, text, policy, now):
            yield _announce(record, why, text, now, seated=False, speaker=speaker)


def _speakers_aside(record: GangRecord) -> dict[Aside, Member]:
    aside = [m for m in record.members.values() if m.aside is not None and m.stays]
    first: dict[Reason, Member] = {}
    for member in sorted(aside, key=_speaks_first):
        if member.aside is not None:
            first.setdefault(member.aside.reason, member)
    return {m.aside: m for m in first.values() if m.aside is not None}


def _late(record: GangRecord, policy: Policy, now: float) -> Iterator[Effect]:
    """What is overlooked of a gang that has its seats: once a field, for it may be written at every checkpoint."""
    unsaid = _unsaid(record)
    if unsaid and record.live() and now >= _may_say(record, Reason.IGNORED_FIELD, policy):
        text = "; ".join(own.text for own in unsaid)
        record.warned.update(own.field for own in unsaid)
        record.notices[Reason.IGNORED_FIELD] = Notice(text, now, policy.announce_every)
        yield _announce(record, Reason.IGNORED_FIELD, text, now, seated=None)


def _unsaid(record: GangRecord) -> list[Overlooked]:
    return [own for own in record.overlooked if own.field not in record.warned]


def _seated_unsaid(record: GangRecord) -> bool:
    return record.told_waiting and record.state in QUORUM_BOUND


def _may_say(record: GangRecord, why: Reason, policy: Policy) -> float:
    said = record.notices.get(why)
    return said.at + policy.announce_every if said is not None else float("-inf")


def next_due(record: GangRecord, said: Words, policy: Policy, now: float) -> float:
    """When something unsaid may be said, if nothing else happens.  said: its `words`."""
    free = list(record.untold)
    if record.state in QUORUM_BOUND:
        free += [Reason.SEATED] if record.told_waiting else []
        free += [Reason.IGNORED_FIELD] if _unsaid(record) else []
    times = [_may_say(record, why, policy) for why in free]
    times += [_again(record, *own, policy) for own in _speakers_aside(record)]
    times += [_again(record, *said, policy)] if said is not None and record.state not in QUORUM_BOUND else []
    return min((time for time in times if time > now), default=float("inf"))


def _again(record: GangRecord, why: Reason, message: str, policy: Policy) -> float:
    last = record.notices.get(why)
    if last is None:
        return float("inf")
    return last.at + (min(last.span, policy.announce_every) if message != last.message else last.span)


def _speaker(record: GangRecord) -> Member:
    """The member on which people are told: who bears the condition already, or else the eldest."""
    return min(record.live(), key=_speaks_first)


def _speaks_first(member: Member) -> tuple[bool, tuple[float, str]]:
    return member.says in {None, Reason.SEATED}, arrival(member)


def sentence(record: GangRecord, why: Reason) -> str:
    """The reason as a sentence, with the numbers that a person needs."""
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
    """What kube-scheduler says of the first member that it refuses by rules that the planner does not model."""
    said = ((m.pod.key.name, m.pod.pending) for m in sorted(record.live(), key=arrival))
    if not record.unmodeled:
        return ""
    name, words = next(((name, own.message) for name, own in said if own and own.message), ("", ""))
    return f"; kube-scheduler reports for {name}: {words}" if words else ""


def _lets_pass(record: GangRecord, first: GangKey) -> str:
    """The names of another namespace's gangs are not told."""
    ahead = first.name if first.namespace == record.key.namespace else "a gang in another namespace"
    rules = ", ".join(sorted({rule for member in record.live() for rule in member.pod.unmodeled}))
    return f"{ahead} is still starting; gangs with {rules} start one at a time"


_WRITTEN = frozenset({Reason.BACKING_OFF, Reason.SEATED})
"""Reasons of gangs whose members are written, or could not be."""


def _failed(record: GangRecord) -> str:
    """What keeps us from letting its members go: the policies of a cluster may refuse what we write."""
    return f"; the last write for the gang failed: {record.failed.text}" if record.failed is not None else ""


def _held_for(record: GangRecord, verdict: Wait | None, why: Reason) -> str:
    """For which gang room is held; what another namespace calls its own is not for everyone to read."""
    holder = verdict.held_for if why is Reason.CAPACITY_RESERVED and verdict is not None else None
    if holder is None:
        return ""
    name = "a single pod" if gang_spec.is_gang_of_one(holder) else str(holder)
    if holder.namespace != record.key.namespace:
        name = "a gang in another namespace"
    return f"; the remaining free capacity is reserved for {name}"


def _lacks(record: GangRecord, verdict: Wait | Refuse | None, joined: str) -> str:
    """What is short, and why some nodes that may have room are not given to this gang.

    The whole span of a bar is told, not what is left of it: a text that changes all the time is told all the time.
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
    """How many of these the quorum counts: of each role no more than it needs, and none above it."""
    return spec.total - quorum.QuorumCount(spec, members).left


def _held_back(record: GangRecord) -> str:
    """Pods that exist, and that others still keep at gates of their own."""
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
"""Reasons that most gangs pass through for a moment: said only when they last."""


def _warnings(
    record: GangRecord, live: Sequence[Member], owners: Mapping[str, OwnerTraits], quotas: Quotas
) -> list[str]:
    """What will not work as asked, in one text: what is overlooked, what the owner or a quota stands in the way of."""
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
    """Say it on the speaker. The same words on the same member go on with their series; all else begins one."""
    speaker, notice = speaker or _speaker(record), record.notices.get(why)
    pod = speaker.pod
    if notice is None or notice.message != message:
        notice = Notice(message, now, 0.0)  # it is said this once
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
