"""Gangs as people have already written them, for us and for other systems: seated whole, without a word changed."""

import pytest

from bench.plane import Fleet, watches, where
from tests.manifests.support.rendering import SAMPLES
from tests.stories.support.cluster import Cluster, bound, gated, racks
from tests.stories.support.workloads import GANG, gang

FORMATS = {
    "scheduler-plugins": 3,
    "volcano": 3,
    "koordinator": 3,
    "koordinator-annotations": 3,
    "kueue": 3,
    "yunikorn": 3,
    "kai": 3,
    "job": 8,
    "pack": 4,
    "rack-required": 4,
    "roles": 7,
    "spread": 3,
    "surplus": 4,
}
"""Sample → how many pods it makes."""

ELSEWHERE = {"devices"}
"""Samples that need more than nodes: test_claims.py."""

BLOCKER = "blocker"


def test_every_sample_has_a_story():
    """No sample lies about without having been run."""
    assert {place.stem for place in SAMPLES} == FORMATS.keys() | ELSEWHERE


@pytest.mark.parametrize(
    "place", [own for own in SAMPLES if own.stem in FORMATS], ids=lambda place: place.stem
)
async def test_sample(cluster: Cluster, place):
    """While all but a little room is taken nobody of the gang starts; then all of it does."""
    size = FORMATS[place.stem]
    await cluster.nodes(Fleet(racks=3, nodes_per_rack=2, cpu="2", memory="8Gi"))
    # Nobody gives way here: a sample with a priority of its own would make room for its quorum.
    first = {"priorityClassName": "system-cluster-critical"}
    await cluster.submit(*gang(BLOCKER, 6, gpus=0, cpu="1900m", strategy="spread", level="host", spec=first))
    await cluster.seated(BLOCKER, 6)
    await cluster.apply(place)

    waiting = await everybody(cluster, lambda pods: sum(map(gated, pods)) == size)
    assert bound(waiting) == {}
    await cluster.gone_by()
    assert bound(await everybody(cluster, bool)) == {}

    await cluster.remove(BLOCKER)
    running = await everybody(cluster, lambda pods: len(bound(pods)) == size)
    if place.stem in {"rack-required", "pack"}:
        assert len(racks(bound(running))) == 1
    if place.stem == "spread":
        assert len(racks(bound(running))) == 3


async def everybody(cluster: Cluster, holds):
    """The pods of the sample, as soon as `holds(pods)`."""

    def sample(pods):
        return [p for p in pods if p["metadata"]["labels"].get(GANG) not in {BLOCKER, "passer-by"}]

    pods = where("pods", cluster.namespace)
    return sample(await watches.until(cluster.api, pods, lambda seen: holds(sample(seen))))
