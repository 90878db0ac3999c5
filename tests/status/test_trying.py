"""Dry runs are bounded: by pods, by user, and by a share of the time of the verbs they run beside."""

import asyncio
import gc
import threading

import msgspec
import pytest

from scheduler.engine import dry_run
from scheduler.model.decision import Reason
from scheduler.model.policy import Policy
from scheduler.objects.device_claims import DeviceClaims
from scheduler.objects.volumes import Volumes
from scheduler.service.operator_actions import OperatorActions
from scheduler.serving.rate_limit import Buckets
from scheduler.status import endpoints, members, trials
from scheduler.status.operator_api import Trial
from scheduler.status.schemas import TrialRequest
from scheduler.status.trials import Trying
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.situations import thought_of
from tests.engine.support.stage import a_world
from tests.objects.devices import PLAIN, Desk, class_of, device, request, slice_of, template_of
from tests.status.support.reviewing import ADMIN, JANE

LARGEST = {"pods": [{"pod": {"spec": {"containers": [{"name": "c"}]}}, "count": trials.MOST}]}
ONE = {"pods": [{"pod": LARGEST["pods"][0]["pod"]}]}


@pytest.fixture
def gate(operator, reviewing):
    """Dry runs begin, and end when the gate is opened; Jane may have them too."""
    reviewing.rights.add(("jane", "create", "pods", ""))
    operator.gate, operator.begun, operator.most, operator.now = asyncio.Event(), 0, 0, 0

    async def simulate(pods):
        operator.begun, operator.now = operator.begun + 1, operator.now + 1
        operator.most = max(operator.most, operator.now)
        await operator.gate.wait()
        operator.now -= 1
        return Trial(Reason.INSUFFICIENT_RESOURCES, "no room")

    operator.simulate = simulate
    return operator


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


# ── how many pods ───────────────────────────────────────────────────────────────────────────────────────


async def test_pods_of_dry_runs_are_counted(acting, reviewing):
    """Two of the largest gang at once, and then a refusal that names the bound and when to come; others go on."""
    reviewing.rights.add(("jane", "create", "pods", ""))

    said = [await acting.do("/v1/simulate", ADMIN, LARGEST) for _ in range(3)]
    other = await acting.do("/v1/simulate", JANE, ONE)
    acting.clock[0] += int(said[-1].headers["Retry-After"])
    later = await acting.do("/v1/simulate", ADMIN, LARGEST)

    assert [answer.status for answer in said] == [200, 200, 429]
    assert said[-1].headers["Retry-After"] == str(trials.MOST // trials.PODS_RATE)
    assert str(trials.PODS) in said[-1].json["error"]
    assert str(trials.PODS_RATE) in said[-1].json["error"]
    assert (other.status, later.status) == (200, 200)


def test_gangs_tried_out_now_and_then_are_never_refused():
    """A gang of a thousand every two seconds, for as long as one likes."""
    buckets = Buckets(trials.PODS, trials.PODS_RATE)

    assert {buckets.take("a", 2.0 * number, 1000) for number in range(500)} == {0}


# ── whose turn it is ────────────────────────────────────────────────────────────────────────────────────


async def test_one_dry_run_of_a_user_at_a_time(acting, gate):
    """The second is refused while the first is not answered, and taken afterwards."""
    first = asyncio.create_task(acting.do("/v1/simulate", ADMIN, ONE))
    await until(lambda: gate.begun == 1)
    second = await acting.do("/v1/simulate", ADMIN, ONE)
    gate.gate.set()

    assert (second.status, second.headers["Retry-After"]) == (429, "1")
    assert "a user may run one at a time" in second.json["error"]
    assert (await first).status == 200
    assert (await acting.do("/v1/simulate", ADMIN, ONE)).status == 200


async def test_dry_runs_of_two_users_run_one_after_the_other(acting, gate, monkeypatch):
    """The second waits for its turn; both are answered."""
    came = []
    monkeypatch.setattr(Buckets, "take", lambda _self, *what: came.append(what) or 0.0)
    runs = [asyncio.create_task(acting.do("/v1/simulate", token, ONE)) for token in (ADMIN, JANE)]
    await until(lambda: gate.begun == 1 and sum(len(what) == 3 for what in came) == 2)
    gate.gate.set()

    assert [(await run).status for run in runs] == [200, 200]
    assert (gate.begun, gate.most) == (2, 1)


async def test_a_gang_that_waits_is_inquired_about_in_its_turn(acting, gate, operator, monkeypatch):
    """How near it is, is the same kind of question; a gang that does not wait is shown without one."""
    asked, lined, inquire, question = [], [], operator.inquire, Trying.question
    monkeypatch.setattr(Trying, "question", lambda *what: lined.append(what) or question(*what))
    operator.inquire = lambda key: asked.append(key) or inquire(key)
    run = asyncio.create_task(acting.do("/v1/simulate", JANE, ONE))
    await until(lambda: gate.begun == 1)

    runs = await acting.ask("/v1/gangs/team-a/train", ADMIN)
    waits = asyncio.create_task(acting.ask("/v1/gangs/team-b/huge", ADMIN))
    await until(lambda: len(lined) == 2)
    assert (runs.json["nearest"], asked) == ([], [])
    gate.gate.set()

    assert (await waits).json["nearest"]
    assert ((await run).status, len(asked)) == (200, 1)


async def test_a_view_does_not_wait_long_for_its_turn(acting, gate, monkeypatch):
    """While dry runs of others go on and on, a gang that waits is shown without how near it is."""
    monkeypatch.setattr(endpoints, "PATIENCE", 0.01)
    run = asyncio.create_task(acting.do("/v1/simulate", JANE, ONE))
    await until(lambda: gate.begun == 1)

    seen = await acting.ask("/v1/gangs/team-b/huge", ADMIN)

    assert (seen.status, seen.json["nearest"]) == (200, [])
    gate.gate.set()
    assert (await run).status == 200


async def test_users_take_turns():
    """Questions of one user wait for each other before they wait for those of others."""
    order, line = [], Trying(lambda: 0.0)

    async def asks(user):
        async def work():
            order.append(user)
            await asyncio.sleep(0)

        await line.question(user, work)

    await asyncio.gather(*map(asks, "aaabb"))

    assert "".join(order) == "ababa"


async def test_service_accounts_of_a_namespace_take_turns_as_one():
    """A tenant can make any number of them."""
    order, line = [], Trying(lambda: 0.0)
    accounts = [f"system:serviceaccount:team-a:{number}" for number in range(4)]

    async def asks(user):
        async def work():
            order.append(user)
            await asyncio.sleep(0)

        await line.question(user, work)

    await asyncio.gather(*map(asks, [*accounts, "jane", "jane"]))

    assert [order.index("jane"), 5 - order[::-1].index("jane")] == [1, 3]


async def test_a_turn_is_over_when_its_work_is():
    """A user who gives up leaves a thread behind: no other question begins beside it."""
    line, gate, begun = Trying(lambda: 0.0), asyncio.Event(), []

    async def work():
        begun.append(len(begun))
        await gate.wait()

    first, second = (asyncio.create_task(line.question(user, work)) for user in "ab")
    await asyncio.sleep(0)
    await until(lambda: begun == [0])
    first.cancel()
    await asyncio.wait([first])
    for _ in range(10):
        await asyncio.sleep(0)
    assert begun == [0]
    gate.set()
    await second
    assert begun == [0, 1]


async def test_who_gives_up_in_line_keeps_no_turn():
    """Neither does a user who gives up while the turn rests, nor work that fails."""
    now, gate = [0.0], asyncio.Event()

    async def rests(seconds):
        if seconds:
            await gate.wait()

    async def fails():
        now[0] += 1
        raise ValueError

    async def work():
        return "done"

    line = Trying(lambda: now[0], rests)
    with pytest.raises(ValueError):
        await line.trial("a", 1, fails)
    gone = [asyncio.create_task(line.trial(user, 1, work)) for user in "ab"]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.wait(gone)
    gate.set()

    assert [await line.trial(user, 1, work) for user in "ab"] == ["done", "done"]
    del gone, task
    gc.collect()
    assert not line._lines


async def test_questions_rest_for_their_share_of_the_time():
    """Three times as long as the last one took, within a bound."""
    now, rested = [0.0], []

    async def sleep(seconds):
        rested.append(seconds)
        now[0] += seconds

    def work(seconds):
        async def lasts():
            now[0] += seconds

        return lasts

    line = Trying(lambda: now[0], sleep)
    for seconds in (0.125, 60.0, 0.0):
        await line.question("a", work(seconds))

    assert rested == [0.0, 0.375, trials.LONGEST_REST]


# ── in steps, and beside the loop ───────────────────────────────────────────────────────────────────────


def steps_of(steps):
    """How many there are, and what they give."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


def test_pods_and_rows_are_made_a_few_at_a_time():
    """As many steps as it takes to have a few pods in each."""
    asked = msgspec.convert(LARGEST, TrialRequest)
    world = a_world(4)
    world.submit(a_gang_of_pods("big", 2 * members.STRIDE + 1, gpu=1))
    world.settle(1.0)
    record = world.record("big")

    made, pods = steps_of(trials.pods(asked, Policy().levels, Volumes(), DeviceClaims(), 0.0))
    shown, rows = steps_of(members.rows(record))

    assert (made, len({pod.uid for pod in pods})) == (trials.MOST // trials.STRIDE, trials.MOST)
    assert (shown, [row.name for row in rows]) == (3, [own.pod.key.name for own in members.ordered(record)])


def test_device_claims_of_a_dry_run_are_known():
    """A template of the cluster says what its pods request; a request that nothing has evaluated yet is named."""
    desk = Desk()
    desk.see(class_of(), slice_of("n1", [device("a")]), template_of("one", request()))
    desk.see(template_of("fresh", request("gpu", 1, "true")))
    claim = {"name": "d", "resourceClaimTemplateName": "one"}

    def read(template):
        spec = {
            "schedulerName": "gangwright",
            "resourceClaims": [{**claim, "resourceClaimTemplateName": template}],
        }
        asked = msgspec.convert({"namespace": "team", "pods": [{"pod": {"spec": spec}}]}, TrialRequest)
        _, (pod,) = steps_of(trials.pods(asked, Policy().levels, Volumes(), desk.translator.devices, 0.0))
        return pod

    assert dict(read("one").demand.requests)[PLAIN] == 1
    assert read("one").unmodeled == ()
    assert read("fresh").unmodeled == (
        "spec.resourceClaims: a request that no pod of the cluster has made yet",
    )
    assert list(desk.translator.settle()) == []


async def test_the_loop_turns_while_pods_are_read(acting, operator, monkeypatch):
    """Between two pieces kube-scheduler's verbs have their turn."""
    monkeypatch.setattr(endpoints, "SPELL", 0.0)
    monkeypatch.setattr(endpoints, "PAUSE", 0.0)
    loop, turns, count, seen = asyncio.get_running_loop(), [0], trials.bounded, []

    def turn():
        turns[0] += 1
        if len(seen) < 2:
            loop.call_soon(turn)

    def begins(asked):
        if not seen:
            seen.append(turns[0])
            turn()
        return count(asked)

    async def simulate(pods):
        seen.append(turns[0])
        return Trial(Reason.INSUFFICIENT_RESOURCES, "no room")

    monkeypatch.setattr(trials, "bounded", begins)
    operator.simulate = simulate
    assert (await acting.do("/v1/simulate", ADMIN, LARGEST)).status == 200

    assert seen[1] - seen[0] >= trials.MOST // trials.STRIDE


async def test_a_gang_is_made_beside_the_loop(monkeypatch):
    """What grows with the pods of a dry run is worked out on a thread."""
    world, at = a_world(4, 4), []
    spec, request = dry_run.gang_spec.spec, dry_run.quorum.request
    noted = lambda made: lambda *what: at.append(threading.get_ident()) or made(*what)  # noqa: E731
    pods = thought_of(a_gang_of_pods("thought", 4, gpu=1), world.now)
    operator = OperatorActions(world.engine, lambda: world.now, None, None)
    monkeypatch.setattr(dry_run.gang_spec, "spec", noted(spec))
    monkeypatch.setattr(dry_run.quorum, "request", noted(request))

    assert (await operator.simulate(pods)).reason is Reason.SEATED
    assert len(at) == 2
    assert threading.get_ident() not in at
