"""The pods of a submission, as the status service accepts them for a dry run.

Lives here: one request per gang, with pods that contain only the fields that the planner needs. Never here: the call.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scheduler.cli.submission import Wish
from scheduler.cli.template import Template
from scheduler.model.workload import GangKey, Membership, PodKey
from scheduler.objects import api, labels
from scheduler.status.schemas import TrialPods, TrialRequest


def trials(wanted: Wish, made: Sequence[Template]) -> Mapping[GangKey, TrialRequest]:
    """A request for every gang, with the submitted pods. Pods without a gang share a request, each on its own."""
    of_pod = {pod.key: key for key, pods in wanted.gangs.items() for pod in pods}
    members = {pod.key: pod.membership for pod in wanted.pods if pod.membership is not None}
    found: dict[GangKey, TrialRequest] = {}
    for template in made:
        wished = [name for name in template.names() if PodKey(template.namespace, name) in of_pod]
        if not wished:
            continue
        gang = of_pod[PodKey(template.namespace, wished[0])]
        asked = found.setdefault(gang, TrialRequest(pods=[], namespace=template.namespace))
        said = members.get(PodKey(template.namespace, wished[0]))
        least = wanted.stated.get((said.format, gang)) if said is not None else None
        pod = next(template.pods())
        if said is not None and least is not None:
            _state(pod, said, least)
        asked.pods.append(TrialPods(pod=bare(pod), count=len(wished)))
    return found


def _state(pod: api.Pod, said: Membership, least: Mapping[str, int]) -> None:
    """Write the quorum of a group on the pod in Gangwright's format, because no group is sent to the status service."""
    roles = {} if "" in least else {labels.ROLE: said.role}
    quorum = ",".join(f"{role}={number}" if role else str(number) for role, number in least.items())
    pod.metadata.labels = {**(pod.metadata.labels or {}), labels.GANG: said.gang.name}
    pod.metadata.annotations = {**(pod.metadata.annotations or {}), labels.MIN_MEMBERS: quorum, **roles}


def bare(part: Any) -> Any:
    """A struct as JSON values, without empty fields. Fields that Gangwright does not read are missing."""
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
