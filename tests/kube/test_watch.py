"""The reflector against a real HTTP server: after every fault, the sink knows what the API server knows."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube.changes import Gone, Key, Seen, Synced
from scheduler.kube.client import QUIET, Client
from scheduler.kube.credentials import find_access
from scheduler.kube.lease_follower import AFTER_FAULT
from scheduler.kube.retry_backoff import BRIEF
from scheduler.kube.watch import INACTIVITY, Reflector
from scheduler.objects.watched_resources import RESOURCES
from tests.kube.support.api_server import PODS, ApiServer, Refuse, line
from tests.kube.support.follower import Cache, Time, following, pods, until
from tests.kube.support.kubeconfig import kubeconfig


@pytest.fixture
def cluster(api: ApiServer) -> ApiServer:
    """Three pods, a to c."""
    for name in "abc":
        api.put(name, spec={"node": f"node-{name}"})
    return api


def lists(api: ApiServer) -> int:
    return sum(call.path == PODS and not call.watches for call in api.calls)


def sees(reflector: Reflector[Any], time: Time) -> bool:
    """Its watch stands."""
    return reflector.blind_for(time.now + INACTIVITY) == 0


def watches(api: ApiServer) -> list[dict[str, str]]:
    return [call.query for call in api.calls if call.watches]


async def test_everything_listed_is_seen_then_synced(cluster: ApiServer, client: Client) -> None:
    """A first list tells of every object, then says that it is complete."""
    cache = Cache()
    async with following(client, cache) as reflector:
        assert not reflector.synced
        await until(lambda: reflector.synced)
    told = [change for batch in cache.batches for change in batch]
    assert [type(change) for change in told] == [Seen, Seen, Seen, Synced]
    assert told[-1] == Synced(3)
    assert cache.pods[Key("team", "b")][1].spec.node == "node-b"


async def test_a_list_comes_in_pages_of_the_newest_state(api: ApiServer, client: Client) -> None:
    """No page asks for a version, each follows the token of the one before, and the watch starts at the list's
    version.
    """
    for number in range(1203):
        api.put(f"pod-{number}")
    cache = Cache()
    async with following(client, cache):
        await until(lambda: bool(api.streams))
    pages = [call.query for call in api.calls if not call.watches]
    assert [page["limit"] for page in pages] == ["500"] * 3
    assert ["continue" in page for page in pages] == [False, True, True]
    assert not any({"resourceVersion", "resourceVersionMatch"} & page.keys() for page in pages)
    assert watches(api)[0]["resourceVersion"] == str(api.version)
    assert cache.equals(api)


async def test_an_object_made_between_two_pages_is_not_lost(api: ApiServer, client: Client) -> None:
    """What happens during a list comes with the watch, which starts at the list's moment."""
    for number in range(600):
        api.put(f"pod-{number}")
    cache = Cache()

    def meddling(changes) -> None:
        cache(changes)
        if len(cache.batches) == 1:
            api.put("late")
            api.delete("pod-599")

    async with following(client, meddling):
        await until(lambda: cache.equals(api))
    assert cache.gone == ["pod-599"]


async def test_an_empty_list_without_items_is_a_list(api: ApiServer, client: Client) -> None:
    """`items: null` is how the API server spells an empty list."""
    api.objects[PODS] = {}
    cache = Cache()
    async with following(client, cache):
        await until(lambda: cache.syncs == 1)
    assert cache.pods == {}


async def test_the_watch_asks_for_bookmarks_and_a_random_end(cluster: ApiServer, client: Client) -> None:
    """A watch asks for bookmarks, and to be ended after 4 to 8 minutes, not always the same."""
    cache = Cache()
    async with following(client, cache):
        for count in range(1, 6):
            await until(lambda: len(cluster.streams) == 1 and len(watches(cluster)) == count)  # noqa: B023
            cluster.put("a")
            await until(lambda: cache.equals(cluster))
            cluster.finish()
            await until(lambda: len(watches(cluster)) == count + 1)  # noqa: B023
    asked = [int(query["timeoutSeconds"]) for query in watches(cluster)]
    assert all(240 <= seconds <= 480 for seconds in asked)
    assert len(set(asked)) > 1
    assert all(query["allowWatchBookmarks"] == "true" for query in watches(cluster))


async def test_selectors_narrow_list_and_watch(api: ApiServer, client: Client) -> None:
    """Label and field selectors go with the list and with the watch, and only what they choose is told."""
    api.put("mine", labels={"gang": "g"})
    api.put("other")
    cache = Cache()
    resource = pods(label_selector="gang=g", field_selector="spec.nodeName!=")
    async with following(client, cache, resource=resource):
        await until(lambda: bool(api.streams))
        api.put("foreign")
        api.put("mine-too", labels={"gang": "g"})
        await until(lambda: len(cache.pods) == 2)
    assert set(cache.seen) == {"mine", "mine-too"}
    assert all(call.query["fieldSelector"] == "spec.nodeName!=" for call in api.calls)
    assert all(call.query["labelSelector"] == "gang=g" for call in api.calls)


@pytest.mark.parametrize("fault", ["finish", "cut"])
async def test_a_closed_stream_goes_on_from_the_last_version(
    cluster: ApiServer, client: Client, fault: str
) -> None:
    """However a stream ends, the next watch starts at the last version seen, at once, without a list."""
    cache, time = Cache(), Time()
    async with following(client, cache, time) as reflector:
        await until(lambda: bool(cluster.streams))
        for round_ in range(9):  # a burst: the API server closes slow readers again and again
            cluster.put(f"pod-{round_}")
            await until(lambda: cache.equals(cluster))
            last = str(cluster.version)
            getattr(cluster, fault)()
            cluster.put(f"missed-{round_}")
            await until(lambda: cache.equals(cluster) and len(watches(cluster)) == round_ + 2)  # noqa: B023
            assert watches(cluster)[-1]["resourceVersion"] == last
        assert reflector.restarts == {"closed": 9}
        assert reflector.synced
    assert lists(cluster) == 1
    assert time.slept == []
    assert cache.syncs == 1


async def test_a_bookmark_moves_the_version_forward(cluster: ApiServer, client: Client) -> None:
    """After a bookmark the next watch starts at the bookmark, although nothing of this kind happened."""
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.put("elsewhere", path="/api/v1/nodes")
        cluster.bookmark()
        cluster.finish()
        await until(lambda: len(watches(cluster)) == 2 and bool(cluster.streams))
        assert reflector.last_event_age(1000.0) == 0
    assert watches(cluster)[1]["resourceVersion"] == str(cluster.version)
    assert lists(cluster) == 1


@pytest.mark.parametrize("in_band", [True, False])
async def test_an_expired_version_lists_again_and_tells_the_difference(
    cluster: ApiServer, client: Client, in_band: bool
) -> None:
    """After 410, over HTTP or on the stream, only what changed is told: vanished objects as Gone, with their uid."""
    cache, time = Cache(), Time()
    async with following(client, cache, time) as reflector:
        await until(lambda: bool(cluster.streams))
        uid = cluster.objects[PODS]["team", "b"]["metadata"]["uid"]
        cluster.mute()  # what follows happens behind the reflector's back
        cluster.delete("b")
        cluster.put("c")
        cluster.put("d")
        cluster.compact()
        for _, stream in cluster.streams:
            stream.mute = False
        if in_band:
            cluster.error(410)
        else:
            cluster.finish()
        await until(lambda: cache.syncs == 2)
        await until(lambda: bool(cluster.streams))
        assert cache.equals(cluster)
        assert reflector.synced
        assert reflector.restarts["expired"] == 1
    assert cache.seen == ["a", "b", "c", "c", "d"]
    assert [c for batch in cache.batches for c in batch if isinstance(c, Gone)] == [
        Gone(Key("team", "b"), uid)
    ]
    assert not in_band or time.slept == []


async def test_a_cache_is_not_synced_while_it_lists_again(cluster: ApiServer, client: Client) -> None:
    """From 410 until the new list is complete, `synced` is False."""
    cache, states = Cache(), []
    async with following(
        client, lambda changes: (cache(changes), states.append(reflector.synced))
    ) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.mute()
        cluster.put("d")
        for _, stream in cluster.streams:
            stream.mute = False
        cluster.error(410)
        await until(lambda: cache.syncs == 2)
    assert states == [False, True, False, True]


async def test_a_name_taken_again_is_gone_first(cluster: ApiServer, client: Client) -> None:
    """A name with a new uid after a new list is told as Gone with the old uid, then as Seen."""
    cache = Cache()
    async with following(client, cache):
        await until(lambda: bool(cluster.streams))
        old = cluster.objects[PODS]["team", "a"]["metadata"]["uid"]
        cluster.mute()
        cluster.delete("a")
        new = cluster.put("a")["metadata"]["uid"]
        cluster.compact()
        cluster.finish()
        await until(lambda: cache.syncs == 2)
        assert cache.equals(cluster)
    told = [c for batch in cache.batches for c in batch if isinstance(c, Seen | Gone) and c.key.name == "a"]
    assert [(type(c), c.uid) for c in told] == [(Seen, old), (Gone, old), (Seen, new)]


async def test_an_expired_page_token_starts_the_list_again(api: ApiServer, client: Client) -> None:
    """410 in the middle of a list leads to a new list, and nothing is told twice."""
    for number in range(700):
        api.put(f"pod-{number}")
    cache = Cache()

    def compacting(changes) -> None:
        cache(changes)
        if len(cache.batches) == 1:
            api.compact()

    async with following(client, compacting):
        await until(lambda: cache.syncs == 1)
        assert cache.equals(api)
    assert len(cache.seen) == len(set(cache.seen)) == 700


async def test_a_restored_past_is_listed(tmp_path: Path) -> None:
    """An API server that comes back with an earlier state is listed anew, though it has passed our version when it is
    watched again; one that comes back as it was is not.
    """
    first = await ApiServer().start()
    address, cache, time = first.url, Cache(), Time()
    first.put("a")
    first.put("lost")
    access = await find_access(kubeconfig(tmp_path, address))
    async with Client(access) as client, following(client, cache, time) as reflector:
        await until(lambda: cache.equals(first) and bool(first.streams))
        await first.stop()
        await until(lambda: reflector.restarts["unreachable"] >= 1)
        second = restored(first, {"a", "lost"}, first.version)
        await second.start(port=int(address.rpartition(":")[2]))
        await until(lambda: bool(second.streams))
        assert [call.query["limit"] for call in second.calls if not call.watches] == ["1"]

        met = reflector.restarts["unreachable"]
        await second.stop()
        await until(lambda: reflector.restarts["unreachable"] > met)
        third = restored(first, {"a"}, first.version - 1)
        await third.start(port=int(address.rpartition(":")[2]))
        await until(lambda: any(not call.watches for call in third.calls))
        for name in ("new", "newer", "newest"):
            third.put(name)
        await until(lambda: cache.equals(third))
    await third.stop()
    assert cache.gone == ["lost"]
    assert reflector.restarts["expired"] == 1


def restored(before: ApiServer, names: set[str], version: int) -> ApiServer:
    """Another one that has these pods of it, and has come as far as this version."""
    api = ApiServer()
    api.objects = {PODS: {key: own for key, own in before.objects[PODS].items() if key[1] in names}}
    api.version = version
    return api


async def test_silence_ends_a_stream(cluster: ApiServer, client: Client) -> None:
    """A half-open connection is given up after the inactivity limit, and nothing is lost."""
    cache = Cache()
    async with following(client, cache, inactivity=0.1) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.mute()
        cluster.put("unheard")
        await until(lambda: cache.equals(cluster))
        assert reflector.restarts["silent"] >= 1
    assert lists(cluster) == 1


async def test_lasting_silence_lists_again(cluster: ApiServer, client: Client) -> None:
    """Twice silence from the same version is not believed: the list is asked again."""
    async with following(client, Cache(), inactivity=0.02) as reflector:
        await until(lambda: lists(cluster) >= 2)
        assert reflector.restarts["silent"] >= 2


async def test_lasting_silence_of_the_usual_length_lists_again(cluster: ApiServer, client: Client) -> None:
    """A stream that was silent for all of its long life has made no progress: the second such one is not believed."""
    loop, fast = asyncio.get_running_loop(), INACTIVITY / 0.02
    time = Time()
    reflector = Reflector(
        client, pods(), Cache(), clock=lambda: fast * loop.time(), sleep=time.sleep, inactivity=0.02
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(reflector.run())
        await until(lambda: lists(cluster) >= 3)
        running.cancel()
    assert max(time.slept) <= BRIEF


async def test_retry_after_is_obeyed(cluster: ApiServer, client: Client) -> None:
    """After 429 the reflector waits at least as long as the server asks."""
    cluster.refusals.append(Refuse(429, {"Retry-After": "17"}))
    time = Time()
    async with following(client, Cache(), time) as reflector:
        await until(lambda: reflector.synced)
        assert reflector.restarts["throttled"] == 1
    assert len(time.slept) == 1
    assert 17 <= time.slept[0] <= 17 * 1.2


async def test_an_outage_is_met_with_patience(cluster: ApiServer, client: Client) -> None:
    """Through a storm of 500 the waits grow and differ. All kinds and the look at the Lease ask less than four times a
    second together, and no wait is longer than 9 s."""
    cluster.refusals.extend(Refuse(500) for _ in range(10_000))
    time = Time()
    async with following(client, Cache(), time):
        await until(lambda: time.now > 1600)
        assert len(cluster.calls) * len(RESOURCES) / (time.now - 1000) + 1 / AFTER_FAULT < 4
        cluster.refusals.clear()
    assert time.slept[0] < time.slept[1] < time.slept[2]
    assert len(set(time.slept)) == len(time.slept)
    assert max(time.slept) <= 9


# ── blind ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_quiet_watch_is_not_blind(cluster: ApiServer, client: Client) -> None:
    """Nothing happens and not even a bookmark comes: as long as the watch stands, what is known is the present."""
    time = Time()
    async with following(client, Cache(), time) as reflector:
        assert reflector.blind_for(time.now) == float("inf"), "nothing was read yet"
        await until(lambda: sees(reflector, time))
        assert reflector.blind_for(time.now + INACTIVITY) == 0


async def test_who_slept_is_blind(cluster: ApiServer, client: Client) -> None:
    """A watch of which nothing was heard for longer than it may be silent was not looked at, whatever it seems."""
    time = Time()
    async with following(client, Cache(), time) as reflector:
        await until(lambda: sees(reflector, time))
        assert reflector.blind_for(time.now + INACTIVITY + 50) == 50


@pytest.mark.parametrize("status", [403, 410, 429, 500])
async def test_a_kind_that_is_refused_is_blind(cluster: ApiServer, client: Client, status: int) -> None:
    """From the end of the watch on, time counts until a watch stands again; other answers do not help."""
    time = Time()
    async with following(client, Cache(), time) as reflector:
        await until(lambda: sees(reflector, time))
        cluster.refusals.extend(Refuse(status) for _ in range(1000))
        ended = time.now
        cluster.cut()
        await until(lambda: len(time.slept) >= 4)
        assert reflector.blind_for(time.now) == time.now - ended > 10
        cluster.refusals.clear()
        await until(lambda: sees(reflector, time))


async def test_the_first_page_of_a_list_is_not_the_list(api: ApiServer, client: Client) -> None:
    """A list that breaks off behind its first page each time leaves the kind as blind as it was."""
    for number in range(600):
        api.put(f"pod-{number}")
    time, blind = Time(), []
    async with following(client, Cache(), time) as reflector:
        await until(lambda: sees(reflector, time))
        ended = time.now
        api.unpaged = 4
        api.error(410)
        while api.unpaged:
            await asyncio.sleep(0)
            blind.append((reflector.blind_for(time.now), time.now - ended))
        await until(lambda: sees(reflector, time))
    assert blind[-1][0] > 3
    assert all(measured == passed for measured, passed in blind if passed)


async def test_an_absent_api_server_is_waited_for(tmp_path: Path) -> None:
    """Refused connections count as unreachable, and the first list after the server's start is complete."""
    api = await ApiServer().start()
    address = api.url
    await api.stop()
    time, cache = Time(), Cache()
    async with Client(await find_access(kubeconfig(tmp_path, address))) as client:
        async with following(client, cache, time) as reflector:
            await until(lambda: reflector.restarts["unreachable"] >= 3)
            assert not reflector.synced
            late = ApiServer()
            late.put("a")
            await late.start(port=int(address.rpartition(":")[2]))
            await until(lambda: reflector.synced)
            assert cache.equals(late)
        await late.stop()
    assert len(time.slept) >= 3


@pytest.mark.parametrize(("quiet", "ends"), [(QUIET + 1, True), (QUIET - 1, False)])
async def test_the_first_answer_after_an_outage_ends_the_wait(
    cluster: ApiServer, tmp_path: Path, quiet: float, ends: bool
) -> None:
    """However long a watch waits for an API server that was away, an answer to any other call ends that; not an answer
    that came a moment after others.
    """
    time = Endless()
    access = await find_access(kubeconfig(tmp_path, cluster.url))
    async with Client(access, clock=time) as client, following(client, Cache(), time) as reflector:
        await until(lambda: sees(reflector, time))
        cluster.refusals.append(Refuse(500))
        cluster.cut()
        await until(lambda: reflector.restarts["server-error"] == 1)
        time.now += quiet
        before = len(watches(cluster))
        await client.request("GET", f"{PODS}/a")
        await asyncio.sleep(0.05)
        assert (len(watches(cluster)) > before) is ends


async def test_an_answer_while_an_attempt_is_under_way_ends_the_wait_too(
    cluster: ApiServer, tmp_path: Path
) -> None:
    """An attempt that began in the outage and fails after it is made once more without a wait, and only once."""
    time = Endless()
    access = await find_access(kubeconfig(tmp_path, cluster.url))
    async with Client(access, clock=time) as client, following(client, Cache(), time) as reflector:
        await until(lambda: sees(reflector, time))
        cluster.refusals.append(Refuse(500, seconds=0.2))
        before = len(watches(cluster))
        cluster.cut()
        await until(lambda: len(watches(cluster)) == before + 1)
        time.now += QUIET + 1
        await client.request("GET", f"{PODS}/a")
        cluster.refusals.append(Refuse(500))
        await until(lambda: reflector.restarts["server-error"] == 2)
        await asyncio.sleep(0.05)
        assert len(watches(cluster)) == before + 2


class Endless(Time):
    """No sleep ever ends."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.Event().wait()


async def test_a_forbidden_kind_is_asked_for_rarely(cluster: ApiServer, client: Client) -> None:
    """What only a person can mend is tried again twice a minute, and the reason is kept."""
    cluster.refusals.extend(Refuse(403) for _ in range(1000))
    time = Time()
    async with following(client, Cache(), time) as reflector:
        await until(lambda: len(time.slept) > 10)
        assert reflector.fault is not None
        assert reflector.fault.status == 403
        assert reflector.restarts.keys() == {"refused"}
    assert all(15 <= seconds <= 30 for seconds in time.slept[5:])


async def test_repeated_server_errors_on_a_version_list_again(cluster: ApiServer, client: Client) -> None:
    """A version from which no stream makes progress three times in a row, though the server answers, is given up."""
    async with following(client, Cache()) as reflector:
        await until(lambda: bool(cluster.streams))
        for refusals, expected in ((1, 1), (2, 2)):
            cluster.put("progress")
            cluster.refusals.extend([Refuse(504)] * refusals)
            cluster.finish()
            await until(lambda: not cluster.refusals and bool(cluster.streams))
            assert lists(cluster) == expected
        assert reflector.restarts["server-error"] == 3


async def test_an_invalid_version_lists_again(cluster: ApiServer, client: Client) -> None:
    """A version that the server calls a bad request is dropped."""
    async with following(client, Cache()) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.refusals.append(Refuse(400))
        cluster.finish()
        await until(lambda: lists(cluster) == 2)
        assert reflector.restarts["invalid"] == 1


async def test_one_malformed_object_is_reported_and_skipped(cluster: ApiServer, client: Client) -> None:
    """An object that does not fit the type is named with the reason; all others arrive, in the list and in the
    watch.
    """
    cluster.put("bad", spec={"node": 5})
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.put("worse", spec=[])
        cluster.put("good")
        await until(lambda: Key("team", "good") in cache.pods)
        cluster.delete("worse")
        cluster.put("last")
        await until(lambda: Key("team", "last") in cache.pods)
        assert not reflector.restarts
    assert [(m.key, m.uid != "") for m in cache.malformed] == [
        (Key("team", "bad"), True),
        (Key("team", "worse"), True),
    ]
    assert "$.spec.node" in cache.malformed[0].message
    assert cache.gone == ["worse"]


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "ADDED", "object": {"metadata": {"name": 5}}},
        {"type": "ADDED", "object": {"metadata": {"uid": "nameless"}}},
        {"type": "ADDED", "object": {"metadata": None}},
        {"type": "ADDED", "object": [1]},
        {"type": "UNHEARD-OF", "object": {"metadata": {}}},
    ],
)
async def test_an_object_without_a_head_is_skipped(
    cluster: ApiServer, client: Client, bad: dict[str, object]
) -> None:
    """An event whose object has no usable metadata does not end the stream."""
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.say(json.dumps(bad).encode() + b"\n")
        cluster.put("next")
        await until(lambda: cache.equals(cluster))
        assert not reflector.restarts


@pytest.mark.parametrize(
    "bad", [b"{nonsense\n", b'"text"\n', b'{"type": "ADDED"}\n', b"[" * 100_000 + b"\n", b"\xff\xfe\n"]
)
async def test_a_broken_line_is_reported_and_the_list_asked_again(
    cluster: ApiServer, client: Client, bad: bytes
) -> None:
    """A line that is no event may hide one, so the stream is not trusted any more."""
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.say(bad)
        await until(lambda: cache.syncs == 2)
        assert reflector.restarts["garbled"] == 1
    assert [m.key for m in cache.malformed] == [None]


async def test_a_page_that_is_no_list_is_asked_again(cluster: ApiServer, client: Client) -> None:
    """A list that cannot be read is a fault like others."""
    cluster.refusals.append(Refuse(200, body=b"<html>"))
    async with following(client, Cache()) as reflector:
        await until(lambda: reflector.synced)
        assert reflector.restarts["garbled"] == 1


async def test_an_optional_kind_that_does_not_exist_is_empty(api: ApiServer, client: Client) -> None:
    """A kind without its definition is synced and empty; when it comes, it is listed, and when it goes, all is Gone."""
    path = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
    api.unknown.add(path)
    api.put("group", path=path)
    cache = Cache()
    resource = pods(optional=True)
    resource = type(resource)(path, resource.type, optional=True)
    async with following(client, cache, resource=resource) as reflector:
        await until(lambda: cache.syncs >= 1)
        assert reflector.synced
        assert not cache.pods
        api.unknown.clear()
        await until(lambda: cache.equals(api, path))
        await until(lambda: bool(api.streams))  # before it goes: a watch of what is not there is never opened
        api.unknown.add(path)
        api.error(410)
        await until(lambda: cache.gone == ["group"])


async def test_a_kind_that_can_be_done_without_is_empty_where_it_is_forbidden(
    api: ApiServer, client: Client
) -> None:
    """Without the right to list it all else goes on; once the right is there, the kind is listed."""
    api.put("budget")
    api.refusals.extend(Refuse(403) for _ in range(10_000))
    cache = Cache()
    plain = pods()
    resource = type(plain)(plain.path, plain.type, dispensable=True)
    async with following(client, cache, resource=resource) as reflector:
        await until(lambda: cache.syncs >= 1)
        assert reflector.synced
        assert not cache.pods
        api.refusals.clear()
        await until(lambda: cache.equals(api))


async def test_a_burst_arrives_in_few_batches(cluster: ApiServer, client: Client) -> None:
    """Two thousand events reach the sink in batches, not one by one."""
    cache = Cache()
    async with following(client, cache):
        await until(lambda: bool(cluster.streams))
        before = len(cache.batches)
        cluster.say(b"".join(line("ADDED", cluster.put(f"pod-{n}", path="/elsewhere")) for n in range(2000)))
        await until(lambda: len(cache.pods) == 2003)
        assert len(cache.batches) - before < 100


async def test_a_line_longer_than_any_buffer_is_one_event(cluster: ApiServer, client: Client) -> None:
    """An object of several megabytes comes through."""
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: bool(cluster.streams))
        cluster.put("large", spec={"node": "n" * 3_000_000})
        await until(lambda: cache.equals(cluster))
        assert not reflector.restarts
    assert len(cache.pods[Key("team", "large")][1].spec.node) == 3_000_000


async def test_an_error_of_the_sink_ends_the_reflector(cluster: ApiServer, client: Client) -> None:
    """A fault of our own is not taken for one of the API server."""

    def broken(_) -> None:
        raise TimeoutError("of the sink")

    with pytest.raises(TimeoutError, match="of the sink"):
        await asyncio.wait_for(Reflector(client, pods(), broken).run(), 5)
