"""The agent and the rendezvous: both sides of every call as they are, over TLS."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.elastic.agent.agent_errors import Refused
from scheduler.elastic.agent.agent_settings import Address
from scheduler.elastic.agent.http_client import Connections
from scheduler.elastic.agent.liveness import Known, judge
from scheduler.elastic.agent.master_client import Master as Client
from scheduler.elastic.agent.training_run import TrainingRun
from scheduler.elastic.reconciler.job_effects import Place
from tests.elastic.agent.support.master import PATIENCE
from tests.elastic.agent.support.worker import Worker
from tests.elastic.rendezvous.support.served import Served, served


@pytest.fixture
async def running() -> AsyncIterator[Served]:
    async with served(wait=1.0) as one:
        yield one


class Caller:
    """An agent's client of the rendezvous, its calls made in threads."""

    def __init__(self, running: Served, folder: Path, uid: str) -> None:
        place = folder / uid
        place.write_text(running.hire(uid))
        self.connections = Connections(
            Address("127.0.0.1", running.open.port, secure=True), running.open.authority
        )
        self._client = Client(self.connections, str(place))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *words: asyncio.to_thread(getattr(self._client, name), *words)


@pytest.fixture
async def callers(running: Served, tmp_path: Path) -> AsyncIterator[tuple[Caller, Caller]]:
    pair = Caller(running, tmp_path, "a"), Caller(running, tmp_path, "b")
    yield pair
    for one in pair:
        one.connections.close()


async def until(true: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE):
        while not (said := true()):
            await asyncio.sleep(0.01)
    return said


async def test_a_beat_is_understood(running: Served, callers: tuple[Caller, Caller]) -> None:
    """Every field of a beat arrives as it was reported, and its answer comes back."""
    child = TrainingRun(1)
    child.take(
        {
            "phase": "Training",
            "step": 3,
            "committed": 2,
            "samples": 30.0,
            "step_s": 0.5,
            "values": {"loss": 2},
        }
    )
    running.desk.aborts["a"] = "hangs"
    running.desk.broken = 7
    running.desk.places["a"] = Place(1, 2, joins=False)
    await running.desk.announce("team/job")

    answer = await callers[0].beat({**child.beat(), "child": "running"})

    assert (answer.round, answer.abort, answer.interval, answer.broken) == (1, "hangs", 1.0, 7)
    assert answer.place == {"rank": 1, "size": 2, "joins": False}
    told = running.desk.beats["a"]
    assert (told.phase, told.step, told.committed, told.samples) == ("Training", 3, 2, 30.0)
    assert (told.step_s, told.compute_s, told.child, told.values) == (0.5, None, "running", {"loss": 2.0})


async def test_a_round_is_met(running: Served, callers: tuple[Caller, Caller]) -> None:
    """Barrier, places and values: what one member lays down the other reads, and nobody else's round."""
    one, other = callers
    arrival = {"round": 0, "step": 0, "committed": 0, "why": "newcomer", "fingerprint": None}
    assert await one.ready(arrival) is None
    waiting = asyncio.create_task(one.announced(0, 20.0))
    places = [asyncio.create_task(caller.ready(arrival)) for caller in callers]
    await until(lambda: len(running.desk.arrived) == 2)
    number = await running.desk.publish("team/job", ["b", "a"])

    assert [(await place)["rank"] for place in places] == [1, 0]
    assert await waiting == number
    asked = asyncio.create_task(other.get(number, "global", "1", 20.0))
    await one.put(number, "global", "1", b"\x00address\xff")
    assert await asked == {"1": b"\x00address\xff"}
    assert await other.get(number, "global", "2", 0.1) is None
    with pytest.raises(Refused, match="RoundAhead") as refused:
        await one.put(number + 1, "global", "1", b"x")
    assert refused.value.passing


async def test_an_end_is_understood(running: Served, callers: tuple[Caller, Caller]) -> None:
    """A leave and an exit report arrive whole, and the answer says whether to go on."""
    tail = ["x" * 500] * 100
    await callers[0].leave("SIGTERM", 30.0)
    running.desk.restarts = lambda ended: ended.signal == signal.SIGKILL

    assert await callers[0].exit(judge(signal.SIGKILL, tail, Known("pod-a")).report(tail, 4)) is True
    assert await callers[1].exit(judge(0, [], Known("pod-b")).report([], 0)) is False

    assert (running.desk.left["a"].why, running.desk.left["a"].grace_s) == ("SIGTERM", 30.0)
    ended = running.desk.ended["a"]
    assert (ended.code, ended.signal, ended.round, ended.culprit) == (None, signal.SIGKILL, 4, "pod-a")
    assert len(ended.tail) == 100


async def test_who_is_no_worker_any_more_is_asked_to_wait(
    running: Served, callers: tuple[Caller, Caller]
) -> None:
    """A master that restarted may only not have seen the pod yet, so the agent tries on."""
    running.desk.dismiss("a")

    with pytest.raises(Refused, match="NoWorker") as refused:
        await callers[0].beat({"phase": "Starting", "round": 0})
    assert refused.value.passing


async def test_a_whole_worker_lives_with_the_rendezvous(running: Served, tmp_path: Path) -> None:
    """Start, join, loss, another start, orderly leave: the agent as a process, TLS and tokens as in a cluster."""
    (tmp_path / "token").write_text(running.hire("a"))
    running.desk.interval = 0.1
    running.desk.restarts = lambda ended: ended.code is None

    class Address:
        url = running.open.address

    worker = Worker(Address(), tmp_path, GANGWRIGHT_CA=running.open.authority, GANGWRIGHT_GRACE="60")
    with worker:
        joining = asyncio.create_task(asyncio.to_thread(worker.joins))
        await until(lambda: running.desk.arrived)
        await running.desk.publish("team/job", ["a"])
        assert (await joining)["rank"] == 0
        os.kill(worker.child()["pid"], signal.SIGKILL)
        assert (await until(lambda: running.desk.ended.pop("a", None))).signal == signal.SIGKILL
        await asyncio.to_thread(worker.child, 2)
        worker.process.send_signal(signal.SIGTERM)
        code, _, _ = await asyncio.to_thread(worker.ends)

    assert code == 0
    assert running.desk.left["a"].why == "SIGTERM"
