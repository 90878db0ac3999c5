"""Documents of `manifests/` as Kubernetes would get them: rendered by the kustomize inside kubectl."""

import functools
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "manifests"
EXTENDER_CONFIG = ROOT / "extender_config"
SAMPLES = sorted((MANIFESTS / "samples").rglob("*.yaml"))

Document = dict[str, Any]


def kubectl(*words: str | Path, stdin: str | None = None) -> str:
    """Runs kubectl and returns what it says. Raises AssertionError with its complaint when it fails."""
    program = shutil.which("kubectl", path=sysconfig.get_path("scripts")) or shutil.which("kubectl")
    assert program is not None, "kubectl: install the group `dev`, or put one on PATH"
    done = subprocess.run(
        [program, *map(str, words)], input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def rendered(directory: str) -> tuple[Document, ...]:
    """All documents of one kustomization under manifests/."""
    return tuple(documents(kubectl("kustomize", MANIFESTS / directory)))


def documents(text: str) -> Iterator[Document]:
    return (document for document in yaml.safe_load_all(text) if document)


def of_kind(directory: str, kind: str) -> list[Document]:
    return [document for document in rendered(directory) if document["kind"] == kind]


def named(directory: str, kind: str, name: str) -> Document:
    """The one document of that kind and name."""
    (found,) = [document for document in of_kind(directory, kind) if document["metadata"]["name"] == name]
    return found


def pod_spec(directory: str = "base") -> Document:
    """The Pod that the Deployment makes."""
    return named(directory, "Deployment", "gangwright")["spec"]["template"]["spec"]


def containers(directory: str = "base") -> dict[str, Document]:
    """Name → container, sidecars and others alike."""
    spec = pod_spec(directory)
    return {one["name"]: one for one in (*spec["initContainers"], *spec["containers"])}
