"""What a person's kubeconfig says besides how to reach the cluster: in which namespace he works.

Never here: credentials (`access`).
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

_FAULTS: Final = (yaml.YAMLError, OSError, ValueError, LookupError, TypeError, AttributeError)
_INSIDE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


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
    except _FAULTS:
        return "default"


def _of_file(path: str, context: str) -> str:
    if not any(Path(part).expanduser().is_file() for part in path.split(os.pathsep) if part):
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
