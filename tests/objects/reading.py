"""Objects written as YAML, read as the API's structs."""

from typing import Any, TypeVar

import msgspec
import yaml

from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.workload import Pod
from scheduler.objects import api
from scheduler.objects.gangs import Reading, read
from scheduler.objects.interner import Interner
from scheduler.objects.pods import pod
from scheduler.objects.volumes import Volumes

T = TypeVar("T")


def struct(kind: type[T], text: str) -> T:
    """One YAML document as a struct, by way of the JSON that the API server would send."""
    return msgspec.json.decode(msgspec.json.encode(yaml.safe_load(text)), type=kind)


def pod_of(text: str, **more: Any) -> Pod:
    """A pod of the model from a pod's YAML."""
    return pod(struct(api.Pod, text), more.get("volumes", Volumes()), DEFAULT_LEVELS, Interner())


def pod_with(spec: str = "", status: str = "", name: str = "p") -> api.Pod:
    """A pod of the API from the YAML of its spec and of its status."""
    whole = {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": yaml.safe_load(spec) or {},
        "status": yaml.safe_load(status) or {},
    }
    return msgspec.json.decode(msgspec.json.encode(whole), type=api.Pod)


def said(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Reading:
    """What these labels and annotations of a pod in `team` say of its gang."""
    return read("team", labels or {}, annotations or {}, DEFAULT_LEVELS)
