"""A stream that brings nothing is looked at from beside: what it keeps to itself comes over another one."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from scheduler import errors
from scheduler.kube.changes import Resource
from scheduler.kube.client import SPARE, Client
from scheduler.kube.credentials import find_access
from scheduler.kube.retry_backoff import LATE
from scheduler.kube.watch_probe import LOOK, UNGUARDED, Pace, WatchProbe, kept
from tests.kube.support.api_server import PODS, ApiServer, Call, Refuse, line
from tests.kube.support.follower import Cache, Pod, Time, following, pods, until
from tests.kube.support.kubeconfig import kubeconfig

QUICK = Pace(quiet=0.03, grace=0.03)
"""Silence is looked into after a moment."""

SHORT = 0.03
"""Seconds of a look, instead of a whole one."""


@pytest.fixture
def cluster(api: ApiServer) -> ApiServer:
    """Three pods, and looks are short."""
    api.second = SHORT
    for name in "abc":
        api.put(name)
    return api


def looks(api: ApiServer) -> list[Call]:
    return [call for call in api.calls if call.query.get("timeoutSeconds") == str(LOOK)]


def watches(api: ApiServer) -> list[Call]:
    return [call for call in api.calls if call.watches and call not in looks(api)]


def lists(api: ApiServer) -> int:
    return sum(call.path == PODS and not call.watches for call in api.calls)


async def test_what_a_deaf_stream_keeps_to_itself_comes_over_another(
    cluster: ApiServer, client: Client
) -> None:
    """Bytes are taken and none passed on: the watch goes on over a new stream at once, from where it was, without a
    list.
    """
    cache, time = Cache(), Time()
    async with following(client, cache, time, probe_pace=QUICK) as reflector:
        await until(lambda: bool(cluster.streams))
        last = str(cluster.version)
        cluster.mute()
        cluster.put("unheard")
        await until(lambda: cache.equals(cluster))
        assert reflector.restarts == {"deaf": 1}
    assert watches(cluster)[-1].query["resourceVersion"] == last
    assert (lists(cluster), time.slept) == (1, [])


async def test_a_quiet_stream_is_left_alone(cluster: ApiServer, client: Client) -> None:
    """Where nothing happens a look sees nothing, and the stream stays as it is; the next look comes after as long a
    silence.
    """
    async with following(client, Cache(), probe_pace=QUICK) as reflector:
        await until(lambda: len(looks(cluster)) >= 5)
        assert not reflector.restarts
    assert (len(watches(cluster)), lists(cluster)) == (1, 1)


async def test_nobody_looks_where_nothing_is_decided(cluster: ApiServer, client: Client) -> None:
    """An unguarded stream is believed as long as it stands."""
    async with following(client, Cache(), probe_pace=UNGUARDED) as reflector:
        await until(lambda: bool(cluster.streams))
        await asyncio.sleep(0.1)
        assert not reflector.restarts
    assert not looks(cluster)


async def test_a_stream_that_is_heard_is_not_looked_into(cluster: ApiServer, client: Client) -> None:
    """Whatever comes, and be it a bookmark, makes a look needless."""
    cache = Cache()
    async with following(client, cache, probe_pace=Pace(quiet=5.0, grace=0.0)):
        for number in range(20):
            cluster.put("a", number=number)
            cluster.bookmark()
            await until(lambda: cache.equals(cluster))
    assert not looks(cluster)


async def test_a_look_asks_for_what_the_watch_asks_for(api: ApiServer, client: Client) -> None:
    """A look has the selectors of its watch, so that what another sees is not missed; and it wants no bookmarks, which
    are nothing that happens.
    """
    api.second = SHORT
    api.put("mine", labels={"gang": "g"})
    resource = pods(label_selector="gang=g", field_selector="spec.nodeName!=")
    async with following(client, Cache(), resource=resource, probe_pace=QUICK) as reflector:
        await until(lambda: bool(api.streams))
        api.put("foreign")
        await until(lambda: len(looks(api)) >= 3)
        assert not reflector.restarts
    assert all(call.query["labelSelector"] == "gang=g" for call in looks(api))
    assert all(call.query["fieldSelector"] == "spec.nodeName!=" for call in looks(api))
    assert not any("allowWatchBookmarks" in call.query for call in looks(api))


async def test_what_comes_late_over_the_stream_ends_nothing(cluster: ApiServer, client: Client) -> None:
    """An API server hears of a write later than another: a stream that brings it within the grace is not deaf."""
    cache = Cache()
    async with following(client, cache, probe_pace=Pace(quiet=0.03, grace=0.5)) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.mute()
        late = cluster.put("late")
        await until(lambda: bool(looks(cluster)))
        _, stream = cluster.streams[0]
        stream.mute = False
        stream.send(line("ADDED", late))
        await until(lambda: cache.equals(cluster))
        seen = len(looks(cluster))
        await until(lambda: len(looks(cluster)) > seen)
        assert not reflector.restarts


@pytest.mark.parametrize("status", [400, 403, 404, 429, 500])
async def test_a_look_that_is_refused_says_nothing(cluster: ApiServer, client: Client, status: int) -> None:
    """A stream that stands is not given up because another is not to be had."""
    cache = Cache()
    async with following(client, cache, probe_pace=QUICK) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.barred[PODS] = Refuse(status)
        await until(lambda: len(looks(cluster)) >= 3)
        cluster.put("heard")
        await until(lambda: cache.equals(cluster))
        assert not reflector.restarts
    assert lists(cluster) == 1


async def test_a_look_that_comes_too_late_lists_again_once(cluster: ApiServer, client: Client) -> None:
    """An API server that was started again has forgotten the version of a quiet stream: one list brings one that it
    knows.
    """
    cache = Cache()
    async with following(client, cache, probe_pace=QUICK) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.mute()
        cluster.put("unheard")
        cluster.compact()
        await until(lambda: cache.equals(cluster))
        seen = len(looks(cluster))
        await until(lambda: len(looks(cluster)) >= seen + 3)
        assert reflector.restarts == {"expired": 1}
    assert lists(cluster) == 2


async def test_who_was_deaf_is_blind_until_something_is_heard(cluster: ApiServer, client: Client) -> None:
    """A stream that takes the place of a deaf one is believed when it brings what the look saw, and not before."""
    cache, time = Cache(), Time()
    async with following(client, cache, time, probe_pace=QUICK) as reflector:
        await until(lambda: bool(cluster.streams))
        time.now += 100
        cluster.put("heard")
        await until(lambda: cache.equals(cluster))
        cluster.mute()
        cluster.deaf = True
        cluster.put("unheard")
        await until(lambda: len(watches(cluster)) == 2)
        assert reflector.blind_for(time.now + 20) == 20
        cluster.deaf = False
        await until(lambda: cache.equals(cluster))
        assert reflector.blind_for(time.now + 20) == 0


async def test_where_no_stream_brings_anything_lists_come_seldom(cluster: ApiServer, client: Client) -> None:
    """A way that passes on no stream is known by lists: with growing waits of up to half a minute between them."""
    cache, time = Cache(), Time()
    cluster.deaf = True
    async with following(client, cache, time, probe_pace=QUICK) as reflector:
        for number in range(8):
            cluster.put(f"unheard-{number}")
            before = lists(cluster)
            await until(lambda: lists(cluster) > before)  # noqa: B023
        await until(lambda: cache.equals(cluster))
        assert set(reflector.restarts) == {"deaf"}
    assert lists(cluster) <= len(time.slept) <= len(watches(cluster))
    assert 0.75 * LATE <= min(time.slept[4:]) <= max(time.slept) <= LATE


async def test_looks_wait_for_each_other(cluster: ApiServer, tmp_path: Path) -> None:
    """However many watches are quiet, few connections are taken by looks at a time, and every watch has its turn."""
    quiet, cluster.second, most = 3 * SPARE, 0.05, 0
    paths = [f"/api/v1/namespaces/n{number}/pods" for number in range(quiet)]
    access = await find_access(kubeconfig(tmp_path, cluster.url))
    async with Client(access, connections=quiet + SPARE) as client, AsyncExitStack() as stack:
        for path in paths:
            cluster.objects[path] = {}
            await stack.enter_async_context(
                following(client, Cache(), resource=Resource(path, Pod), probe_pace=QUICK)
            )
        await until(lambda: len(cluster.streams) >= quiet)
        while {call.path for call in looks(cluster)} != set(paths):
            most = max(most, len(cluster.streams) - quiet)
            await asyncio.sleep(0.001)
    assert most == SPARE


class Finding(WatchProbe):
    """Finds the stream deaf as soon as a test says so."""

    def __init__(self) -> None:
        self.found = asyncio.Event()

    async def keep(self) -> errors.KubeError:
        await self.found.wait()
        return errors.Deaf("WATCH /pods", "as scripted")


async def test_a_stream_that_ends_as_it_is_found_deaf_ends_in_good_order() -> None:
    """Both happen in one turn of the event loop: the end of the stream counts, and no callback fails."""
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: faults.append(fault))
    probe = Finding()
    async with kept(probe):
        await asyncio.sleep(0)
        probe.found.set()
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert faults == []
