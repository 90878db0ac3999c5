"""Manifests as the status service takes them: gang by gang, pods with what decides about them and nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scheduler.cli.manifest_pods import Template
from scheduler.cli.submission import Wish
from scheduler.model.workload import GangKey, PodKey
from scheduler.objects import api
from scheduler.status.request_schemas import TrialPods, TrialRequest


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
