"""A KubeSchedulerConfiguration, filled in for the plane.

Starts from a file of `extender_config/` (or a mapping) as it is and changes only what belongs to this machine: the
kubeconfig and the address of the extender. So what a test runs is the very file that a cluster runs. Pure but for
reading that file.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from bench.plane.errors import DescriptionError

Configuration = dict[str, Any]

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"


def filled(
    given: Mapping[str, Any] | Path | None,
    *,
    kubeconfig: Path,
    extender_url: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Configuration:
    """The configuration for one kube-scheduler of the plane.

    given: a mapping, a YAML file, or None for kube-scheduler's defaults without leader election.
    extender_url: scheme, host and port of the extender; a path in the file's own urlPrefix stays.
    changes: laid over the result, mappings merged, lists replaced.
    Raises DescriptionError when `given` is of another kind, or has no extender that could be reached at `extender_url`.
    """
    read = _read(given) if given is not None else {"leaderElection": {"leaderElect": False}}
    config: Configuration = {"apiVersion": API_VERSION, "kind": KIND, **read}
    if config["kind"] != KIND:
        raise DescriptionError(f"kind: {config['kind']!r} is not a {KIND}")
    config["clientConnection"] = {**config.get("clientConnection", {}), "kubeconfig": str(kubeconfig)}
    if extender_url is not None:
        config["extenders"] = _reached_at(extender_url, config.get("extenders") or [])
    return merged(config, changes or {})


def waits_to_watch(config: Configuration) -> bool:
    """This kube-scheduler reads the cluster once it leads: until then its check `sched-handler-sync` fails."""
    elects = config.get("leaderElection", {}).get("leaderElect", True)
    return bool(config.get("delayCacheUntilActive")) and bool(elects)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Configuration:
    """`base` with `changes` laid over it: mappings are merged, everything else is replaced."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = merged(old, value)
        else:
            result[key] = value
    return result


def _read(given: Mapping[str, Any] | Path) -> Configuration:
    document: Any = (
        yaml.safe_load(given.read_text("utf-8")) if isinstance(given, Path) else copy.deepcopy(given)
    )
    if not isinstance(document, Mapping):
        raise DescriptionError(f"{given}: must be one YAML mapping, a {KIND}")
    return dict(document)


def _reached_at(url: str, extenders: list[Mapping[str, Any]]) -> list[Configuration]:
    if not extenders:
        raise DescriptionError(f"extenders: the configuration has none that could be reached at {url}")
    return [{**extender, "urlPrefix": url.rstrip("/") + _path(extender)} for extender in extenders]


def _path(extender: Mapping[str, Any]) -> str:
    return urlsplit(str(extender.get("urlPrefix", ""))).path.rstrip("/")
