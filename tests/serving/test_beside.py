"""kube-scheduler's liveness, asked of us: both programs must be alive."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from scheduler.serving import probes, server
from scheduler.serving.probes import neighbor
from scheduler.telemetry.metrics import Metrics
from tests.extender.support.raw import Raw
from tests.serving.test_probes import _late, get

PATH = "/livez/kube-scheduler"


class Program:
    """A kube-scheduler's /livez: what it answers, and how often it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.asked = 0
        self.go = asyncio.Event()
        self.go.set()

    async def livez(self, _request: web.Request) -> web.Response:
        self.asked += 1
        await self.go.wait()
        return web.Response(status=self.status, text="x" * 100_000)


@asynccontextmanager
async def served(program: Program) -> AsyncIterator[str]:
    """Its address."""
    app = web.Application()
    app.router.add_get("/livez", program.livez)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        program.go.set()
        await runner.cleanup()


@asynccontextmanager
async def asked(url: str) -> AsyncIterator[Raw]:
    """A connection to probes beside the program at this address."""
    async with neighbor("kube-scheduler", url) as one:
        app = probes.build_app(Metrics(), list, {"kube-scheduler": one})
        async with server.serve(app, "127.0.0.1", 0, section="probes") as port:
            raw = await Raw.to(port)
            try:
                yield raw
            finally:
                await raw.close()


@pytest.mark.parametrize(("status", "told"), [(200, 200), (500, 503), (302, 503)])
async def test_it_answers_what_the_program_says(status: int, told: int) -> None:
    """A program that says it is well is alive; any other answer is told as it is."""
    program = Program()
    program.status = status
    async with served(program) as url, asked(url) as raw:
        answer = await raw.ask(get(PATH))

    assert answer.status == told
    assert json.loads(answer.body)["checks"][1] == {
        "name": "kube-scheduler",
        "ok": status == 200,
        "text": f"answered {status}",
    }


async def test_a_dead_program_is_not_alive() -> None:
    """An address where nothing listens fails the probe, and /livez stays our own."""
    async with served(Program()) as url:
        pass
    async with asked(url) as raw:
        assert (await raw.ask(get(PATH))).status == 503
        assert (await raw.ask(get("/livez"))).status == 200


async def test_a_hanging_program_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes the question and gives no answer fails the probe after its limit."""
    monkeypatch.setattr(probes, "LIMIT", 0.05)
    program = Program()
    program.go.clear()
    async with served(program) as url, asked(url) as raw:
        assert (await raw.ask(get(PATH))).status == 503


async def test_our_own_late_loop_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kube-scheduler that is well is of no use beside an extender that is not."""
    monkeypatch.setattr(probes.Pulse, "beat", _late)
    async with served(Program()) as url, asked(url) as raw:
        assert (await raw.ask(get(PATH))).status == 503


async def test_a_flood_costs_the_program_nothing() -> None:
    """A hundred questions at once, and as many right after, are one question to the program."""
    program = Program()
    async with served(program) as url, neighbor("kube-scheduler", url) as one:
        checks = await asyncio.gather(*(one() for _ in range(100)))
        checks += await asyncio.gather(*(one() for _ in range(100)))

    assert all(check.ok for check in checks)
    assert program.asked == 1


async def test_an_old_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said a second ago is not believed any longer."""
    monkeypatch.setattr(probes, "KEPT", 0.0)
    program = Program()
    async with served(program) as url, neighbor("kube-scheduler", url) as one:
        assert (await one()).ok
        program.status = 500
        assert not (await one()).ok


async def test_one_that_leaves_takes_the_answer_from_no_other() -> None:
    """The first of two that wait hangs up; the second gets its answer."""
    program = Program()
    program.go.clear()
    async with served(program) as url, neighbor("kube-scheduler", url) as one:
        first, second = asyncio.create_task(one()), asyncio.create_task(one())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        program.go.set()
        assert (await second).ok

    assert program.asked == 1


async def test_the_others_have_no_such_route() -> None:
    """What runs beside no kube-scheduler does not know the path."""
    app = probes.build_app(Metrics(), list)
    async with server.serve(app, "127.0.0.1", 0, section="probes") as port:
        raw = await Raw.to(port)
        assert (await raw.ask(get(PATH))).status == 404
        await raw.close()
