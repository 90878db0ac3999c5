"""The samples say what they mean: our own readers understand every word of them."""

import pytest
import yaml

from scheduler.model.policy import Policy
from scheduler.objects import gangs
from tests.manifests.support.rendering import MANIFESTS, SAMPLES

LEVELS = Policy().levels

pytestmark = pytest.mark.parametrize(
    "place", SAMPLES, ids=lambda place: str(place.relative_to(MANIFESTS / "samples"))
)


def templates(place):
    """Every pod, or template of pods, of a file."""
    for document in yaml.safe_load_all(place.read_text(encoding="utf-8")):
        if document["kind"] == "Pod":
            yield document
        elif "template" in document.get("spec", {}):
            yield document["spec"]["template"]


def test_read_without_complaint(place):
    """Every pod of a file is a member of one and the same gang, in the format that the file is there for."""
    found = set()
    for template in templates(place):
        meta = template["metadata"]
        reading = gangs.read("team", meta.get("labels", {}), meta.get("annotations", {}), LEVELS)
        assert reading.complaints == ()
        found.add((reading.membership.gang, reading.membership.format))

    ((gang, form),) = found
    assert gang.namespace == "team"
    assert place.parent.name != "formats" or place.stem.startswith(form)
    assert place.parent.name == "formats" or form == gangs.FORMATS[0].name


def test_a_quorum_is_stated(place):
    """The quorum is on the pods themselves, or in a PodGroup of the gang's name in the same file."""
    documents = list(yaml.safe_load_all(place.read_text(encoding="utf-8")))
    groups = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "PodGroup"}
    for template in templates(place):
        meta = template["metadata"]
        member = gangs.read("team", meta.get("labels", {}), meta.get("annotations", {}), LEVELS).membership
        assert member.quorum or groups[member.gang.name]["minMember"] > 1


def test_ours_to_place(place):
    """Every pod of a sample names our scheduler and asks for something."""
    for template in templates(place):
        assert template["spec"]["schedulerName"] == "gangwright"
        assert all(one["resources"]["requests"] for one in template["spec"]["containers"])
