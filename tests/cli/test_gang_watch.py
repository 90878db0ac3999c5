"""Following the pods of gangs: one list, one watch, and what is left where the watch is refused."""

import asyncio

import pytest

from scheduler import errors
from scheduler.cli import gang_watch
from scheduler.cli.gang_watch import GangWatch, is_of
from scheduler.cli.options import Reach
from scheduler.model.workload import GangKey
from scheduler.objects import api
from tests.cli.support.speaking import TEAM
from tests.kube.support.api_server import Refuse

GANG = GangKey("team", "g")


def names(watch):
    return [pod.metadata.name for pod in watch.pods]


async def until(watch, expected):
    async with asyncio.timeout(10):
        while names(watch) != expected:
            await watch.changed(None)


async def test_members_come_and_go(cluster):
    """What is of the gang is known as it is now, also by a label that changes; nothing more is listed."""
    cluster.gang("g", 1)
    cluster.pod("stranger")
    async with await Reach(cluster.kubeconfig).client() as client, GangWatch(client, {GANG}) as watch:
        first = names(watch)
        cluster.pod("g-1", gang="g")
        await until(watch, ["g-0", "g-1"])
        gone = cluster.objects[TEAM].pop(("team", "g-0"))
        cluster.version += 1
        gone["metadata"]["resourceVersion"] = str(cluster.version)
        cluster._happened(TEAM, "DELETED", gone)
        await until(watch, ["g-1"])
        cluster.objects[TEAM]["team", "g-1"]["metadata"]["labels"] = {}
        cluster.changed("g-1")
        await until(watch, [])

    asked = [call.watches for call in cluster.calls if call.path == TEAM]
    assert (first, asked) == (["g-0"], [False, True])


async def test_a_list_without_a_watch(cluster, monkeypatch):
    """The list is read again every few seconds instead."""
    monkeypatch.setattr(gang_watch, "RELIST", 0.05)
    cluster._watch = lambda *_: cluster._refused(Refuse(403))
    cluster.gang("g", 1)
    async with await Reach(cluster.kubeconfig).client() as client, GangWatch(client, {GANG}) as watch:
        cluster.pod("g-1", gang="g")
        await until(watch, ["g-0", "g-1"])
        del cluster.objects[TEAM]["team", "g-0"]
        await until(watch, ["g-1"])


async def test_a_list_that_is_refused(cluster):
    """Nothing is waited for: the refusal is raised at once, and later, too."""
    cluster.barred[TEAM] = Refuse(403)
    async with await Reach(cluster.kubeconfig).client() as client:
        with pytest.raises(errors.Forbidden):
            async with GangWatch(client, {GANG}):
                pass
        del cluster.barred[TEAM]
        async with GangWatch(client, {GANG}) as watch:
            cluster.barred[TEAM] = Refuse(403)
            cluster.cut()
            with pytest.raises(errors.Forbidden):
                async with asyncio.timeout(20):
                    while True:
                        await watch.changed(None)


async def test_an_api_server_that_is_away(cluster):
    """The first list says so at once; a command that waits already goes on waiting."""
    kubeconfig = cluster.kubeconfig
    await cluster.stop()
    async with await Reach(kubeconfig).client() as client:
        with pytest.raises(errors.Unreachable):
            async with GangWatch(client, {GANG}):
                pass


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"name": "x", "labels": {"gangwright.io/gang": "g"}}, True),
        ({"name": "x", "labels": {"scheduling.x-k8s.io/pod-group": "g"}}, True),
        ({"name": "g"}, True),
        ({"name": "x", "labels": {"gangwright.io/gang": "other"}}, False),
        ({"name": "x"}, False),
    ],
)
def test_which_pods_are_of_a_gang(meta, expected):
    """Those that name it in any format; and the pod of its name, for a pod without a gang goes by its own."""
    pod = api.Pod(metadata=api.Meta(namespace="team", **meta))

    assert is_of(pod, {GANG}) is expected
