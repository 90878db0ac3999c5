"""Pods that somebody wrote → pods of the model, as if the API server had just taken them in.

Lives here: what a pod needs that is not there yet (a uid, a name, our gate). Never here: what becomes of it.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from scheduler.errors import shortened
from scheduler.model.cluster import Level
from scheduler.model.workload import Pod, Uid, gang_of_one
from scheduler.objects import api
from scheduler.objects.interner import Interner
from scheduler.objects.pods import pod as read
from scheduler.objects.volumes import Volumes
from scheduler.status.api_problem import Problem
from scheduler.status.gang_views import Steps
from scheduler.status.request_schemas import TrialRequest

MOST: Final = 4096
"""Pods of one request; no gang has more."""

STRIDE: Final = 64
"""Pods made in one step: about half a millisecond."""


class Unfit(Exception):  # noqa: N818 - never leaves this room
    """These pods would be refused; the text says what would be right."""


def bounded(asked: TrialRequest) -> int:
    """How many pods are to be tried out. Raises Unfit for more than MOST."""
    total = int(sum(each.count for each in asked.pods))
    if total > MOST:
        raise Unfit(f"{total} pods: at most {MOST} are a gang")
    return total


def pods(asked: TrialRequest, levels: tuple[Level, ...], volumes: Volumes, now: float) -> Steps[list[Pod]]:
    """The pods, each with our gate and a name of its own. volumes: what the pods' claims are bound to.

    Raises Problem for what is no Pod, and Unfit for what Gangwright would refuse.
    """
    interner, numbers = Interner(), itertools.count()
    made: list[Pod] = []
    for index, each in enumerate(asked.pods):
        first = _read(each.pod, f"pods[{index}].pod", asked.namespace, levels, volumes, interner)
        for start in range(0, int(each.count), STRIDE):
            yield
            some = range(start, min(start + STRIDE, int(each.count)))
            made += (_numbered(first, next(numbers), each.count > 1, now) for _ in some)
    return made


def names(made: Sequence[Pod]) -> Mapping[str, str]:
    """What each of them is called, by uid."""
    return {pod.uid: pod.key.name for pod in made}


def _read(
    found: Mapping[str, object],
    place: str,
    namespace: str,
    levels: tuple[Level, ...],
    volumes: Volumes,
    interner: Interner,
) -> Pod:
    try:
        one = msgspec.convert({"metadata": {}, **found}, api.Pod)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Problem(400, f"{place}: not a Pod of Kubernetes: {shortened(str(error))}") from None
    if one.metadata.namespace not in {"", namespace}:
        raise Problem(400, f"{place}.metadata.namespace: must be {namespace}, as `namespace` says")
    one.metadata.namespace = namespace
    one.metadata.name = one.metadata.name or "pod"
    pod = read(one, volumes, levels, interner)
    complaint = next((complaint for complaint in pod.complaints if complaint.fatal), None)
    if complaint is not None:
        raise Unfit(f"{place}: {shortened(str(complaint))}")
    return pod


def _numbered(pod: Pod, number: int, several: bool, now: float) -> Pod:
    name = f"{pod.key.name}-{number}" if several else pod.key.name
    own = Uid(f"trial-{number}")
    said = pod.membership
    if said is not None and ":" in said.gang.name:  # alone, by its own word
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
