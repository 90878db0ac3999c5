"""The words of a container as its pod says them: environment, command, arguments, fields of the pod. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.plane.client import Object
from bench.plane.errors import PlaneError

REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)")
KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")

Reference = tuple[str, str]
"""("configmaps" | "secrets", name)"""

KINDS = {"configMapKeyRef": "configmaps", "secretKeyRef": "secrets"}
WHOLE = {"configMapRef": "configmaps", "secretRef": "secrets"}


class ConfigError(PlaneError):
    """A container that cannot be made as its pod says; the message names the field or the missing object."""


@dataclass(frozen=True)
class Addresses:
    """What a pod is told of where it runs."""

    pod: str
    host: str


def expanded(text: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` replaced where NAME is known and left as it is elsewhere; `$$` is one dollar sign."""

    def put(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else known.get(found[1], found[0])

    return REFERENCE.sub(put, text)


def references(container: Object) -> Iterator[tuple[Reference, bool]]:
    """The ConfigMaps and Secrets that its environment names, each with whether it may be missing."""
    for source in container.get("envFrom", ()):
        for field, kind in WHOLE.items():
            if field in source:
                yield (kind, source[field]["name"]), source[field].get("optional", False)
    for variable in container.get("env", ()):
        for field, kind in KINDS.items():
            if chosen := variable.get("valueFrom", {}).get(field):
                yield (kind, chosen["name"]), chosen.get("optional", False)


def environment(
    container: Object,
    pod: Object,
    addresses: Addresses,
    contents: Mapping[Reference, Mapping[str, str]],
    first: Mapping[str, str],
) -> dict[str, str]:
    """All variables of a container.

    contents: of `references`; those that are missing and may be are left out.
    first: what the image and the cluster say; the pod's own words go over it and may refer to it.
    Raises ConfigError.
    """
    known = dict(first)
    for source in container.get("envFrom", ()):
        for field, kind in WHOLE.items():
            if field in source:
                found = contents.get((kind, source[field]["name"]), {})
                known |= {source.get("prefix", "") + name: value for name, value in found.items()}
    for variable in container.get("env", ()):
        value = _value(variable, pod, addresses, contents)
        if value is not None:
            known[variable["name"]] = expanded(value, known) if "valueFrom" not in variable else value
    return known


def words(container: Object, entrypoint: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Command and arguments. The image's entrypoint counts where the pod gives no command. Raises ConfigError."""
    said = container.get("command") or list(entrypoint)
    both = [*said, *container.get("args", ())]
    if not both:
        raise ConfigError(f"container {container['name']}: neither the pod nor the image names a command")
    return [expanded(word, known) for word in both]


def field(pod: Object, path: str, addresses: Addresses) -> str:
    """What a fieldRef points at. Raises ConfigError when there is no such field for it."""
    if found := KEYED.fullmatch(path):
        return str(pod["metadata"].get(found[1], {}).get(found[2], ""))
    if path not in FIELDS:
        raise ConfigError(f"fieldPath: {path!r} cannot be given; known are {', '.join(FIELDS)}")
    return FIELDS[path](pod, addresses)


def _listed(name: str) -> Callable[[Object, Addresses], str]:
    def said(pod: Object, _: Addresses) -> str:
        pairs = sorted(pod["metadata"].get(name, {}).items())
        return "\n".join(f'{key}="{_quoted(value)}"' for key, value in pairs)

    return said


FIELDS: dict[str, Callable[[Object, Addresses], str]] = {
    "metadata.name": lambda pod, _: pod["metadata"]["name"],
    "metadata.namespace": lambda pod, _: pod["metadata"]["namespace"],
    "metadata.uid": lambda pod, _: pod["metadata"]["uid"],
    "metadata.labels": _listed("labels"),
    "metadata.annotations": _listed("annotations"),
    "spec.nodeName": lambda pod, _: pod["spec"]["nodeName"],
    "spec.serviceAccountName": lambda pod, _: pod["spec"].get("serviceAccountName", "default"),
    "status.hostIP": lambda _, addresses: addresses.host,
    "status.hostIPs": lambda _, addresses: addresses.host,
    "status.podIP": lambda _, addresses: addresses.pod,
    "status.podIPs": lambda _, addresses: addresses.pod,
}


def _value(
    variable: Object, pod: Object, addresses: Addresses, contents: Mapping[Reference, Mapping[str, str]]
) -> str | None:
    source: Mapping[str, Any] = variable.get("valueFrom", {})
    if not source:
        return str(variable.get("value", ""))
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"], addresses)
    for name, kind in KINDS.items():
        if name in source:
            return _chosen(source[name], contents.get((kind, source[name]["name"]), {}))
    raise ConfigError(f"env {variable['name']}: valueFrom {', '.join(source)} is not known here")


def _chosen(source: Mapping[str, Any], found: Mapping[str, str]) -> str | None:
    if source["key"] not in found and not source.get("optional"):
        raise ConfigError(f"couldn't find key {source['key']} in {source['name']}")
    return found.get(source["key"])


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
