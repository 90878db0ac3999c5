"""Startup, readiness and liveness of a running container, by exec, httpGet and tcpSocket."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp

from bench.plane.client import Object
from bench.plane.kubelet.container import Container, StartError
from bench.plane.kubelet.status import State

Asked = Callable[[Object, Container, str], Awaitable[bool]]


async def watch(
    said: Object,
    container: Container,
    state: State,
    ip: str,
    changed: Callable[[], None],
    fail: Callable[[], None],
) -> None:
    """Keeps `ready` and `started` of a container's state true to its probes, for as long as it runs.

    changed: called after each change. fail: called when it is to be killed because startup or liveness failed.
    """
    state.ready = state.started = False
    if "startupProbe" in said and not await _turns(said["startupProbe"], container, ip, to=True):
        fail()
        return
    state.started = True
    state.ready = "readinessProbe" not in said
    changed()
    async with asyncio.TaskGroup() as both:
        if "readinessProbe" in said:
            both.create_task(_readiness(said["readinessProbe"], container, state, ip, changed))
        if "livenessProbe" in said:
            both.create_task(_liveness(said["livenessProbe"], container, ip, fail))


async def _readiness(
    probe: Object, container: Container, state: State, ip: str, changed: Callable[[], None]
) -> None:
    while container.alive:
        await _turns(probe, container, ip, to=not state.ready, delayed=not state.ready, patient=True)
        if container.alive:
            state.ready = not state.ready
            changed()


async def _liveness(probe: Object, container: Container, ip: str, fail: Callable[[], None]) -> None:
    if await _turns(probe, container, ip, to=False) and container.alive:
        fail()


async def _turns(
    probe: Object, container: Container, ip: str, *, to: bool, delayed: bool = True, patient: bool = False
) -> bool:
    """Asks until the answers are `to` often enough in a row.

    False when they were the other way often enough, which only who is not `patient` minds, or when the container ended.
    """
    needed = {True: probe.get("successThreshold", 1), False: probe.get("failureThreshold", 3)}
    if delayed:
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    row, last = 0, to
    while container.alive:
        good = await _asked(probe, container, ip)
        row, last = (row + 1, good) if good == last else (1, good)
        if row >= needed[good] and (good == to or (not patient and to)):
            return good == to
        await asyncio.sleep(probe.get("periodSeconds", 10))
    return False


async def _asked(probe: Object, container: Container, ip: str) -> bool:
    with suppress(TimeoutError, OSError, aiohttp.ClientError, StartError):
        async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
            for kind, ask in _KINDS.items():
                if kind in probe:
                    return await ask(probe[kind], container, ip)
    return False


async def _execute(said: Object, container: Container, _ip: str) -> bool:
    return await container.execute(said["command"], Path(os.devnull)) == 0


async def _http(said: Object, _container: Container, ip: str) -> bool:
    scheme, host = said.get("scheme", "HTTP").lower(), said.get("host") or ip
    url = f"{scheme}://{host}:{said['port']}{said.get('path', '/')}"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        return 200 <= answer.status < 400


async def _tcp(said: Object, _container: Container, ip: str) -> bool:
    _, writer = await asyncio.open_connection(said.get("host") or ip, said["port"])
    writer.close()
    await writer.wait_closed()
    return True


_KINDS: dict[str, Asked] = {"exec": _execute, "httpGet": _http, "tcpSocket": _tcp}
