"""What people get wrong, and what they try: they are told, nobody else is hurt, and nothing ends."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bench.plane import ApiError, Client, Fleet, Identity, where
from bench.plane.installation import GATE
from tests.stories.support.cluster import PLAN, SEAT, Cluster, gated
from tests.stories.support.workloads import gang, pod

EIGHT_GPUS = Fleet(racks=1, nodes_per_rack=2, gpus=4)

WRONG = {
    "none": ("min-members", "0", "a whole number from 1 to"),
    "negative": ("min-members", "-4", "a whole number from 1 to"),
    "enormous": ("min-members", "1e9", "a whole number from 1 to"),
    "too many digits": ("min-members", "9" * 40, "a whole number from 1 to"),
    "not a number": ("min-members", "NaN", "a whole number from 1 to"),
    "200 KB": ("min-members", "4" * 200_000, "at most 256 bytes"),
    "two lines": ("min-members", "4\n4", "a whole number from 1 to"),
    "digits of another script": ("min-members", "٤", "a whole number from 1 to"),
    "half a surrogate's cousin": ("min-members", "4\u202e\U0001f600", "a whole number from 1 to"),
    "a role twice": ("min-members", "ps=1,ps=2", "each role once"),
    "no such strategy": ("strategy", "magic", "one of cosine, pack, spread"),
    "neither yes nor no": ("level-required", "maybe", "true or false"),
    "negative time": ("timeout", "-5s", "a duration such as 90s"),
    "endless time": ("timeout", "1e99h", "a duration such as 90s"),
}
"""Annotation, what it says, and what the user is told to write."""


@pytest.mark.parametrize(("word", "value", "remedy"), WRONG.values(), ids=WRONG)
async def test_wrong_word(cluster: Cluster, word: str, value: str, remedy: str):
    """A gang with an annotation that means nothing is refused, its field and the remedy named, and its neighbour
    starts.
    """
    await cluster.nodes(EIGHT_GPUS)
    said = {"min_members": 4, word.replace("-", "_"): value}
    await cluster.submit(*(pod(f"bad-{n}", gang="bad", **said) for n in range(4)), *gang("good", 4))

    message = await cluster.told("bad", "InvalidSpec")

    assert message.startswith(f"The gang's labels or annotations are invalid: gangwright.io/{word}: ")
    assert remedy in message
    assert len(message) < 1000
    assert message.isprintable()
    await cluster.seated("good", 4)
    assert await cluster.bound("bad") == {}


async def test_quorum_above_the_size(cluster: Cluster):
    """A gang of two that needs four contradicts itself, and is told so."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*gang("vain", 2, min_members=4, members=2))

    message = await cluster.told("vain", "InvalidSpec")

    assert "gangwright.io/min-members: '4': must be at most 2, the value of gangwright.io/members" in message


async def test_members_that_never_come(cluster: Cluster):
    """Three of four members hold nothing: their owner is told, and everybody else has the whole cluster."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*gang("three", 3, min_members=4))

    assert (await cluster.told("three", "MissingMembers")).endswith("3 of 4 exist")
    await cluster.nothing_held()
    await cluster.submit(*gang("whole", 8))
    await cluster.seated("whole", 8)


async def test_more_members_than_declared(cluster: Cluster):
    """The gang is whole with as many as it says; pods beyond that are surplus, placed one by one as room allows."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=3))
    await cluster.submit(*gang("pair", 5, min_members=2, members=2))

    places = await cluster.seated("pair", 3)
    assert {"pair-0", "pair-1"} <= set(places)
    await cluster.gone_by()
    assert len(await cluster.bound("pair")) == 3


async def test_same_name_in_two_namespaces(cluster: Cluster, other: str):
    """Gangs of one name in two namespaces are two gangs: members of one never complete the other."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*gang("twin", 2, min_members=3))
    for member in gang("twin", 2, min_members=3):
        await cluster.api.create(where("pods", other), member)

    await cluster.told("twin", "MissingMembers")
    assert await cluster.bound("twin") == {}

    await cluster.submit(pod("twin-2", gang="twin", min_members=3))
    await cluster.seated("twin", 3)
    assert all(map(gated, await cluster.api.items(where("pods", other))))


async def test_members_that_disagree(cluster: Cluster):
    """Members that tell different quorums are refused with both values; when they agree again, they start."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(pod("a-0", gang="a", min_members=2), pod("a-1", gang="a", min_members=3))

    message = await cluster.told("a", "Conflict")

    assert "gangwright.io/min-members" in message
    assert "2 and 3" in message
    assert await cluster.bound("a") == {}

    agreed = {"metadata": {"annotations": {"gangwright.io/min-members": "2"}}}
    await cluster.api.patch(where("pods", cluster.namespace, "a-1"), agreed)
    await cluster.seated("a", 2)


async def test_gang_larger_than_the_cluster(cluster: Cluster):
    """A gang that not even the empty cluster could hold is told so, blocks nobody, and starts when the cluster
    grows.
    """
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*gang("huge", 9))

    assert "The gang can't fit even in an empty cluster: needs 9 × 1 nvidia.com/gpu" in await cluster.told(
        "huge", "ExceedsCluster"
    )

    await cluster.submit(*gang("small", 4))
    await cluster.seated("small", 4)
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4, prefix="new-"))
    await cluster.seated("huge", 9)


async def test_absurd_demand(cluster: Cluster):
    """A pod that asks for more than can be counted is refused by name; one that asks for nothing is placed."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(
        pod("endless", gang="endless", min_members=1, gpus=0, cpu="9E"),
        pod("nothing", gang="nothing", min_members=1, gpus=0, cpu="0"),
    )

    await cluster.seated("nothing", 1)
    assert "spec.containers.resources: 'more than" in await cluster.told("endless", "InvalidSpec")


async def test_fractions_of_a_gpu(cluster: Cluster):
    """What kube-scheduler cannot divide is refused by name: KAI's annotation, with and without a gang, and HAMi's
    resource, which no node has. No such pod is placed without its part of a GPU; a whole GPU is.
    """
    await cluster.nodes(EIGHT_GPUS)
    half = {"gpu-fraction": "0.5"}
    memory = {"requests": {"cpu": "1", "nvidia.com/gpumem": "3k"}, "limits": {"nvidia.com/gpumem": "3k"}}
    hami = pod("hami", gang="hami", min_members=1)
    hami["spec"]["containers"][0]["resources"] = memory
    alone = pod("alone", gpus=0, annotations=half)
    await cluster.submit(*gang("half", 2, gpus=0, annotations=half), alone, hami, *gang("whole", 2))

    assert "gpu-fraction: '0.5': unsupported: a fraction of a GPU; request whole" in await cluster.told(
        "half", "InvalidSpec"
    )
    assert "(no node has nvidia.com/gpumem). Request whole" in await cluster.told("hami", "ExceedsCluster")
    await cluster.seated("whole", 2)
    found = await cluster.api.get(where("pods", cluster.namespace, "alone"))
    assert "nodeName" not in found["spec"]
    assert gated(found)


async def test_gate_removed_by_its_user(cluster: Cluster, alice: Client):
    """Whoever takes the gate off his pods gains nothing: the gang still waits for its quorum, and then starts whole."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*gang("eager", 3, min_members=4))
    gone = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    for member in await cluster.members("eager"):
        await alice.patch(cluster.at(member), gone)

    # kube-scheduler may have seen that the gate is gone before we have: then it was told of a gate first.
    await cluster.until(
        "eager",
        lambda pods: all(
            "Waiting for members to be created" in str(kube_scheduler_says(own)) for own in pods
        ),
    )
    await cluster.gone_by()
    assert await cluster.bound("eager") == {}

    await cluster.submit(pod("eager-3", gang="eager", min_members=4))
    await cluster.seated("eager", 4)


@pytest.mark.parametrize("key", [SEAT, PLAN])
async def test_forged_seat(cluster: Cluster, alice: Client, key: str):
    """A user who writes a seat or a plan onto his own pod is refused by name, at its creation and later."""
    await cluster.submit(pod("honest", gang="a", min_members=2))
    forged = {key: json.dumps({"node": "r00-n00", "plan": "mine"})}

    for attempt in (
        alice.create(where("pods", cluster.namespace), pod("forged", annotations=forged)),
        alice.patch(where("pods", cluster.namespace, "honest"), {"metadata": {"annotations": forged}}),
    ):
        with pytest.raises(ApiError, match="written by Gangwright alone") as refused:
            await attempt
        assert refused.value.status == 403


def kube_scheduler_says(own):
    """Why kube-scheduler did not place a pod."""
    return next(
        (
            condition.get("message")
            for condition in own["status"].get("conditions", [])
            if (condition["type"], condition["status"]) == ("PodScheduled", "False")
            and condition["reason"] == "Unschedulable"
        ),
        None,
    )


@pytest_asyncio.fixture
async def other(api: Client, cluster: Cluster) -> AsyncIterator[str]:
    """A second namespace."""
    made = await api.create(where("namespaces"), {"metadata": {"generateName": "other-"}})
    name: str = made["metadata"]["name"]
    await api.until(where("serviceaccounts", name, "default"), bool)
    yield name
    await api.delete_all(where("pods", name), grace=0)
    await api.delete(where("namespaces", name=name))


@pytest_asyncio.fixture
async def alice(cluster: Cluster) -> AsyncIterator[Client]:
    """A user who may do with pods in the namespace what she likes."""
    group, at = "rbac.authorization.k8s.io", cluster.namespace
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]
    await cluster.api.create(where("roles", at), {"metadata": {"name": "people"}, "rules": rules})
    binding = {
        "metadata": {"name": "people"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "people"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    }
    await cluster.api.create(where("rolebindings", at), binding)
    async with cluster.gangwright.plane.client(Identity("alice")) as client:
        yield client
