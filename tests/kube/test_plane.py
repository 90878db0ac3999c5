"""The edge against the real API server and a real kube-scheduler: what the small fake claims is so."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from bench.plane.certificates import ADMIN
from bench.plane.client import Client as Admin
from bench.plane.client import where
from bench.plane.control_plane import Plane
from bench.plane.proxy import Proxy
from scheduler import errors
from scheduler.kube.changes import Key, Resource
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.kube.lease_follower import Follower
from scheduler.kube.lease_record import LeaseName
from scheduler.kube.watch import Reflector
from scheduler.kube.watch_probe import Pace
from tests.kube.support.follower import Cache, Pod, until
from tests.kube.support.kubeconfig import kubeconfig

pytestmark = pytest.mark.plane


@pytest.fixture
async def ours(plane: Plane):
    async with Client(await find_access(str(plane.kubeconfig()))) as made:
        yield made


@pytest.fixture
async def admin(plane: Plane):
    async with plane.client() as made:
        yield made


@pytest.fixture
def pods(namespace: str) -> Resource[Pod]:
    return Resource(where("pods", namespace), Pod)


@pytest.fixture
def api(admin: Admin) -> Admin:
    """The real one, for the plane's own fixtures."""
    return admin


def gated(name: str) -> dict[str, object]:
    spec = {
        "schedulingGates": [{"name": "gangwright.io/planned"}],
        "containers": [{"name": "c", "image": "i"}],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def truth(admin: Admin, path: str) -> dict[Key, tuple[str, int]]:
    metas = [item["metadata"] for item in await admin.items(path)]
    return {Key(m["namespace"], m["name"]): (m["uid"], int(m["resourceVersion"])) for m in metas}


async def agree(cache: Cache, admin: Admin, path: str) -> None:
    async with asyncio.timeout(20):
        while cache.versions() != await truth(admin, path):
            await asyncio.sleep(0.02)


async def followed(reflector: Reflector, story: Callable) -> None:
    task = asyncio.create_task(reflector.run())
    try:
        await until(lambda: reflector.synced)
        await story()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_reflector_follows_the_real_api_server(
    ours: Client, admin: Admin, pods: Resource[Pod]
) -> None:
    """Pods made, changed and removed are told, over one watch."""
    cache = Cache()
    reflector = Reflector(ours, pods, cache)
    for name in "abc":
        await admin.create(pods.path, gated(name))

    async def story() -> None:
        await agree(cache, admin, pods.path)
        await admin.patch(f"{pods.path}/a", {"metadata": {"labels": {"x": "y"}}}, how="merge")
        await admin.create(pods.path, gated("d"))
        await admin.delete(f"{pods.path}/b", grace=0)
        await agree(cache, admin, pods.path)
        assert cache.gone == ["b"]
        assert not reflector.restarts

    await followed(reflector, story)
    assert not cache.malformed


@pytest.mark.parametrize(
    ("version", "ends"), [("nonsense", {"server-error": 3}), ("999999999999", {"silent": 2})]
)
async def test_a_version_that_leads_nowhere_is_given_up(
    ours: Client, admin: Admin, pods: Resource[Pod], version: str, ends: dict[str, int]
) -> None:
    """The real server answers an unreadable version with 500 and a version of the future with silence; both heal."""
    cache = Cache()
    reflector = Reflector(ours, pods, cache, sleep=lambda _: asyncio.sleep(0), inactivity=1.0)
    await followed(reflector, lambda: asyncio.sleep(0))
    await admin.create(pods.path, gated("missed"))
    reflector._version = version
    await followed(reflector, lambda: until(lambda: cache.syncs == 2))
    assert reflector.restarts == ends
    assert cache.versions() == await truth(admin, pods.path)


async def test_a_deaf_stream_is_found_out(
    plane: Plane, admin: Admin, pods: Resource[Pod], tmp_path: Path
) -> None:
    """A way that takes the real server's bytes and passes none on costs a stream, and no list; nothing is missed. A
    stream on which nothing happens is left alone.
    """
    cache = Cache()
    await admin.create(pods.path, gated("a"))
    door = await asyncio.to_thread(Proxy(plane.url, plane.context(ADMIN)).start)
    try:
        async with Client(await find_access(kubeconfig(tmp_path, door.url))) as through:
            reflector = Reflector(through, pods, cache, probe_pace=Pace(quiet=0.2, grace=0.5))

            async def story() -> None:
                await asyncio.sleep(3)  # in which a look sees nothing
                assert not reflector.restarts
                door.deafen(pods.path)
                await admin.patch(f"{pods.path}/a", {"metadata": {"labels": {"x": "y"}}}, how="merge")
                await admin.create(pods.path, gated("missed"))
                await agree(cache, admin, pods.path)
                assert reflector.restarts == {"deaf": 1}

            await followed(reflector, story)
    finally:
        await asyncio.to_thread(door.stop)
    assert cache.syncs == 1


async def test_real_refusals_have_their_classes(ours: Client, namespace: str) -> None:
    """404, 409 with its two reasons, 422, 400 and 410 of the real server come as their classes."""
    path = where("pods", namespace)
    body = json.dumps(gated("a")).encode()
    await ours.request("POST", path, body=body, params={"fieldManager": "gangwright"})
    with pytest.raises(errors.Conflict) as exists:
        await ours.request("POST", path, body=body)
    assert exists.value.reason == "AlreadyExists"
    with pytest.raises(errors.NotFound):
        await ours.request("GET", f"{path}/none")
    with pytest.raises(errors.NotFound):
        await ours.request("GET", "/apis/nobody.example/v1/things")
    with pytest.raises(errors.Conflict) as stale:
        patch = {"metadata": {"resourceVersion": "1", "labels": {"x": "y"}}}
        await ours.request(
            "PATCH",
            f"{path}/a",
            body=json.dumps(patch).encode(),
            content_type="application/merge-patch+json",
        )
    assert stale.value.reason == "Conflict"
    with pytest.raises(errors.Invalid):
        await ours.request("POST", path, body=json.dumps(gated("Not A Name")).encode())
    with pytest.raises(errors.Invalid):
        await ours.request("POST", path, body=b"{")


async def test_pages_and_bookmarks_are_as_assumed(ours: Client, admin: Admin, pods: Resource[Pod]) -> None:
    """The real server pages a list without a version at one moment, and marks the moment on a fresh watch."""
    for name in "abc":
        await admin.create(pods.path, gated(name))
    first = json.loads(await ours.request("GET", pods.path, params={"limit": "2"}))
    await admin.create(pods.path, gated("d"))
    rest = {"limit": "2", "continue": first["metadata"]["continue"]}
    second = json.loads(await ours.request("GET", pods.path, params=rest))
    assert [item["metadata"]["name"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_we_follow_the_lease_of_a_real_kube_scheduler(plane: Plane, ours: Client, admin: Admin) -> None:
    """We act while the kube-scheduler with our hostname renews, others do not, and we stop when it is gone."""
    lease = LeaseName("kube-system", "gangwright-test")
    election = {
        "leaderElect": True,
        "resourceName": lease.name,
        "resourceNamespace": lease.namespace,
        "leaseDuration": "6s",
        "renewDeadline": "4s",
        "retryPeriod": "1s",
    }
    await asyncio.to_thread(plane.start_scheduler, "led", {"leaderElection": election}, hostname="ours-0")
    followers = [Follower(ours, lease, name) for name in ("ours-0", "ours-1")]
    tasks = [asyncio.create_task(follower.run()) for follower in followers]
    try:
        await until(lambda: followers[0].acting(monotonic()), 30)
        assert not followers[1].acting(monotonic())
        await asyncio.to_thread(plane.end, "led")
        await until(lambda: not followers[0].acting(monotonic()), 15)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await admin.delete(lease.path)
