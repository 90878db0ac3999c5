"""A submission as Gangwright reads it: gangs, their pods, and their errors.

Lives here: the way from manifests to pods of the model, with the decoders of the service, the checks, and their
messages. Never here: a call that changes anything. The effects of the API server (the gate, defaults of a namespace,
priority classes) are applied here, as far as they are visible from outside.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec
from rich.text import Text

from scheduler import errors
from scheduler.cli import manifest_pods, screen
from scheduler.cli.cluster_document import Reading
from scheduler.cli.template import Template, Thing, at
from scheduler.errors import SettingsError
from scheduler.kube import changes as ch
from scheduler.kube.client import Client
from scheduler.kube.listing import listed
from scheduler.ledger import gang_spec
from scheduler.model.events import Event, GroupSeen, PodSeen
from scheduler.model.policy import Policy
from scheduler.model.workload import GangKey, Group, Pod, PodKey
from scheduler.objects import api, labels, owners
from scheduler.objects.parsing import KNOWN, LABELS

_Stated: TypeAlias = Mapping[tuple[str, GangKey], Mapping[str, int]]
"""The quorums of pod groups, by format and gang."""

PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


class PriorityClass(msgspec.Struct, rename="camel"):
    """The fields that pods of this class get."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """The content of the manifests. pods: in order; events: the same with groups, as facts.

    wrong: errors because of which they would not be placed. notes: warnings about settings without effect, and advice.
    unnamed: pods that can't be identified later, because neither their names nor their gang's are known yet. held_up:
    gangs that would never start, and why: members are created only when others are ready, or count as members of
    another run. stated: quorums of pod groups.
    """

    pods: tuple[Pod, ...]
    events: tuple[Event, ...]
    wrong: tuple[str, ...]
    notes: tuple[str, ...]
    unnamed: frozenset[PodKey] = frozenset()
    made: tuple[Template, ...] = ()
    """The templates of the pods."""
    held_up: Mapping[GangKey, str] = field(default_factory=dict)
    stated: _Stated = field(default_factory=dict)

    @property
    def gangs(self) -> dict[GangKey, list[Pod]]:
        """The pods by gang. A pod without a gang has its own name as the key."""
        found: dict[GangKey, list[Pod]] = {}
        for pod in self.pods:
            found.setdefault(gang_of(pod), []).append(pod)
        return found

    @property
    def unmodeled(self) -> list[str]:
        """Fields of the pods that limit their nodes, but that the planner does not model."""
        return list(dict.fromkeys(field for pod in self.pods for field in pod.unmodeled))

    def is_named(self, pods: Iterable[Pod]) -> bool:
        """Whether they can be identified later: they are a gang, or their names are known before they are created."""
        return self.unnamed.isdisjoint(pod.key for pod in pods)

    def without(self, gone: Container[PodKey]) -> "Wish":
        """The submission without these pods."""
        events = (own for own in self.events if not (isinstance(own, PodSeen) and own.pod.key in gone))
        pods = (pod for pod in self.pods if pod.key not in gone)
        return replace(self, pods=tuple(pods), events=tuple(events))


def gang_of(pod: Pod) -> GangKey:
    """The pod's gang. For a pod without a gang, or a gang of one, the pod's name."""
    key = gang_spec.gang_key(pod)
    return GangKey(*pod.key) if gang_spec.is_gang_of_one(key) else key


def is_of_storage(unmodeled: str) -> bool:
    """Whether the unmodeled field depends on claims, which must have been read."""
    return unmodeled.startswith(("spec.volumes: a claim", "spec.resourceClaims"))


async def priorities(client: Client) -> Mapping[str, PriorityClass] | None:
    """The priority classes by name. None, with a note, if they may not be read."""
    try:
        found = await listed(client, ch.Resource(PRIORITIES, PriorityClass))
    except (errors.Forbidden, errors.NotFound):
        screen.note("you may not read priority classes; priority 0 is assumed")
        return None
    return {own.key.name: own.object for own in found if isinstance(own, ch.Seen)}


def wish(
    things: Sequence[Thing],
    namespace: str,
    reading: Reading,
    classes: Mapping[str, PriorityClass] | None,
    now: float,
) -> Wish:
    """The submission of these manifests. Raises SettingsError for unreadable objects."""
    classes = None if classes is None else {**classes, **_brought(things)}
    made = [_admitted(own, classes) for thing in things for own in manifest_pods.templates(thing, namespace)]
    brought = [*things, *(own.group for own in made if own.group)]
    groups = [own for thing in brought for own in manifest_pods.objects(thing, namespace)]
    submitted = [pod for own in made for pod in own.pods()]
    events = reading.imagine([*groups, *submitted])
    # Pods of the cluster are among the events, if a claim or a new kind of device request concerns them.
    mine = {pod.metadata.uid for pod in submitted}
    events = [
        event
        if isinstance(event, PodSeen) and event.pod.uid not in mine
        else _as_made(event, now, reading.policy)
        for event in events
    ]
    pods = tuple(event.pod for event in events if isinstance(event, PodSeen) and event.pod.uid in mine)
    seen = [event.group for event in events if isinstance(event, GroupSeen)]
    stated = {(own.format, own.key): own.quorum for own in seen}
    gangs = _by_gang(pods, made)
    held_up = dict([*_apart(pods, gangs, stated), *_held_up(pods, gangs, stated)])
    wrong = [*_wrong(pods, seen, made, stated, reading.policy), *held_up.values()]
    return Wish(
        pods,
        tuple(events),
        tuple(dict.fromkeys(wrong)),
        tuple(own for own in dict.fromkeys(_notes(pods, things, made)) if own not in wrong),
        frozenset(_unnamed(pods, made)),
        tuple(made),
        held_up,
        stated,
    )


def tell(wanted: Wish) -> None:
    """Show all findings, one per line: errors, then warnings."""
    for kind, style, texts in (("error", "bold red", wanted.wrong), ("warning", "yellow", wanted.notes)):
        for text in texts:
            screen.console(errors=True).print(
                Text.assemble((f"{kind}:", style), f" {screen.printable(text)}")
            )


def _brought(things: Iterable[Thing]) -> Mapping[str, PriorityClass]:
    """The priority classes in the manifests. Raises SettingsError."""
    try:
        return {
            str(thing["metadata"]["name"]): msgspec.convert(thing, PriorityClass)
            for thing in things
            if thing["kind"] == "PriorityClass"
        }
    except msgspec.ValidationError as error:
        raise SettingsError("PriorityClass", "its fields", str(error)) from None


def _unnamed(pods: Sequence[Pod], made: Sequence[Template]) -> Iterator[PodKey]:
    in_gangs = {pod.key for pod in pods if gang_of(pod) != GangKey(*pod.key)}
    for own in made:
        told = own.maker.partition("/")[0] in {"Pod", "StatefulSet", "LeaderWorkerSet"}
        keys = (PodKey(own.namespace, name) for name in own.names())
        yield from (key for key in keys if own.assumes or not (told or key in in_gangs))


def _admitted(own: Template, classes: Mapping[str, PriorityClass] | None) -> Template:
    """The template with the priority that the API server would set."""
    spec = own.pod.get("spec") or {}
    if classes is None or not isinstance(spec, dict) or "priority" in spec:
        return own
    named = spec.get("priorityClassName")
    usual = next((one for one in classes.values() if one.global_default), PriorityClass())
    if named and named not in classes:
        known = ", ".join(sorted(classes)) or "none"
        raise SettingsError("spec.priorityClassName", named, f"not found. Use one of: {known}")
    chosen = classes[named] if named else usual
    given = {"priority": chosen.value, "preemptionPolicy": chosen.preemption_policy or None}
    return replace(own, pod={**own.pod, "spec": {**given, **spec}})


def _as_made(event: Event, now: float, policy: Policy) -> Event:
    """The pod as it would be right after its creation: the newest one, with Gangwright's gate."""
    if not isinstance(event, PodSeen):
        return event
    ours = event.pod.scheduler in policy.scheduler_names
    return PodSeen(replace(event.pod, created=now, gated=ours))


def _wrong(
    pods: Sequence[Pod], groups: Iterable[Group], made: Sequence[Template], stated: _Stated, policy: Policy
) -> Iterator[str]:
    """The errors because of which they would not be placed."""
    if not made:
        yield "no pods found: these manifests contain no Job, JobSet, Pod or other supported kind"
    yield from _forged(made)
    names = " or ".join(sorted(policy.scheduler_names))
    for own in made:
        said = at(own.pod.get("spec"), "schedulerName") or "default-scheduler"
        if own.count and said not in policy.scheduler_names:
            place = f"{own.path}.spec.schedulerName".removeprefix(".")
            yield f"{own.maker}: {place}: must be {names}, not {said!r}; otherwise Gangwright ignores the pods"
    for pod in pods:
        yield from (str(complaint) for complaint in pod.complaints if complaint.fatal)
        wanted = pod.membership.wish.level if pod.membership else None
        known = [level.name for level in policy.levels]
        if wanted is not None and wanted not in known:
            yield f"{labels.LEVEL}: must be one of the configured levels {', '.join(known)}, not {wanted!r}"
    yield from (f"PodGroup {own.key.name}: {c}" for own in groups for c in own.complaints if c.fatal)
    for gang, role, least, there in _short(pods, stated):
        of = f" of role {role}" if role else ""
        yield f"gang {gang.name} requires {least} members{of}, but these manifests create {there}; it would never start"


def _forged(made: Sequence[Template]) -> Iterator[str]:
    """Annotations that only Gangwright may write: the API server would reject every pod."""
    for own in made:
        written = (own.pod.get("metadata") or {}).get("annotations") or {}
        yield from (
            f"{own.maker}: {key}: is written by Gangwright alone. Remove it"
            for key in (labels.PLAN, labels.SEAT)
            if key in written
        )


def _by_gang(pods: Sequence[Pod], made: Sequence[Template]) -> dict[GangKey, list[Template]]:
    """The templates of the members of each gang."""
    of_pod = {pod.key: gang_of(pod) for pod in pods}
    gangs: dict[GangKey, list[Template]] = {}
    for own in made:
        key = of_pod.get(PodKey(own.namespace, own.names()[0])) if own.count else None
        if key is not None:
            gangs.setdefault(key, []).append(own)
    return gangs


def _apart(
    pods: Sequence[Pod], gangs: Mapping[GangKey, Sequence[Template]], groups: _Stated
) -> Iterator[tuple[GangKey, str]]:
    """Gangs with pods of several controllers that state no size: the service counts one controller's pods at a time."""
    first = {own.gang: own for own in (pod.membership for pod in reversed(pods)) if own is not None}
    for gang, mates in gangs.items():
        said = first.get(gang)
        least = said.quorum.get("") if said is not None and said.quorum is not None else None
        if said is None or least is None or said.size is not None or (said.format, gang) in groups:
            continue
        share: Counter[tuple[str, str]] = Counter()
        for own in mates:
            maker = own.maker.partition("/")[0] if own.maker.startswith("Pod/") else own.maker
            share[maker, own.controller] += own.count // own.controllers
        most, total = max(share.values()), sum(own.count for own in mates)
        if most < least <= total:
            text = (
                f"gang {gang.name} requires {least} members, but no controller creates more than {most} of these {total} "
                f'pods; it would never start. Add the annotation {labels.MEMBERS}: "{total}" to every template, or use roles'
            )
            yield gang, text


def _held_up(
    pods: Sequence[Pod], gangs: Mapping[GangKey, Sequence[Template]], groups: _Stated
) -> Iterator[tuple[GangKey, str]]:
    """Gangs whose quorum needs pods that are created only after members of the same gang are ready, and why."""
    late: set[PodKey] = set()
    why: dict[GangKey, str] = {}
    for gang, mates in gangs.items():
        for own in mates:
            first = own.made_first({other.name for other in mates if other.maker == own.maker})
            if first < own.count:
                late |= {PodKey(own.namespace, name) for name in own.names()[first:]}
                why.setdefault(gang, f"{own.maker}: {own.awaits}")
    short = {gang for gang, *_ in _short(pods, groups)}  # reported already, as members that are never created
    early = [pod for pod in pods if pod.key not in late]
    held_up = dict.fromkeys(gang for gang, *_ in _short(early, groups) if gang not in short)
    yield from ((gang, why[gang]) for gang in held_up)


def _short(pods: Sequence[Pod], groups: _Stated) -> Iterator[tuple[GangKey, str, int, int]]:
    """Gangs that require more members than exist: the role, the required number, the existing number."""
    roles: dict[GangKey, Counter[str]] = {}
    quorums: dict[GangKey, Mapping[str, int]] = {}
    for pod in pods:
        own = pod.membership
        if own is not None and not own.surplus:
            roles.setdefault(own.gang, Counter())[own.role] += 1
            stated = groups.get((own.format, own.gang), own.quorum)
            if stated is not None:
                quorums.setdefault(own.gang, stated)
    for gang, minimums in quorums.items():
        for role, least in minimums.items():
            there = roles[gang][role] if role else roles[gang].total()
            if there < least:
                yield gang, role, least, there


def _notes(pods: Sequence[Pod], things: Sequence[Thing], made: Sequence[Template]) -> Iterator[str]:
    """Warnings about settings without effect, and advice."""
    misplaced = {key: text for own in made for key, text in _misplaced(own)}
    for pod in pods:
        yield from (misplaced.get(own.field, str(own)) for own in pod.complaints if not own.fatal)
    alone = {pod.key for pod in pods if not (pod.membership or any(c.fatal for c in pod.complaints))}
    makers: dict[str, list[Template]] = {}
    for own in made:
        if own.assumes:
            yield f"{own.maker}: {own.assumes}"
        if own.count and not own.after and PodKey(own.namespace, own.names()[0]) in alone:
            makers.setdefault(own.maker, []).append(own)
    for maker, mates in makers.items():
        if sum(own.count for own in mates) > 1:
            yield _lines(maker, mates)
    for thing in things:
        yield from _of_owner(thing)


def _misplaced(own: Template) -> Iterator[tuple[str, str]]:
    """Gangwright's keys that are labels instead of annotations, or vice versa, and the fix."""
    for key in KNOWN - LABELS & own.said("labels").keys():
        yield key, f"{own.maker}: label {key} is ignored: set it as an annotation"
    for key in LABELS & own.said("annotations").keys():
        yield key, f"{own.maker}: annotation {key} is ignored: set it as a label"


def _lines(maker: str, mates: Sequence[Template]) -> str:
    """The lines that would make these pods a gang."""
    total = sum(own.count for own in mates)
    several = len({own.controller for own in mates}) > 1 or any(own.controllers > 1 for own in mates)
    numbers = (labels.MIN_MEMBERS, labels.MEMBERS) if several else (labels.MIN_MEMBERS,)
    said = " and ".join(f'{key}: "{total}"' for key in numbers)
    places = dict.fromkeys(own.words or f"{own.path}.metadata" for own in mates)
    return (
        f"{maker}: its {total} pods are placed one by one. To make them a gang, set under {', '.join(places)} the label "
        f"{labels.GANG}: {maker.partition('/')[2]} and the annotation{'s' * several} {said}"
    )


def _of_owner(thing: Thing) -> Iterator[str]:
    maker = f"{thing['kind']}/{thing['metadata']['name']}"
    try:
        if thing["kind"] == "Job":
            traits = owners.job(msgspec.convert(thing, api.Job))
        elif thing["kind"] == "StatefulSet":
            traits = owners.stateful_set(msgspec.convert(thing, api.StatefulSet))
        else:
            return
    except msgspec.ValidationError as error:
        raise SettingsError(maker, "its spec", str(error)) from None
    yield from (f"{maker}: {warning}" for warning in traits.warnings)
    if not traits.remakes_freely:
        yield f"{maker}: set podReplacementPolicy: Failed, so that a pod that is moved before it ran costs no retry"
