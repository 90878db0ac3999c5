"""The manifests that the documentation shows, as a reader would apply them: on the real API server, and rendered."""

import re
import shutil

import pytest

from bench.plane import ApiError
from tests.docs.manifest_blocks import YAML, documents, is_kustomization, is_object, pod_templates
from tests.docs.pages import pages
from tests.manifests import TEAM
from tests.manifests.support.rendering import EXTENDER_CONFIG, MANIFESTS, kubectl
from tests.manifests.support.rendering import documents as rendered_documents

OF_A_CLUSTER = ("priorityClassName", "serviceAccountName", "serviceAccount", "runtimeClassName")
"""Fields of a pod that name what this cluster does not have."""


def shown(fits):
    """`page:line` → the documents of every block of which one fits."""
    return {
        f"{page}:{block.line}": found
        for page in pages()
        for block in page.blocks
        if block.kind in YAML and (found := [own for own in documents(block.text) if fits(own)])
    }


OBJECTS = shown(is_object)
KUSTOMIZATIONS = shown(is_kustomization)


@pytest.mark.plane
@pytest.mark.usefixtures("elastic")
@pytest.mark.parametrize("place", OBJECTS)
async def test_objects_are_accepted(admin, place):
    """The API server takes every object as it stands, by a strict dry run; of a kind that another operator brings it
    takes every pod.
    """
    for own in OBJECTS[place]:
        assert await refusals(admin, own) == []


async def refusals(admin, own):
    """What the API server has against an object."""
    group = own["apiVersion"]
    found = await admin.find(f"/{'apis' if '/' in group else 'api'}/{group}")
    kinds = [kind for kind in (found or {}).get("resources", ()) if "/" not in kind["name"]]
    known = [kind for kind in kinds if kind["kind"] == own["kind"]]
    if known:
        return [said async for said in _applied(admin, own, known[0])]
    pods = [_pod(template, f"a-{number}") for number, template in enumerate(pod_templates(own))]
    return [said for pod in pods async for said in _applied(admin, pod, {"name": "pods", "namespaced": True})]


async def _applied(admin, own, kind):
    group = own["apiVersion"]
    root = f"/{'apis' if '/' in group else 'api'}/{group}"
    meta = {**own["metadata"], **({"namespace": TEAM} if kind["namespaced"] else {})}
    home = f"{root}/namespaces/{TEAM}" if kind["namespaced"] else root
    query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "reader", "force": "true"}
    try:
        await admin.request(
            "PATCH",
            f"{home}/{kind['name']}/{meta['name']}",
            body={**own, "metadata": meta},
            kind="application/apply-patch+yaml",
            **query,
        )
    except ApiError as refused:
        yield f"{own['kind']}/{meta['name']}: {refused}"


def _pod(template, name):
    meta = {key: value for key, value in (template.get("metadata") or {}).items() if key != "name"}
    spec = {key: value for key, value in template["spec"].items() if key not in OF_A_CLUSTER}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": name}, "spec": spec}


@pytest.mark.plane
@pytest.mark.usefixtures("elastic")
@pytest.mark.parametrize(
    ("own", "wrong"),
    [
        (
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"replicas": 1}},
            "replicas",
        ),
        (
            {
                "apiVersion": "example.com/v1",
                "kind": "Training",
                "metadata": {"name": "a"},
                "spec": {"workers": [{"template": {"spec": {"containers": [{"name": "a", "images": "a"}]}}}]},
            },
            "images",
        ),
    ],
)
async def test_a_bad_object_is_refused(admin, own, wrong):
    """A field that a kind does not have is found: in an object, and in the pods of a kind that is not known here."""
    (said,) = await refusals(admin, own)
    assert wrong in said


@pytest.mark.parametrize("place", KUSTOMIZATIONS)
def test_kustomizations_render(tmp_path, place):
    """What a newcomer copies renders beside the overlays: images by the reader's names, and the reader's settings in
    the place of ours, under a new hash.
    """
    (written,) = KUSTOMIZATIONS[place]
    for part in (MANIFESTS, EXTENDER_CONFIG):
        shutil.copytree(part, tmp_path / part.name)
    mine = tmp_path / "manifests" / "overlays" / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(text_of(place), encoding="utf-8")
    (mine / "settings.yaml").write_text("queue: {order: fair}\n", encoding="utf-8")

    found = list(rendered_documents(kubectl("kustomize", mine)))

    (pod,) = [
        each["spec"]["template"]["spec"]
        for each in found
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", "gangwright")
    ]
    images = {each["image"] for each in (*pod["initContainers"], *pod["containers"])}
    assert {
        f"{own['newName']}:{own['newTag']}" for own in written.get("images", ()) if "newName" in own
    } <= images
    assert {
        f"{own['name']}:{own['newTag']}" for own in written.get("images", ()) if "newName" not in own
    } <= images
    if "configMapGenerator" in written:
        (settings,) = [each for each in found if "settings.yaml" in each.get("data", {})]
        assert settings["data"]["settings.yaml"] == "queue: {order: fair}\n"
        assert settings["metadata"]["name"] in {
            each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each
        }


def text_of(place):
    """The block at `page:line`."""
    name, line = re.fullmatch(r"(.*):(\d+)", place).groups()
    (text,) = [
        block.text
        for page in pages()
        if str(page) == name
        for block in page.blocks
        if block.line == int(line)
    ]
    return text


def test_an_overlay_of_ones_own_is_shown():
    """A newcomer finds a kustomization that names the images and brings settings."""
    assert any(
        {"images", "configMapGenerator"} <= own.keys() for found in KUSTOMIZATIONS.values() for own in found
    )
