"""The YAML that pages show, and what is wrong with it. What a block is, its content decides.

An object has apiVersion and kind; a kustomization has resources or components; a settings file has sections of the
settings. Anything else is a fragment of a manifest, whose keys under `gangwright.io/` must exist all the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler.cli.manifest_pods import templates
from scheduler.elastic.job.validation import decode_spec
from scheduler.errors import SettingsError
from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.objects import labels
from scheduler.objects.gangs import read
from scheduler.settings import load
from scheduler.settings.sections import SECTIONS
from tests.docs.pages import ROOT, Page

YAML: Final = frozenset({"yaml", "yml"})
OVERLAY: Final = ROOT / "manifests" / "overlays" / "mine"
"""The folder to which the install page's reader writes a kustomization."""

KEYS: Final = frozenset(
    {value for value in vars(labels).values() if isinstance(value, str)}
    | {level.label for level in DEFAULT_LEVELS}
    | {"gangwright.io/elastic-host-access"}
)

Object = Mapping[str, Any]


def documents(text: str) -> list[Any]:
    """The documents of a block. Raises yaml.YAMLError."""
    return [own for own in yaml.safe_load_all(text) if own is not None]


def is_object(own: Any) -> bool:
    """Whether the API server would know it: a kustomization has a kind, too."""
    return isinstance(own, dict) and {"apiVersion", "kind"} <= own.keys() and not is_kustomization(own)


def is_kustomization(own: Any) -> bool:
    return isinstance(own, dict) and (
        own.get("kind") == "Kustomization" or is_of(own, {"resources", "components"})
    )


def is_of(own: Mapping[str, Any], keys: set[str]) -> bool:
    return bool(own) and own.keys() <= keys


def pod_templates(own: Any) -> Iterator[Object]:
    """Everything below that has a pod's spec, an object's own spec included."""
    if isinstance(own, dict):
        spec = own.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield own
        for value in own.values():
            yield from pod_templates(value)
    elif isinstance(own, list):
        for value in own:
            yield from pod_templates(value)


def complaints(page: Page) -> Iterator[str]:
    """`page:line: what is wrong` of every block of YAML on a page."""
    for block in page.blocks:
        if block.kind in YAML:
            yield from (f"{page}:{block.line}: {wrong}" for wrong in wrongs(block.text))


def wrongs(text: str) -> Iterator[str]:
    """What is wrong with a block."""
    try:
        for tree in yaml.compose_all(text, Loader=yaml.SafeLoader):
            yield from (f"the key {key!r} is there twice" for key in _repeated(tree))
        found = documents(text)
    except yaml.YAMLError as error:
        yield " ".join(str(error).split())
        return
    yield from (f"unknown key {key}" for own in found for key in _keys(own) if key not in KEYS)
    for own in found:
        if is_kustomization(own):
            yield from _of_kustomization(own)
        elif is_object(own):
            yield from _of_object(own)
        elif isinstance(own, dict) and is_of(own, set(SECTIONS)):
            yield from _of_settings(own)
    yield from _of_gangs([own for own in found if is_object(own)])


def _repeated(node: Any) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        counts = Counter(key.value for key, _ in node.value)
        yield from (key for key, count in counts.items() if count > 1)
        for _, value in node.value:
            yield from _repeated(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _repeated(value)


def _keys(own: Any) -> Iterator[str]:
    """Keys of ours, wherever they are."""
    if isinstance(own, dict):
        for key, value in own.items():
            if str(key).startswith(labels.OURS):
                yield str(key)
            yield from _keys(value)
    elif isinstance(own, list):
        for value in own:
            yield from _keys(value)


def _of_kustomization(own: Object) -> Iterator[str]:
    for name in ("resources", "components"):
        for path in own.get(name, ()):
            if str(path).startswith("..") and not Path(OVERLAY, path).resolve().exists():
                yield f"{name}: {path} does not exist beside manifests/overlays/default"


def _of_settings(own: Object) -> Iterator[str]:
    try:
        load(text=yaml.safe_dump(own), environ={})
    except SettingsError as error:
        yield str(error)


def _of_object(own: Object) -> Iterator[str]:
    if own["kind"] == labels.ELASTIC_KIND:
        yield from (f"{problem}" for problem in decode_spec(own["spec"])[1])
    for pod in pod_templates(own):
        said = pod.get("metadata") or {}
        found = read("team", said.get("labels") or {}, said.get("annotations") or {}, DEFAULT_LEVELS)
        yield from (f"{own['kind']}: {complaint}" for complaint in found.complaints)
        if found.membership is not None and pod["spec"].get("schedulerName") != "gangwright":
            yield f"{own['kind']}: schedulerName must be gangwright in the pods of a gang"


def _of_gangs(objects: list[Object]) -> Iterator[str]:
    """A gang whose block makes fewer members than it needs waits without end."""
    made: Counter[tuple[str, str]] = Counter()
    needed: dict[tuple[str, str], int] = {}
    for own in objects:
        if own["kind"] == labels.ELASTIC_KIND:
            continue
        try:
            found = templates(own, "team")
        except (SettingsError, KeyError, TypeError) as error:
            if "read from the cluster" not in str(
                error
            ):  # of a TrainJob, whose runtime the page may not show
                yield f"{own['kind']}: {error}"
            continue
        for template in found:
            said = template.pod.get("metadata") or {}
            member = read(
                "team", said.get("labels") or {}, said.get("annotations") or {}, DEFAULT_LEVELS
            ).membership
            if member is None or not member.quorum:
                continue
            for role, least in member.quorum.items():
                needed[str(member.gang), role] = least
            made[
                str(member.gang), member.role if len(member.quorum) > 1 or "" not in member.quorum else ""
            ] += template.count
    for (gang, role), least in needed.items():
        if made[gang, role] < least:
            yield f"gang {gang} needs {least} members{f' of role {role}' if role else ''}, and {made[gang, role]} are made"
