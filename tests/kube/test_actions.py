"""Effects on their way to the API server, and what is told of them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import pytest
import stamina

from scheduler import errors
from scheduler.errors import Unreachable
from scheduler.kube.actions import BROKEN, Actions, Outcome
from scheduler.kube.client import Client
from scheduler.model.decision import Reason
from scheduler.model.effects import Announce, Effect, Evict, Nominate, SetCondition, Ungate
from scheduler.model.events import EffectDone, EffectFailed, FailureKind
from scheduler.model.workload import GangKey, PodKey, Uid
from scheduler.objects import patches
from tests.kube.support.api_server import ApiServer, Refuse, status_body

GANG = GangKey("team", "g")
TEAM = "/api/v1/namespaces/team/pods"


def a_nomination(pod: str = "p1", node: str = "n1") -> Nominate:
    return Nominate(GANG, Uid(f"uid-{pod}"), PodKey("team", pod), "plan", node)


def an_ungating(pod: str = "p1") -> Ungate:
    return Ungate(GANG, Uid(f"uid-{pod}"), PodKey("team", pod), "plan", "n1", pin=True)


def an_announcement(pod: str = "p1") -> Announce:
    return Announce(
        GANG,
        Uid(f"uid-{pod}"),
        PodKey("team", pod),
        None,
        Reason.INSUFFICIENT_RESOURCES,
        "no room",
        seated=None,
    )


def a_condition(pod: str = "p1") -> SetCondition:
    key = PodKey("team", pod)
    return SetCondition(
        GANG, Uid(f"uid-{pod}"), key, Reason.INSUFFICIENT_RESOURCES, "no room", seated=False, turned=True
    )


class Running:
    """Actions at work, and the outcomes they told."""

    def __init__(self, client: Client, at_once: int = 4) -> None:
        self.gone: set[str] = set()
        self.outcomes: list[Outcome] = []
        self._told = asyncio.Event()
        self.actions = Actions(
            client, self._report, at_once=at_once, epoch=lambda: 1.0, gone=lambda uid: uid in self.gone
        )

    def _report(self, outcomes) -> None:
        self.outcomes += outcomes
        self._told.set()

    async def until(self, count: int) -> list[Outcome]:
        async with asyncio.timeout(20):
            while len(self.outcomes) < count:
                self._told.clear()
                await self._told.wait()
        return self.outcomes


@pytest.fixture(autouse=True)
def _no_waiting() -> None:
    """Retries follow at once, three of them."""
    stamina.set_testing(True, attempts=3)
    yield
    stamina.set_testing(False)


@pytest.fixture
async def running(api: ApiServer, client: Client) -> AsyncIterator[Running]:
    for pod in ("p1", "p2"):
        api.put(pod, path=TEAM)
    made = Running(client)
    task = asyncio.create_task(made.actions.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_came_true_is_told(running: Running):
    """An effect whose calls succeed comes back as done, whole."""
    running.actions.submit([an_ungating()])

    assert await running.until(1) == [EffectDone(an_ungating())]


async def test_effects_on_one_pod_keep_their_order(api: ApiServer, running: Running):
    """A pod's second call is sent when the first was answered, however many calls may be under way."""
    api.refusals.append(Refuse(404, seconds=0.05))
    effects: list[Effect] = [a_nomination(), an_ungating()]
    running.actions.submit(effects)

    assert [outcome.effect for outcome in await running.until(2)] == effects


async def test_effects_on_different_pods_go_side_by_side(api: ApiServer, running: Running):
    """A slow answer about one pod does not keep another pod's call back."""
    api.refusals.append(Refuse(404, seconds=0.3))
    running.actions.submit([an_ungating("p1"), an_ungating("p2")])

    first = (await running.until(1))[0]

    assert first == EffectDone(an_ungating("p2"))


async def test_a_call_that_cannot_be_made_stops_no_other(running: Running, monkeypatch, capsys):
    """Whatever goes wrong with one effect, it has failed for good, and all others are carried out."""
    made = patches.calls

    def calls(effect, epoch):
        if effect.key.name == "p1":
            raise ValueError("as scripted")
        return made(effect, epoch)

    monkeypatch.setattr(patches, "calls", calls)
    running.actions.submit([an_ungating("p1"), an_announcement("p1"), an_ungating("p2")])

    outcomes = await running.until(3)
    assert EffectDone(an_ungating("p2")) in outcomes
    broken = {EffectFailed(one, FailureKind.INVALID, BROKEN) for one in (an_ungating(), an_announcement())}
    assert broken <= set(outcomes)
    told = capsys.readouterr()
    assert "ValueError: as scripted" in told.out + told.err
    monkeypatch.undo()
    running.actions.submit([an_ungating("p1")])
    assert (await running.until(4))[3] == EffectDone(an_ungating("p1"))


async def test_people_wait_in_a_line_of_their_own(api: ApiServer, running: Running):
    """A slow event does not delay the gang of the same pod."""
    api.refusals.append(Refuse(404, seconds=0.3))
    running.actions.submit([an_announcement()])
    await asyncio.sleep(0.05)
    running.actions.submit([an_ungating()])

    assert (await running.until(1))[0] == EffectDone(an_ungating())


@pytest.mark.parametrize(
    "effect",
    [replace(an_announcement(), seated=False), replace(an_announcement(), seated=True), a_condition()],
    ids=["why it waits", "that it has its seats", "another member"],
)
async def test_how_a_gang_stands_is_not_told_on_a_pod_that_is_gone(
    api: ApiServer, running: Running, capsys, effect: Effect
):
    """Neither sent, nor warned of: it counts as done. What befell that very pod is told all the same."""
    running.gone.add("uid-p1")
    running.actions.submit([effect])

    assert await running.until(1) == [EffectDone(effect)]
    assert not api.calls
    assert "effect failed" not in "".join(capsys.readouterr())
    running.actions.submit([an_announcement()])
    await running.until(2)
    assert len(api.calls) == 1


async def test_a_pod_that_goes_between_two_calls_is_not_patched(
    api: ApiServer, running: Running, monkeypatch
):
    """What waited behind the event of the same notice is left out as well."""
    effect = replace(an_announcement(), seated=False)
    event = patches.calls(effect, 1.0)[0]
    collection, _, name = event.path.rpartition("/")
    api.put(name, path=collection)
    sent = running.actions._send

    async def send(call: patches.Call) -> None:
        await sent(call)
        running.gone.add("uid-p1")

    monkeypatch.setattr(running.actions, "_send", send)
    running.actions.submit([effect])

    assert await running.until(1) == [EffectDone(effect)]
    assert [call.path for call in api.calls] == [event.path]


async def test_an_effect_that_waits_is_not_queued_twice(api: ApiServer, running: Running):
    """The same effect submitted again before it was carried out is carried out once."""
    running.actions.submit([an_ungating(), an_ungating(), an_ungating()])
    await running.until(1)
    await asyncio.sleep(0.05)

    assert len(api.calls) == 1


async def test_passing_failures_are_tried_again(api: ApiServer, running: Running):
    """A server error that passes is not told at all."""
    api.refusals.extend([Refuse(503), Refuse(429, {"Retry-After": "0"})])
    running.actions.submit([an_ungating()])

    assert await running.until(1) == [EffectDone(an_ungating())]
    assert len(api.calls) == 3


UID_GONE = status_body(422, "Pod is invalid: metadata.uid: Invalid value: field is immutable", "Invalid")
FINAL = {
    "not found": (Refuse(404), FailureKind.NOT_FOUND),
    "another pod of that name": (Refuse(422, body=UID_GONE), FailureKind.NOT_FOUND),
    "conflict": (Refuse(409), FailureKind.CONFLICT),
    "invalid": (Refuse(422), FailureKind.INVALID),
    "forbidden": (Refuse(403), FailureKind.FORBIDDEN),
}


@pytest.mark.parametrize("case", FINAL)
async def test_what_will_not_pass_is_told_at_once(api: ApiServer, running: Running, case: str):
    """A refusal that another try cannot change comes back as its kind after one call."""
    refuse, kind = FINAL[case]
    api.refusals.append(refuse)
    running.actions.submit([an_ungating()])

    outcome = (await running.until(1))[0]

    assert isinstance(outcome, EffectFailed)
    assert (outcome.kind, len(api.calls)) == (kind, 1)


async def test_the_words_of_a_refusal_are_for_people(api: ApiServer, running: Running):
    """Status and text on one line, of bounded length with both ends, and nothing in it that a terminal would act
    upon.
    """
    text = "admission webhook denied\n the request: \x1b[2J" + "x" * 5000 + ": ask for less"
    api.refusals.append(Refuse(403, body=status_body(403, text, "Forbidden")))
    running.actions.submit([an_ungating()])

    outcome = (await running.until(1))[0]

    assert isinstance(outcome, EffectFailed)
    assert outcome.message.startswith(r"403 Forbidden: admission webhook denied the request: \x1b[2Jxxx")
    assert outcome.message.endswith("x: ask for less")
    assert outcome.message.isprintable()
    assert len(outcome.message) <= errors.TEXT_LIMIT


async def test_an_outage_is_told_after_the_last_try(api: ApiServer, running: Running):
    """Errors that do not end become unavailable; the ledger decides when to try again."""
    api.refusals.extend([Refuse(500)] * 3)
    running.actions.submit([an_ungating()])

    outcome = (await running.until(1))[0]

    assert isinstance(outcome, EffectFailed)
    assert (outcome.kind, len(api.calls)) == (FailureKind.UNAVAILABLE, 3)


async def test_a_disruption_budget_is_not_pressed(api: ApiServer, running: Running):
    """A 429 that names a disruption budget is an answer: one call, and the ledger waits."""
    body = status_body(429, "Cannot evict pod", "TooManyRequests", ("DisruptionBudget",))
    api.refusals.append(Refuse(429, body=body))
    evict = Evict(GANG, Uid("uid-p1"), PodKey("team", "p1"), Reason.PIN_BROKEN)
    running.actions.submit([evict])

    outcome = (await running.until(1))[0]

    assert isinstance(outcome, EffectFailed)
    assert (outcome.kind, len(api.calls)) == (FailureKind.BUDGET, 1)


async def test_who_may_not_act_any_more_sends_nothing(api: ApiServer, client: Client):
    """What was queued is not sent once another may act, is told as not done, and goes on where it is our turn after
    all.
    """
    for number in range(6):
        api.put(f"p{number}", path=TEAM)
    time, until_when = [0.0], 10.0
    outcomes: list[Outcome] = []

    def report(new) -> None:
        time[0] += 4.0  # the process sleeps between two calls
        outcomes.extend(new)

    actions = Actions(client, report, at_once=1, epoch=lambda: 1.0, acting=lambda: time[0] < until_when)
    task = asyncio.create_task(actions.run())
    try:
        actions.submit([an_ungating(f"p{number}") for number in range(6)])
        async with asyncio.timeout(20):
            while len(outcomes) < 6:
                await asyncio.sleep(0.005)
        sent = len(api.calls)
        time[0] = 0.0
        actions.submit([an_ungating("p5")])
        async with asyncio.timeout(20):
            while len(outcomes) < 7:
                await asyncio.sleep(0.005)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    kinds = [outcome.kind if isinstance(outcome, EffectFailed) else None for outcome in outcomes]
    assert sent == kinds[:6].count(None) < 6
    assert set(kinds[sent:6]) == {FailureKind.UNAVAILABLE}
    assert kinds[6] is None


async def test_a_call_that_is_tried_again_is_fenced_too(api: ApiServer, client: Client):
    """The lease ends while a call fails and waits for its next try: that try is not made."""
    api.put("p1", path=TEAM)
    api.refusals.append(Refuse(503))
    outcomes: list[Outcome] = []
    actions = Actions(client, outcomes.extend, at_once=1, epoch=lambda: 1.0, acting=lambda: not api.calls)
    task = asyncio.create_task(actions.run())
    try:
        actions.submit([an_ungating()])
        async with asyncio.timeout(20):
            while not outcomes:
                await asyncio.sleep(0.005)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert len(api.calls) == 1
    assert isinstance(outcomes[0], EffectFailed)
    assert "not sent" in outcomes[0].message


class Away:
    """An API server that is away for so many calls."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.asked: list[float] = []

    async def request(self, method: str, path: str, **_rest: object) -> None:
        self.asked.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if self.left:
            self.left -= 1
            raise Unreachable(f"{method} {path}", "nobody there")


async def test_a_silent_api_server_is_not_stormed():
    """Of many effects one at a time asks whether it is back, a moment apart; when it is, all the others go at once."""
    away, told = Away(6), asyncio.Event()
    outcomes: list[Outcome] = []

    def report(new) -> None:
        outcomes.extend(new)
        told.set()

    actions = Actions(away, report, at_once=4, ask_every=0.05)  # type: ignore[arg-type]
    task = asyncio.create_task(actions.run())
    try:
        actions.submit([an_ungating(f"p{number}") for number in range(20)])
        async with asyncio.timeout(20):
            while len(outcomes) < 20:
                told.clear()
                await told.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    gaps = [later - sooner for sooner, later in pairwise(away.asked)]
    assert all(gap > 0.04 for gap in gaps[4:6]), "those that were under way before, then one by one"
    assert sum(isinstance(outcome, EffectDone) for outcome in outcomes) >= 18
