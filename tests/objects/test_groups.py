"""PodGroups of every format."""

import pytest

from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.workload import GangKey, Group, Strategy, Wish
from scheduler.objects import api
from scheduler.objects.groups import KINDS, format_of, group
from tests.objects.reading import struct


def read(kind: type, spec: str, annotations: str = "{}") -> Group:
    text = f"metadata: {{name: g, namespace: team, annotations: {annotations}}}\nspec: {spec}"
    return group(struct(kind, text), DEFAULT_LEVELS)


PLUGINS, VOLCANO = api.PluginsPodGroup, api.VolcanoPodGroup
KOORDINATOR, KAI = api.KoordinatorPodGroup, api.KaiPodGroup

GROUPS = {
    "scheduler-plugins": (
        PLUGINS,
        "{minMember: 3, scheduleTimeoutSeconds: 90, minResources: {cpu: 3}}",
        ({"": 3}, None, Wish(timeout=90.0)),
    ),
    "Volcano": (VOLCANO, "{minMember: 3, queue: default}", ({"": 3}, None, Wish())),
    "Volcano, tasks that add up": (
        VOLCANO,
        "{minMember: 5, minTaskMember: {ps: 1, worker: 4, chief: 0}}",
        ({"ps": 1, "worker": 4}, None, Wish()),
    ),
    "Volcano, tasks beyond the minimum do not count": (
        VOLCANO,
        "{minMember: 3, minTaskMember: {ps: 1, worker: 4}}",
        ({"": 3}, None, Wish()),
    ),
    "Volcano, topology": (
        VOLCANO,
        "{minMember: 3, networkTopology: {mode: hard}}",
        ({"": 3}, None, Wish(strategy=Strategy.PACK, required=True)),
    ),
    "Volcano, topology is hard unless said": (
        VOLCANO,
        "{minMember: 3, networkTopology: {groups: []}}",
        ({"": 3}, None, Wish(strategy=Strategy.PACK, required=True)),
    ),
    "Koordinator": (
        KOORDINATOR,
        "{minMember: 3, scheduleTimeoutSeconds: 60}",
        ({"": 3}, None, Wish(timeout=60.0)),
    ),
    "KAI": (KAI, "{minMember: 3, queue: q}", ({"": 3}, None, Wish())),
    "KAI, flat subgroups": (
        KAI,
        "{minMember: 5, subGroups: [{name: leader, minMember: 1}, {name: worker, minMember: 4}]}",
        ({"leader": 1, "worker": 4}, None, Wish()),
    ),
    "KAI, topology": (
        KAI,
        "{minMember: 2, topologyConstraint: {topology: t, preferredTopologyLevel: gangwright.io/rack}}",
        ({"": 2}, None, Wish(strategy=Strategy.PACK, level="rack", required=False)),
    ),
    "no minimum is a minimum of one": (PLUGINS, "{}", ({"": 1}, None, Wish())),
    "a minimum of none is one of one": (VOLCANO, "{minMember: 0}", ({"": 1}, None, Wish())),
    "no spec at all": (KAI, "null", ({"": 1}, None, Wish())),
}


@pytest.mark.parametrize(("kind", "spec", "expected"), GROUPS.values(), ids=GROUPS.keys())
def test_a_group_is_read(kind: type, spec: str, expected: tuple) -> None:
    """Every format in its own words, without any complaint."""
    found = read(kind, spec)
    assert found.complaints == ()
    assert (found.key, found.format) == (GangKey("team", "g"), format_of(kind))
    assert (found.quorum, found.size, found.wish) == expected


def test_koordinators_annotations_stand_on_its_group() -> None:
    """The size and the waiting time, which counts above the field of the spec."""
    annotations = (
        "{gang.scheduling.koordinator.sh/total-number: '5', gang.scheduling.koordinator.sh/waiting-time: 30s}"
    )
    found = read(KOORDINATOR, "{minMember: 3, scheduleTimeoutSeconds: 60}", annotations)
    assert (found.size, found.wish.timeout, found.complaints) == (5, 30.0, ())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least", ["-1", "1.5", "true", "'3'", "[]", "1000000000", "{a: 1}"])
def test_a_wrong_minimum_refuses_the_gang(kind: type, least: str) -> None:
    """The complaint names the field; nothing raises."""
    found = read(kind, f"{{minMember: {least}}}")
    assert [(complaint.field, complaint.fatal) for complaint in found.complaints] == [
        ("spec.minMember", True)
    ]
    assert found.quorum == {"": 1}


OVERLOOKED = {
    "tiers": (
        VOLCANO,
        "{networkTopology: {mode: soft, highestTierAllowed: 1}}",
        "spec.networkTopology.highestTierAllowed",
    ),
    "tasks that need more": (VOLCANO, "{minMember: 9, minTaskMember: {a: 1}}", "spec.minTaskMember"),
    "a tree of subgroups": (
        KAI,
        "{minMember: 2, subGroups: [{name: a}, {name: b, parent: a, minMember: 1}]}",
        "spec.subGroups",
    ),
    "a level of nobody's": (
        KAI,
        "{topologyConstraint: {requiredTopologyLevel: cloud/block}}",
        "spec.topologyConstraint.requiredTopologyLevel",
    ),
    "a timeout of never": (
        PLUGINS,
        "{minMember: 2, scheduleTimeoutSeconds: -1}",
        "spec.scheduleTimeoutSeconds",
    ),
}


@pytest.mark.parametrize(("kind", "spec", "field"), OVERLOOKED.values(), ids=OVERLOOKED.keys())
def test_what_is_not_honoured_is_said(kind: type, spec: str, field: str) -> None:
    """The group counts all the same."""
    assert [(c.field, c.fatal) for c in read(kind, spec).complaints] == [(field, False)]


def test_a_spec_that_is_no_object_is_refused() -> None:
    """A custom resource may hold anything where its definition has no schema."""
    assert [(c.field, c.fatal) for c in read(PLUGINS, "[1, 2]").complaints] == [("spec", True)]
