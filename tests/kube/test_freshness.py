"""What is seen: the API server's answers and the watches that decide, the worst of them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.kube.watch import Freshness, Reflector
from tests.kube.support.api_server import PODS, ApiServer, Refuse
from tests.kube.support.follower import Cache, Time, following, until
from tests.kube.support.kubeconfig import kubeconfig


@asynccontextmanager
async def seeing(
    api: ApiServer, folder: Path, time: Time
) -> AsyncGenerator[tuple[Client, Reflector[Any], Freshness], None]:
    """A watch of pods stands, and nothing is unseen."""
    api.put("a")
    access = await find_access(kubeconfig(folder, api.url))
    async with Client(access, clock=time) as client, following(client, Cache(), time) as reflector:
        sight = Freshness(client, {"pods": reflector})
        await until(lambda: bool(api.streams) and sight.blind_for(time.now) == 0)
        yield client, reflector, sight


async def test_one_kind_that_is_refused_blinds(api: ApiServer, tmp_path: Path):
    """While other calls succeed the refused kind counts, and is told with the reason; afterwards all is seen again."""
    time = Time()
    async with seeing(api, tmp_path, time) as (client, reflector, sight):
        api.barred[PODS] = Refuse(403)
        api.cut()
        await until(lambda: len(time.slept) >= 5)
        await client.request("GET", f"{PODS}/a")
        assert sight.blind_for(time.now) > 10 >= time.now - client.last_answer
        assert sight.told(time.now).startswith("the watch of pods has been down for ")
        assert sight.told(time.now).endswith(f": GET {PODS}: 403: as scripted")
        del api.barred[PODS]
        await until(lambda: reflector.blind_for(time.now) == 0)
        assert sight.blind_for(client.last_answer) == 0


async def test_a_silent_api_server_blinds(api: ApiServer, tmp_path: Path):
    """Where nothing at all was heard for longer than a watch may be silent, that is what is told."""
    time = Time()
    async with seeing(api, tmp_path, time) as (_, _, sight):
        assert sight.blind_for(time.now + 30) == 30
        assert sight.told(time.now + 30) == "the API server last answered 30 s ago"


async def test_what_never_was_has_no_length(api: ApiServer, tmp_path: Path):
    """At a start it is told that nobody answered yet, and why; then that the watch is still to begin."""
    time = Time()
    other = await find_access(kubeconfig(tmp_path, "http://127.0.0.1:1", name="nowhere"))
    async with Client(other, clock=time) as client, following(client, Cache(), time) as reflector:
        await until(lambda: reflector.fault is not None)
        told = Freshness(client, {"pods": reflector}).told(time.now)
    assert told.startswith(f"the API server has not answered yet: GET {PODS}: ")

    api.put("a")
    api.barred[PODS] = Refuse(403)
    access = await find_access(kubeconfig(tmp_path, api.url))
    async with Client(access, clock=time) as client, following(client, Cache(), time) as reflector:
        await until(lambda: reflector.fault is not None)
        await client.request("GET", f"{PODS}/a")
        told = Freshness(client, {"pods": reflector}).told(time.now)
    assert told == f"the watch of pods has not begun yet: GET {PODS}: 403: as scripted"


async def test_watches_that_do_not_stand_are_named(api: ApiServer, tmp_path: Path):
    """Each with its reason, once it has not stood for so long; the words stay the same while that lasts."""
    time = Time()
    async with seeing(api, tmp_path, time) as (_, reflector, sight):
        assert sight.stands(time.now)
        assert sight.blind(time.now, 0) == {}
        api.barred[PODS] = Refuse(403)
        api.cut()
        await until(lambda: len(time.slept) >= 5)
        blind = reflector.blind_for(time.now)
        assert not sight.stands(time.now)
        assert sight.blind(time.now, blind) == {}
        told = f"The watch of pods is down (GET {PODS}: 403: as scripted)"
        assert sight.blind(time.now, blind - 1) == sight.blind(time.now + 60, blind - 1) == {"pods": told}
