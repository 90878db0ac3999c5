"""What a person's kubeconfig says besides how to reach the cluster: a namespace, and which contexts there are.

Never here: credentials (`credentials`).
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from scheduler.errors import SettingsError, shortened

FAULTS: Final = (yaml.YAMLError, OSError, ValueError, LookupError, TypeError, AttributeError)
_INSIDE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Things: TypeAlias = dict[str, dict[str, Any]]
"""By kind, by name."""

LONGEST: Final = 1024
"""Characters of all names of contexts that are shown."""


def usual_namespace(
    kubeconfig: str = "",
    context: str = "",
    *,
    environ: Mapping[str, str] = os.environ,
    inside: Path = _INSIDE,
) -> str:
    """The namespace of the context that `find_access` would use; `default` where nothing names one.

    Never raises: a kubeconfig that cannot be read is told of by whoever needs its credentials.
    """
    path = kubeconfig or environ.get("KUBECONFIG", "")
    try:
        if not path and environ.get("KUBERNETES_SERVICE_HOST"):
            return inside.read_text("utf-8").strip() or "default"
        return _of_file(path or str(Path("~/.kube/config").expanduser()), context)
    except FAULTS:
        return "default"


def wrong(path: str, context: str) -> SettingsError | None:
    """What is wrong with this context, or with the current one, of the files of this path; None where it is not that.

    Names are told, and nothing else of the files.
    """
    try:
        found = [yaml.safe_load(place.read_text("utf-8")) for place in files(path)]
        if not all(isinstance(own, dict) for own in found):
            return SettingsError("kubeconfig", path, "it must be YAML that has clusters, users and contexts")
        current = [own["current-context"] for own in found if "current-context" in own]
        return _wrong(path, context, str(current[-1] or "") if current else "", _things(found))
    except FAULTS:
        return None


def _wrong(path: str, context: str, current: str, things: Things) -> SettingsError | None:
    known = ", ".join(sorted(things["contexts"]))
    others = f"its contexts are: {shortened(known, LONGEST)}" if known else "it has no contexts"
    if context and context not in things["contexts"]:
        return SettingsError("context", context, f"there is none of this name in {path}; {others}")
    if not context and not current:
        return SettingsError("kubeconfig", path, f"it has no current-context, so name one; {others}")
    chosen = context or current
    if chosen not in things["contexts"]:
        remedy = f"its current-context, {shortened(chosen)}, is not in it, so name another; {others}"
        return SettingsError("kubeconfig", path, remedy)
    for word in ("cluster", "user"):
        said = things["contexts"][chosen].get(word)
        if said is not None and said not in things[f"{word}s"]:
            remedy = (
                f"its context {shortened(chosen)} names the {word} {shortened(str(said))}, which is not in it"
            )
            return SettingsError("kubeconfig", path, remedy)
    return None


def _things(files: Iterable[dict[str, Any]]) -> Things:
    """Contexts, clusters and users by name; of a name that several files have the first counts."""
    found: Things = {"contexts": {}, "clusters": {}, "users": {}}
    for own in files:
        for kind, known in found.items():
            for thing in own.get(kind) or ():
                known.setdefault(str(thing["name"]), thing.get(kind[:-1]) or {})
    return found


def files(path: str) -> list[Path]:
    """The files of this path that exist."""
    places = (Path(part).expanduser() for part in path.split(os.pathsep) if part)
    return [place for place in places if place.is_file()]


def _of_file(path: str, context: str) -> str:
    if not files(path):
        return "default"
    from kubernetes.aio.config import ConfigException, kube_config  # late, as in `access`

    contexts: Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]] = (
        kube_config.list_kube_config_contexts
    )
    try:
        every, current = contexts(path)
    except ConfigException:
        return "default"
    chosen = next((own for own in every if own["name"] == context), {}) if context else current
    return str(chosen["context"].get("namespace") or "default")
