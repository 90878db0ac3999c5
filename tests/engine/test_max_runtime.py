"""A gang that has run for its max-runtime is warned, ended for good, and not seated again."""

from dataclasses import replace
from random import Random

import pytest

from scheduler.engine import Engine
from scheduler.ledger import conditions
from scheduler.ledger.suspended_jobs import EVERY
from scheduler.model import events as ev
from scheduler.model.decision import TEXT, Reason, Refuse
from scheduler.model.effects import Announce, Effect, Evict, ResumeJob, SuspendJob
from scheduler.model.verbs import FilterCall, Refused
from scheduler.model.workload import Membership, Phase, Pod, Uid, Wish, gang_of_one
from tests.engine.support import walks
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner, with_membership
from tests.engine.support.freeing import GRACE, a_stage, important
from tests.engine.support.stage import POLICY, a_set, an_engine, runs, seats
from tests.engine.support.wishes import Wanted, a_wish
from tests.engine.support.world import World
from tests.support.builders import a_node

LIMIT = 100.0


def a_set_with_an_end(world: World, count: int = 2, **said) -> Controller:
    return a_set(world, "train", count, max_runtime=LIMIT, **said)


def a_job_with_an_end(world: World, count: int = 2, *, name: str = "train", managed: str = "") -> Controller:
    """A Job with a quorum of two that says nothing of how it gives way. managed: its controller's uid."""
    owner, membership = an_owner("Job", name), a_membership("train", 2, max_runtime=LIMIT)
    job = Controller(owner, count, lambda pod: a_pod(pod, membership=membership, owner=owner, gpu=1))
    world.control(job)
    if managed:
        world.api.put_owner(replace(world.api.owners[owner.uid], managed=managed))
    return job


def succeed(world: World, *numbers: int) -> None:
    """These pods of the gang are done."""
    for pod in [world.pods("train")[number] for number in numbers]:
        world.api.write(replace(pod, phase=Phase.SUCCEEDED))


def until_the_end(world: World) -> Effect:
    """On to the first effect that ends the gang, which is not carried out yet."""
    while not ends(world.said):
        if not world.step():
            world.advance(1.0)
    return ends(world.said)[0]


def told(world: World) -> list[tuple[float, Reason]]:
    """When people were told of the end, beside the conditions on pods that wait."""
    about = {Reason.RUNTIME_EXPIRING, Reason.RUNTIME_EXCEEDED}
    return [(at, own.reason) for at, own in world.api.announced if own.reason in about and own.seated is None]


def ends(effects: list[Effect]) -> list[Effect]:
    """What ends a gang."""
    return [
        own
        for own in effects
        if (isinstance(own, Evict) and own.reason is Reason.RUNTIME_EXCEEDED)
        or (isinstance(own, SuspendJob) and own.stays is not None)
    ]


def reason(world: World) -> Reason:
    return conditions.reason(world.record("train"))


def say(world: World, **words) -> None:
    """All pods of the gang say something else."""
    for pod in world.pods("train"):
        assert pod.membership is not None
        world.api.write(with_membership(pod, wish=replace(pod.membership.wish, **words)))


def test_a_gang_is_warned_and_ended() -> None:
    """The warning comes when a tenth is left; then all pods are evicted, and the next wait and say why."""
    world = a_stage(2, grace=GRACE)
    a_set_with_an_end(world)
    world.settle(LIMIT - 1)
    assert seats(world, "train") == 2
    assert told(world) == [(90, Reason.RUNTIME_EXPIRING)]
    world.settle(10 * GRACE)

    assert told(world) == [(90, Reason.RUNTIME_EXPIRING), (100, Reason.RUNTIME_EXCEEDED)]
    assert len(ends(world.said)) == 2
    assert [(pod.node, pod.told) for pod in world.pods("train")] == [(None, Reason.RUNTIME_EXCEEDED)] * 2
    assert reason(world) is Reason.RUNTIME_EXCEEDED
    refused = world.record("train").spec
    assert isinstance(refused, Refuse)
    assert (refused.field, refused.value) == ("gangwright.io/max-runtime", "1m40s")
    assert len(world.engine.ledger.pending) == 0


def test_a_long_gang_is_warned_five_minutes_before_its_end() -> None:
    """A tenth of a day is no last call."""
    world = a_stage(2)
    a_set(world, "train", 2, max_runtime=86_400.0)
    world.settle(86_000)
    assert told(world) == []
    world.settle(200)
    assert told(world) == [(86_100, Reason.RUNTIME_EXPIRING)]


def test_a_longer_time_lets_it_run_again() -> None:
    """The pods that wait are seated once they ask for more time, and have all of it. That their template still says less
    lets the next ones not run.
    """
    world = a_stage(2)
    a_set_with_an_end(world)
    world.settle(LIMIT + 5)
    assert seats(world, "train") == 0
    say(world, max_runtime=2 * LIMIT)
    world.settle(2 * LIMIT - 5)
    assert seats(world, "train") == 2
    world.settle(10)
    assert (seats(world, "train"), reason(world)) == (0, Reason.RUNTIME_EXCEEDED)


def test_a_longer_time_that_is_taken_back_counts_from_its_run() -> None:
    """Once it runs again, that it was ended before does not end it."""
    world = a_stage(2)
    a_set_with_an_end(world)
    world.settle(LIMIT + 5)
    say(world, max_runtime=2 * LIMIT)
    world.settle(20)
    assert seats(world, "train") == 2
    say(world, max_runtime=LIMIT)
    world.settle(LIMIT - 30)
    assert seats(world, "train") == 2
    world.settle(20)
    assert (seats(world, "train"), reason(world)) == (0, Reason.RUNTIME_EXCEEDED)


def test_a_gang_that_runs_may_be_given_more_time() -> None:
    """What its pods say counts at any time, from the same beginning on."""
    world = a_stage(2)
    a_set_with_an_end(world)
    world.settle(LIMIT - 5)
    say(world, max_runtime=2 * LIMIT)
    world.settle(LIMIT)
    assert seats(world, "train") == 2
    world.settle(10)
    assert seats(world, "train") == 0


def test_members_that_disagree_are_not_ended() -> None:
    """As long as they do not say the same, none of their values counts."""
    world = a_stage(2)
    a_set_with_an_end(world)
    world.settle(1)
    first = world.pods("train")[0]
    world.api.write(with_membership(first, wish=Wish(max_runtime=LIMIT + 1)))
    world.settle(2 * LIMIT)
    assert (seats(world, "train"), ends(world.said)) == (2, [])


def test_a_job_is_suspended_and_stays_so() -> None:
    """No pod is evicted, and Gangwright does not resume it; a person does, and it has the whole time again."""
    world = a_stage(2, grace=GRACE)
    job = a_job_with_an_end(world)
    world.settle(LIMIT + GRACE + 5 * EVERY)
    traits = world.api.owners[job.owner.uid]
    assert (world.pods("train"), traits.suspended, traits.paused) == ([], True, None)
    assert traits.attained == 2 * LIMIT
    assert [type(own) for own in ends(world.said)] == [SuspendJob]
    assert not any(isinstance(own, ResumeJob) for own in world.said)
    assert told(world) == [(90, Reason.RUNTIME_EXPIRING), (100, Reason.RUNTIME_EXCEEDED)]

    world.api.set_suspended(job.owner, suspended=False)
    world.settle(LIMIT - 1)
    assert seats(world, "train") == 2
    world.settle(GRACE + 5)
    assert (world.pods("train"), len(ends(world.said))) == ([], 2)


def test_a_job_that_changed_meanwhile_is_suspended_all_the_same() -> None:
    """What was decided on it as it was is refused, and decided once more."""
    world = a_stage(2)
    job = a_job_with_an_end(world)
    until_the_end(world)
    world.api.put_owner(replace(world.api.owners[job.owner.uid], remakes_freely=True))
    world.settle(2 * POLICY.outcome_limit)
    assert (world.pods("train"), len(ends(world.said))) == ([], 2)
    assert [why for _, why in told(world)] == [Reason.RUNTIME_EXPIRING, Reason.RUNTIME_EXCEEDED]


def test_a_job_that_goes_on_has_the_whole_time() -> None:
    """Its pods that succeeded before it was suspended do not tell when it began again, though they fill its quorum."""
    world = a_stage(4)
    job = a_job_with_an_end(world, 4)
    world.settle(1)
    succeed(world, 0, 1)
    world.settle(LIMIT + 5)
    assert (seats(world, "train"), len(ends(world.said))) == (0, 1)
    world.api.set_suspended(job.owner, suspended=False)
    world.settle(LIMIT - 5)
    assert (seats(world, "train"), len(ends(world.said))) == (2, 1)
    world.settle(10)
    assert (seats(world, "train"), len(ends(world.said))) == (0, 2)


@pytest.mark.parametrize(("crashed", "later"), [(False, 0.0), (True, LIMIT / 2)])
def test_a_work_queue_counts_from_its_beginning(*, crashed: bool, later: float) -> None:
    """Pods that take the places of those that succeeded move nothing; but a restart knows of no earlier beginning."""
    world = a_stage(2)
    a_job_with_an_end(world, 4)
    world.settle(LIMIT / 2)
    succeed(world, *(number for number, pod in enumerate(world.pods("train")) if pod.node is not None))
    world.settle(1)
    if crashed:
        world.crash()
    world.settle(LIMIT / 2 - 6 + later)
    assert (seats(world, "train"), ends(world.said)) == (2, [])
    world.settle(10)
    assert (seats(world, "train"), len(ends(world.said))) == (0, 1)


def test_a_suspension_that_is_refused_is_told_once() -> None:
    """In the words of the API server. A Job that has changed since is no news, and the gang is tried again."""
    world = a_stage(2)
    job = a_job_with_an_end(world)
    suspend = until_the_end(world)
    world.tell([ev.EffectFailed(suspend, ev.FailureKind.CONFLICT, "changed")])
    for _ in range(2):
        world.tell([ev.EffectFailed(suspend, ev.FailureKind.FORBIDDEN, "denied by a policy")])
        world.advance(2 * POLICY.announce_every)
    messages = [own.message for own in world.said if isinstance(own, Announce)]
    head = TEXT[Reason.RUNTIME_EXCEEDED]
    begun, *more = [own for own in messages if own.startswith(head)]
    assert "is being suspended" in begun
    text = "Job train is not suspended: denied by a policy; Gangwright keeps retrying"
    assert more == [f"{head}, and {text}"]
    world.settle(POLICY.outcome_limit + 5)
    assert world.api.owners[job.owner.uid].suspended


def test_a_job_that_is_suspended_already_is_left_alone() -> None:
    """Its pods are on their way out, at the word of its user."""
    world = a_stage(2, grace=GRACE)
    job = a_job_with_an_end(world)
    world.settle(LIMIT - 5)
    world.api.set_suspended(job.owner, suspended=True)
    world.settle(2 * GRACE)
    assert (world.pods("train"), ends(world.said)) == ([], [])


def test_a_job_that_another_controller_would_resume_is_not_suspended() -> None:
    """Its pods are evicted, and those that it makes next wait."""
    world = a_stage(2)
    a_job_with_an_end(world, managed="JobSet/train")
    world.settle(LIMIT + 5)
    assert [type(own) for own in ends(world.said)] == [Evict, Evict]
    assert len(world.pods("train")) == 2
    assert reason(world) is Reason.RUNTIME_EXCEEDED


@pytest.mark.parametrize("crashed", [False, True])
def test_jobs_that_their_controller_makes_again_wait_too(*, crashed: bool) -> None:
    """They have other uids, and the same controller. Those of another controller run."""
    world = a_stage(2)
    last = a_job_with_an_end(world, name="first", managed="JobSet/one")
    world.settle(LIMIT + 5)
    if crashed:
        world.crash()
        world.settle(5)
    again = [("second", "JobSet/one", False), ("third", "JobSet/one", False), ("other", "JobSet/two", True)]
    for name, managed, runs_on in again:
        world.api.uncontrol(last.owner)
        for pod in world.pods("train"):
            world.api.remove(pod.key)
        world.settle(1)
        last = a_job_with_an_end(world, name=name, managed=managed)
        world.settle(5)
        assert seats(world, "train") == (2 if runs_on else 0)
        assert (reason(world) is Reason.RUNTIME_EXCEEDED) is not runs_on


def test_pods_without_a_controller_are_evicted_once() -> None:
    """They come back by no controller. A person who makes them again begins a new run."""
    world = a_stage(2)
    world.submit(a_gang_of_pods("train", 2, gpu=1, wish={"max_runtime": LIMIT}))
    world.settle(LIMIT + 5)
    assert (world.pods("train"), len(ends(world.said))) == ([], 2)
    world.submit(a_gang_of_pods("train", 2, gpu=1, wish={"max_runtime": LIMIT}))
    world.settle(1)
    assert seats(world, "train") == 2


def test_a_restart_counts_on() -> None:
    """The pods tell since when their quorum runs; a member above it that came later moves nothing."""
    world = a_stage(2)
    a_set_with_an_end(world, 3, quorum=2)
    world.settle(LIMIT / 2)
    world.api.put_node(a_node("n1", gpu=1, rack="r"))
    world.settle(1)
    assert seats(world, "train") == 3
    world.crash()
    world.settle(LIMIT / 2 - 3)
    assert seats(world, "train") == 3
    world.settle(5)
    assert (seats(world, "train"), len(ends(world.said))) == (0, 3)


def test_a_restart_remembers_what_was_ended() -> None:
    """By the condition on the pods that wait."""
    world = a_stage(2)
    a_set_with_an_end(world)
    world.settle(LIMIT + 20)
    world.crash()
    world.settle(60)
    assert (seats(world, "train"), reason(world)) == (0, Reason.RUNTIME_EXCEEDED)
    say(world, max_runtime=None)
    world.settle(1)
    assert seats(world, "train") == 2


def test_a_restart_ends_what_is_left() -> None:
    """A member that a budget kept goes as soon as it may, though another of its gang waits by now."""
    world = a_stage(2)
    a_set_with_an_end(world)
    world.settle(1)
    kept = world.pods("train")[0]
    world.api.protected.add(kept.uid)
    world.settle(LIMIT + 20)
    world.crash()
    world.settle(20)
    assert seats(world, "train") == 1
    world.api.protected.clear()
    world.settle(10)
    assert (seats(world, "train"), reason(world)) == (0, Reason.RUNTIME_EXCEEDED)


def test_a_budget_is_asked_again() -> None:
    """The Eviction API decides when a pod may go; it is asked every few seconds until then."""
    world = a_stage(2)
    a_set_with_an_end(world)
    world.settle(1)
    world.api.protected.update(pod.uid for pod in world.pods("train"))
    world.settle(LIMIT + 30)
    assert seats(world, "train") == 2
    assert 2 * 5 <= len(ends(world.said)) <= 2 * 8
    assert told(world)[1:] == [(100, Reason.RUNTIME_EXCEEDED)]
    world.api.protected.clear()
    world.settle(10)
    assert (seats(world, "train"), reason(world)) == (0, Reason.RUNTIME_EXCEEDED)


def test_a_gang_that_gives_way_is_not_ended_too() -> None:
    """Its pods are on their way out at the end of its time. The next ones have all of it."""
    world = a_stage(2, grace=GRACE)
    a_set_with_an_end(world)
    world.settle(LIMIT - 5)
    pods = important(world, 2)
    world.settle(2 * GRACE)
    assert (seats(world, "important"), ends(world.said)) == (2, [])
    for pod in pods:
        world.api.remove(pod.key)
    world.settle(1)
    assert seats(world, "train") == 2


def test_nothing_ends_in_the_clusters_own_namespaces() -> None:
    """No pod of a kube-* namespace is evicted, or warned."""
    world = a_stage(2)
    world.submit(a_gang_of_pods("train", 2, gpu=1, namespace="kube-system", wish={"max_runtime": LIMIT}))
    world.settle(2 * LIMIT)
    assert (len(world.bound("train", "kube-system")), told(world)) == (2, [])


def ended_at(seconds: float) -> Pod:
    """A pod that runs since a second after the beginning, and may do so for so long."""
    return with_membership(runs(0), wish=Wish(max_runtime=seconds))


def test_a_standby_ends_nothing() -> None:
    """A replica that does not act, and one that does not see the cluster, leave it to the one that does."""
    engine = Engine(POLICY)
    seen = [ev.NodeSeen(a_node("n0", gpu=1)), ev.PodSeen(ended_at(50.0)), ev.Synced()]
    assert ends(engine.observe([*seen, ev.Tick()], 100.0)) == []
    assert len(ends(engine.observe([ev.TookOver()], 100.0))) == 1

    blind = an_engine(1, POLICY, 10.0, ended_at(50.0))
    assert ends(blind.observe([ev.LostSight(), ev.Tick()], 100.0)) == []
    assert len(ends(blind.observe([ev.SawAgain()], 100.0))) == 1


def alone(name: str, **more) -> Pod:
    """A pod of a ReplicaSet that is of no gang."""
    said = Membership(
        gang_of_one("default", Uid(name)), "gangwright", quorum={"": 1}, wish=Wish(max_runtime=50.0)
    )
    pod = a_pod(name, uid=name, membership=said, owner=an_owner(), gpu=1, gated=False)
    return replace(pod, **more)


def test_a_pod_alone_is_ended_too() -> None:
    """What its controller makes next waits, also where it comes before the first is gone."""
    engine = an_engine(2, POLICY, 10.0, alone("one", node="n0", phase=Phase.RUNNING, bound_at=1.0))
    assert len(ends(engine.observe([ev.Tick()], 60.0))) == 1
    engine.observe([ev.PodSeen(alone("two"))], 61.0)
    engine.observe([ev.PodGone(Uid("one"), alone("one").key)], 62.0)
    pod = alone("two")
    answer, _ = engine.filter(FilterCall(pod.uid, pod.key, pod.scheduler, pod.native_group, ("n0",)), 63.0)
    assert answer == Refused(Reason.RUNTIME_EXCEEDED)


def test_a_gang_with_an_end_passes_one_that_waits() -> None:
    """Its max-runtime is a promise that is kept, so it may use the room until the first that waits can begin."""
    world = a_stage(4)
    world.submit(a_gang_of_pods("half", 2, gpu=1, wish={"runtime": LIMIT}))
    world.settle(1)
    world.submit(a_gang_of_pods("whole", 4, gpu=1))
    world.settle(1)
    world.submit(a_gang_of_pods("unknown", 2, gpu=1))
    world.submit(a_gang_of_pods("train", 2, gpu=1, wish={"max_runtime": LIMIT / 2}))
    world.settle(1)
    assert (seats(world, "unknown"), seats(world, "train")) == (0, 2)


@pytest.mark.parametrize("runtime", [None, LIMIT / 10])
def test_room_is_reserved_by_the_end(runtime: float | None) -> None:
    """Pods that would stay without end leave then, and so does a gang that ran past what it declared."""
    world = a_stage(2)
    a_set_with_an_end(world, runtime=runtime)
    world.settle(LIMIT / 2)
    world.submit(a_gang_of_pods("waits", 2, gpu=1))
    world.settle(LIMIT / 2 - 5)
    reserved = world.engine.cycle.head.reserved
    assert reserved is not None
    assert reserved.start == LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_around_ends(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a max-runtime on each gang all that is always true stays true, and some are ended."""

    def with_an_end(chance: Random) -> Wanted:
        return replace(a_wish(chance), max_runtime=20.0)

    monkeypatch.setattr(walks, "a_wish", with_an_end)
    assert ends(walks.told_by_a_walk(seed, 150))
