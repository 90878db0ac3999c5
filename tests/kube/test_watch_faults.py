"""Chance finds what stories forget: after any sequence of writes and faults the cache equals the API server."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.kube.watch_probe import Pace
from tests.kube.support.api_server import PODS, ApiServer, Refuse
from tests.kube.support.follower import Cache, following, until
from tests.kube.support.kubeconfig import kubeconfig

NAMES = st.sampled_from([f"pod-{number}" for number in range(8)])


def put(api: ApiServer, name: str) -> None:
    api.put(name)


def delete(api: ApiServer, name: str) -> None:
    if ("team", name) in api.objects[PODS]:
        api.delete(name)


def replace(api: ApiServer, name: str) -> None:
    delete(api, name)
    put(api, name)


def refuse(api: ApiServer, status: int) -> None:
    api.refusals.append(Refuse(status))


def expired(api: ApiServer) -> None:
    api.error(410)


def trouble(api: ApiServer) -> None:
    api.error(500)


def bad_line(api: ApiServer) -> None:
    api.say(b'{"type": "ADDED", "object"\n')


def half_line(api: ApiServer) -> None:
    api.say(b'{"type": "ADDED", "obj')
    api.finish()


def bad_object(api: ApiServer) -> None:
    api.say(b'{"type": "ADDED", "object": {"metadata": {"name": "stranger"}, "spec": 5}}\n')


WRITES = st.tuples(st.sampled_from([put, put, delete, replace]), NAMES)
FAULTS = st.sampled_from(
    [
        (ApiServer.cut,),
        (ApiServer.finish,),
        (ApiServer.compact,),
        (ApiServer.bookmark,),
        (ApiServer.mute,),
        (expired,),
        (trouble,),
        (bad_line,),
        (half_line,),
        (bad_object,),
    ]
)
REFUSALS = st.tuples(st.just(refuse), st.sampled_from([400, 403, 404, 410, 429, 500, 503]))
STEPS = st.lists(st.lists(WRITES | FAULTS | REFUSALS, max_size=6), max_size=6)


@pytest.mark.slow
@given(steps=STEPS)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a picture that never comes true costs 10 s to see
)
def test_after_any_faults_the_cache_equals_the_api_server(steps) -> None:
    """Writes and faults in any order and at any pace: the sink's picture becomes the API server's own."""
    asyncio.run(story(steps))


async def story(steps) -> None:
    cache = Cache()
    async with ApiServer() as api:
        api.objects[PODS], api.second = {}, 0.02
        with tempfile.TemporaryDirectory() as folder:
            access = await find_access(kubeconfig(Path(folder), api.url))
        async with (
            Client(access) as client,
            following(client, cache, inactivity=0.1, probe_pace=Pace(quiet=0.04, grace=0.02)) as reflector,
        ):
            for step in steps:
                for act, *words in step:
                    act(api, *words)
                await until(lambda: cache.equals(api))
            await until(lambda: reflector.synced and not api.refusals)
            assert cache.equals(api)
