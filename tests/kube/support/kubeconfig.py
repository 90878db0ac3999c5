"""Writes kubeconfig files."""

from pathlib import Path
from typing import Any

import yaml


def kubeconfig(
    folder: Path,
    server: str,
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    name: str = "config",
) -> str:
    """The path of a kubeconfig with one context that leads to `server` as `user`."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path = folder / name
    path.write_text(yaml.safe_dump(content))
    return str(path)
