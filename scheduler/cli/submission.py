"""What a person thinks of submitting, read as Gangwright reads it: gangs, their pods, and what is wrong with them.

Lives here: the way from manifests to pods of the model, by the very readers of the service, the words that must be there,
and the same pods as the status service takes them. Never here: a call that changes anything. The API server's own part
(the gate, a namespace's defaults, priority classes) is done here as it will be done there, as far as it can be told from
outside.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import msgspec

from scheduler import errors
from scheduler.cli import manifest_pods, screen
from scheduler.cli.cluster_document import Reading
from scheduler.cli.manifest_pods import Template, Thing
from scheduler.errors import SettingsError
from scheduler.kube import changes as ch
from scheduler.kube.client import Client
from scheduler.kube.listing import listed
from scheduler.ledger import gang_spec
from scheduler.model.events import Event, GroupSeen, PodSeen
from scheduler.model.policy import Policy
from scheduler.model.workload import GangKey, Group, Pod, PodKey
from scheduler.objects import api, labels, owners
from scheduler.status.schemas import TrialPods, TrialRequest

_Stated: TypeAlias = Mapping[tuple[str, GangKey], Mapping[str, int]]
"""What pod groups say of the quorum, by format and gang."""

PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


class PriorityClass(msgspec.Struct, rename="camel"):
    """What pods of this class get."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """What was read of the manifests. pods: in order; events: the same, with groups, as facts.

    wrong: why they would not be placed as they are.  notes: what would not work as asked, or could be better.
    unnamed: pods whose real names the cluster will choose.  held_up: gangs that wait for good, and why: members are made
    only when others are ready.
    """

    pods: tuple[Pod, ...]
    events: tuple[Event, ...]
    wrong: tuple[str, ...]
    notes: tuple[str, ...]
    unnamed: frozenset[PodKey] = frozenset()
    made: tuple[Template, ...] = ()
    """Who is alike among the pods."""
    held_up: Mapping[GangKey, str] = field(default_factory=dict)

    @property
    def gangs(self) -> dict[GangKey, list[Pod]]:
        """The gangs, and pods that are of none under the name of their own."""
        found: dict[GangKey, list[Pod]] = {}
        for pod in self.pods:
            found.setdefault(gang_of(pod), []).append(pod)
        return found

    @property
    def unmodelled(self) -> list[str]:
        """Fields of the pods that decide about nodes and that the planner does not model."""
        return list(dict.fromkeys(field for pod in self.pods for field in pod.unmodelled))

    def is_named(self, pods: Iterable[Pod]) -> bool:
        """They can be told among others: they are a gang, or their names are known before they are made."""
        return all(gang_of(pod) != GangKey(*pod.key) or pod.key not in self.unnamed for pod in pods)

    def without(self, gone: Container[PodKey]) -> "Wish":
        """The same without these pods."""
        events = (own for own in self.events if not (isinstance(own, PodSeen) and own.pod.key in gone))
        pods = (pod for pod in self.pods if pod.key not in gone)
        return replace(self, pods=tuple(pods), events=tuple(events))


def gang_of(pod: Pod) -> GangKey:
    """Its gang; of a pod that is of none, or a gang of its own, the pod's name."""
    key = gang_spec.gang_key(pod)
    return GangKey(*pod.key) if gang_spec.is_gang_of_one(key) else key


def is_of_storage(unmodelled: str) -> bool:
    """What is not modelled hangs on claims, which must have been read."""
    return unmodelled.startswith("spec.volumes: a claim")


async def priorities(client: Client) -> Mapping[str, PriorityClass] | None:
    """The priority classes by name; None when they may not be read, which is said."""
    try:
        found = await listed(client, ch.Resource(PRIORITIES, PriorityClass))
    except (errors.Forbidden, errors.NotFound):
        screen.note("priority classes may not be read with your rights: priority 0 is assumed")
        return None
    return {own.key.name: own.object for own in found if isinstance(own, ch.Seen)}


def wish(
    things: Sequence[Thing],
    namespace: str,
    reading: Reading,
    classes: Mapping[str, PriorityClass] | None,
    now: float,
) -> Wish:
    """What these manifests would bring into the cluster. Raises SettingsError for what cannot be read at all."""
    groups = [own for thing in things for own in manifest_pods.objects(thing, namespace)]
    classes = None if classes is None else {**classes, **_brought(things)}
    made = [_admitted(own, classes) for thing in things for own in manifest_pods.templates(thing, namespace)]
    events = reading.imagine([*groups, *(pod for own in made for pod in own.pods())])
    events = [_as_made(event, now, reading.policy) for event in events]
    pods = tuple(event.pod for event in events if isinstance(event, PodSeen))
    seen = [event.group for event in events if isinstance(event, GroupSeen)]
    stated = {(own.format, own.key): own.quorum for own in seen}
    held_up = dict(_held_up(pods, made, stated))
    return Wish(
        pods,
        tuple(events),
        tuple(dict.fromkeys(_wrong(pods, seen, made, stated, reading.policy))),
        tuple(dict.fromkeys([*_notes(pods, things, made), *held_up.values()])),
        frozenset(PodKey(own.namespace, name) for own in made if not _names(own) for name in own.names()),
        tuple(made),
        held_up,
    )


def _brought(things: Iterable[Thing]) -> Mapping[str, PriorityClass]:
    """The priority classes that the manifests bring themselves. Raises SettingsError."""
    try:
        return {
            str(thing["metadata"]["name"]): msgspec.convert(thing, PriorityClass)
            for thing in things
            if thing["kind"] == "PriorityClass"
        }
    except msgspec.ValidationError as error:
        raise SettingsError("PriorityClass", "its fields", str(error)) from None


def _names(own: Template) -> bool:
    """The pods' names are told by their maker's."""
    return own.maker.partition("/")[0] in {"Pod", "StatefulSet"}


def _admitted(own: Template, classes: Mapping[str, PriorityClass] | None) -> Template:
    """The template with the priority that the API server would write."""
    spec = own.pod.get("spec") or {}
    if classes is None or not isinstance(spec, dict) or "priority" in spec:
        return own
    named = spec.get("priorityClassName")
    usual = next((one for one in classes.values() if one.global_default), PriorityClass())
    if named and named not in classes:
        known = ", ".join(sorted(classes)) or "none"
        raise SettingsError("spec.priorityClassName", named, f"no such priority class; there are: {known}")
    chosen = classes[named] if named else usual
    given = {"priority": chosen.value, "preemptionPolicy": chosen.preemption_policy or None}
    return replace(own, pod={**own.pod, "spec": {**given, **spec}})


def _as_made(event: Event, now: float, policy: Policy) -> Event:
    """The pod as it would be a moment after it was made: it has come last, and our gate is on it."""
    if not isinstance(event, PodSeen):
        return event
    ours = event.pod.scheduler in policy.scheduler_names
    return PodSeen(replace(event.pod, created=now, gated=ours))


def _wrong(
    pods: Sequence[Pod], groups: Iterable[Group], made: Sequence[Template], stated: _Stated, policy: Policy
) -> Iterator[str]:
    """Why they would not be placed."""
    if not made:
        yield "these manifests make no pods that are known here; Jobs, JobSets, Pods, … are"
    yield from _forged(made)
    names = " or ".join(sorted(policy.scheduler_names))
    for pod in pods:
        if pod.scheduler not in policy.scheduler_names:
            yield f"spec.schedulerName: {pod.scheduler or 'not there'!r}: write {names}, or Gangwright never sees the pods"
        yield from (str(complaint) for complaint in pod.complaints if complaint.fatal)
        wanted = pod.membership.wish.level if pod.membership else None
        known = [level.name for level in policy.levels]
        if wanted is not None and wanted not in known:
            yield f"{labels.LEVEL}: {wanted!r}: use one of the configured levels: {', '.join(known)}"
    yield from (f"PodGroup {own.key.name}: {c}" for own in groups for c in own.complaints if c.fatal)
    for gang, role, least, there in _short(pods, stated):
        of = f" of role {role}" if role else ""
        yield f"gang {gang.name} needs {least} members{of} and these manifests make {there}: it would never start"


def _forged(made: Sequence[Template]) -> Iterator[str]:
    """What the trust policy lets nobody else write: the API server would refuse every pod."""
    for own in made:
        written = (own.pod.get("metadata") or {}).get("annotations") or {}
        yield from (
            f"{own.maker}: {key}: remove it: Gangwright alone writes it"
            for key in (labels.PLAN, labels.SEAT)
            if key in written
        )


def _held_up(pods: Sequence[Pod], made: Sequence[Template], groups: _Stated) -> Iterator[tuple[GangKey, str]]:
    """Gangs that have their quorum only when pods are made that wait for members of the same gang, and why."""
    of_pod = {pod.key: gang_of(pod) for pod in pods}
    gangs: dict[GangKey, list[Template]] = {}
    for own in made:
        key = of_pod.get(PodKey(own.namespace, own.names()[0])) if own.count else None
        if key is not None:
            gangs.setdefault(key, []).append(own)
    late: set[PodKey] = set()
    why: dict[GangKey, str] = {}
    for gang, mates in gangs.items():
        for own in mates:
            first = own.made_first({other.name for other in mates if other.maker == own.maker})
            if first < own.count:
                late |= {PodKey(own.namespace, name) for name in own.names()[first:]}
                why.setdefault(gang, f"{own.maker}: {own.awaits}")
    short = {gang for gang, *_ in _short(pods, groups)}  # told already, as members that are never made
    early = [pod for pod in pods if pod.key not in late]
    held_up = dict.fromkeys(gang for gang, *_ in _short(early, groups) if gang not in short)
    yield from ((gang, why[gang]) for gang in held_up)


def _short(pods: Sequence[Pod], groups: _Stated) -> Iterator[tuple[GangKey, str, int, int]]:
    """Gangs that need more members than there are: the role, how many of it they need, how many there are."""
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
    """What is honoured only in part, or could be better."""
    for pod in pods:
        yield from (str(complaint) for complaint in pod.complaints if not complaint.fatal)
    alone = {pod.key.name for pod in pods if not (pod.membership or any(c.fatal for c in pod.complaints))}
    for own in made:
        if own.count > 1 and f"{own.name}-0" in alone:
            yield f"{own.maker}: its {own.count} pods are placed one by one; the label {labels.GANG} makes them a gang"
    for thing in things:
        yield from _of_owner(thing)


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
        yield f"{maker}: write podReplacementPolicy: Failed, and a seat that is lost before the pod ran costs no retry"


def trials(wanted: Wish, made: Sequence[Template]) -> Mapping[GangKey, TrialRequest]:
    """A request for every gang, of the pods that are still wished; pods of no gang go together, each for itself."""
    of_pod = {pod.key: key for key, pods in wanted.gangs.items() for pod in pods}
    found: dict[GangKey, TrialRequest] = {}
    for template in made:
        wished = [name for name in template.names() if PodKey(template.namespace, name) in of_pod]
        if not wished:
            continue
        gang = of_pod[PodKey(template.namespace, wished[0])]
        asked = found.setdefault(gang, TrialRequest(pods=[], namespace=template.namespace))
        asked.pods.append(TrialPods(pod=bare(next(template.pods())), count=len(wished)))
    return found


def bare(part: Any) -> Any:
    """A struct as JSON's values, without fields that say nothing; what Gangwright does not read is not there at all."""
    if isinstance(part, msgspec.Struct):
        said = {field.encode_name: getattr(part, field.name) for field in msgspec.structs.fields(part)}
        own = {name: bare(value) for name, value in said.items()}
        return {
            name: value
            for name, value in own.items()
            if value not in (None, "", {}, [], False) or isinstance(said[name], api.Present)
        }
    if isinstance(part, list):
        return [bare(one) for one in part]
    return part
