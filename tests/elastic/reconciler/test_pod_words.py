"""What Kubernetes says of a pod that ended: it reaches people in whatever order it comes, and changes no decision."""

from collections.abc import Callable

import pytest

from scheduler.elastic.job import Phase, Spec
from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.workers import Pod
from tests.elastic.reconciler.support.world import TEMPLATE, World

OOM = "OOMKilled: container worker exceeded its memory limit of 4Gi"
EVICTED = "Evicted: The node was low on resource: memory."
START = "StartError: container worker: exec: no such file or directory"


def told(world: World, reason: str) -> list[str]:
    return [one.message for one in world.sentences(job_effects.Tell) if one.reason == reason]


def see(world: World, pod: Pod) -> None:
    """The watch tells the pod as it is."""
    world.handle(world.seen(pod))


def reason_of(world: World, pod: Pod) -> str:
    return next((one.reason for one in world.status.members if one.uid == pod.uid), "")


def test_a_pod_that_fails_without_a_word_of_its_agent_is_told_with_the_cause() -> None:
    """The event, the member, its node and the status say what Kubernetes says, in one event."""
    world = a_job(3)
    pod = world.members()[1]
    pod.cause = OOM
    world.die_out(pod)
    see(world, pod)

    assert told(world, "WorkerLost") == [f"{pod.name} failed: {OOM}"]
    assert told(world, "PodFailed") == []
    assert reason_of(world, pod) == f"failed: {OOM}"
    assert [(one.node, one.why) for one in world.status.barred] == [(pod.node, f"failed: {OOM}")]


def test_the_last_failure_of_a_job_is_told_with_the_cause() -> None:
    """A job that begins again no more says what killed its last worker, in its reason and its condition."""
    world = a_job(1, min_workers=1, max_restarts=0)
    (pod,) = world.members()
    pod.cause = OOM
    world.die_out(pod)

    assert world.run(5, lambda: world.phase is Phase.FAILED)
    assert world.status.reason.endswith(f": {pod.name} failed: {OOM}")
    (failed,) = (one for one in world.status.conditions if one.type == "Failed")
    assert failed.message == world.status.reason


def test_what_the_agent_said_before_stays_beside_the_cause() -> None:
    """The end of the process is told first, and the cause of the pod's end once, however often the pod is seen."""
    world = a_job(3)
    pod = world.members()[1]
    pod.cause = OOM
    world.end(pod, 1, None, why="MemoryError")
    world.run(0.2)
    for _ in range(3):
        see(world, pod)

    said = "exited with code 1: MemoryError: the end"
    assert told(world, "WorkerLost") == [f"{pod.name} {said}"]
    assert told(world, "PodFailed") == [f"{pod.name}: {OOM}"]
    assert reason_of(world, pod) == f"failed: {OOM}; {said}"
    assert [one.why for one in world.status.barred] == [f"failed: {OOM}; {said}"]


def test_a_cause_that_comes_after_silence_is_told_once() -> None:
    """A worker is given up for its silence, and a second later its kubelet says what became of it."""
    world = a_job(3)
    pod = world.members()[1]
    world.lose_node(pod)
    assert world.run(10, lambda: bool(told(world, "WorkerLost")))
    said = told(world, "WorkerLost")[0].removeprefix(f"{pod.name} ")
    pod.cause, pod.phase = EVICTED, "Failed"
    for _ in range(3):
        see(world, pod)

    assert told(world, "WorkerLost") == [f"{pod.name} {said}"]
    assert told(world, "PodFailed") == [f"{pod.name}: {EVICTED}"]
    assert reason_of(world, pod) == f"failed: {EVICTED}; {said}"
    assert [one.why for one in world.status.barred] == [f"failed: {EVICTED}; {said}"]


def test_a_cause_that_comes_late_is_told_with_the_wait_for_the_next_start() -> None:
    """The status says what the next start waits for: the second failure in a row, and its cause."""
    world = a_job(3)
    for pod in (world.members()[2], None):
        if pod is None:
            assert world.run(10, lambda: len(world.pods) == 3)
            pod = next(one for one in world.pods.values() if one not in world.members())
            assert world.run(10, lambda one=pod: one.child == "warming")
        pod.cause = OOM
        world.end(pod, 1, None)
        world.run(0.2)

    assert (
        f"after 2 consecutive failures: {pod.name} failed: {OOM}; exited with code 1" in world.status.reason
    )


def test_an_exit_code_adds_nothing_to_what_was_said() -> None:
    """A worker that is given up is deleted, and its container killed for that: code 137 is our own doing."""
    world = a_job(3)
    pod = world.members()[1]
    world.lose_node(pod)
    assert world.run(10, lambda: bool(told(world, "WorkerLost")))
    pod.cause, pod.plain, pod.phase = "Error: container worker exited with code 137", True, "Failed"
    see(world, pod)

    assert told(world, "PodFailed") == []
    assert reason_of(world, pod).startswith("sent no heartbeat")


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (
            "Error: init container fetch exited with code 3",
            "failed: Error: init container fetch exited with code 3",
        ),
        ("", "failed: pod phase Failed"),
    ],
)
def test_where_there_is_no_better_word_the_exit_code_is_told(cause: str, said: str) -> None:
    """An init container that fails has no agent that could speak for it."""
    world = World(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    assert world.run(20, lambda: any(pod.node for pod in world.pods.values()))
    (pod,) = world.pods.values()
    pod.cause, pod.plain, pod.phase = cause, True, "Failed"
    see(world, pod)

    assert told(world, "WorkerLost") == [f"{pod.name} {said}"]


def test_a_gang_that_cannot_start_for_one_cause_has_failed_once() -> None:
    """Each of its pods names the cause. The gang begins again once for it, as without a cause."""
    world = World(Spec(min_workers=4, max_workers=4, template=TEMPLATE))
    assert world.run(20, lambda: all(pod.node for pod in world.pods.values()) and len(world.pods) == 4)
    pods = list(world.pods.values())
    for pod in pods:
        pod.cause, pod.phase = START, "Failed"
        see(world, pod)

    assert (world.status.restarts, len(told(world, "WorkerLost"))) == (1, 4)
    assert {one.why for one in world.status.barred} == {f"failed: {START}"}


def test_a_worker_that_leaves_in_order_says_why_its_pod_was_taken() -> None:
    """An eviction with a grace ends like any orderly leave: the pod fails afterwards, and no worker is lost."""
    world = a_job(3)
    pod = world.members()[2]
    world.handle(job_events.Leaving(pod.uid, "SIGTERM", 30.0))
    pod.cause = EVICTED
    assert world.run(30, lambda: pod.child == "ended" or pod.uid not in world.pods)
    pod.phase = "Failed"
    see(world, pod)

    assert told(world, "WorkerLost") == []
    assert told(world, "PodFailed") == [f"{pod.name}: {EVICTED}"]


def test_a_container_beside_the_training_that_was_killed_is_shown_while_the_worker_trains() -> None:
    """Nothing follows from it, and what is over is not held against the pod later."""
    world = a_job(3)
    pod = world.members()[1]
    pod.cause = "OOMKilled: init container proxy exceeded its memory limit of 64Mi"
    see(world, pod)
    assert reason_of(world, pod) == pod.cause
    pod.cause = ""
    see(world, pod)
    world.end(pod, 1, None)
    world.run(0.2)

    assert told(world, "PodFailed") == []
    assert told(world, "WorkerLost") == [f"{pod.name} exited with code 1: the end"]


ENDS: dict[str, Callable[[World, Pod], None]] = {
    "the pod alone tells": lambda world, pod: world.die_out(pod),
    "its agent tells first": lambda world, pod: world.end(pod, 1, None),
    "killed, and started again inside": lambda world, pod: world.kill(pod),
    "silence comes first": lambda world, pod: world.lose_node(pod),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("size", [1, 3])
def test_no_decision_goes_by_the_cause(end: Callable[[World, Pod], None], size: int) -> None:
    """What is done, in its order, is the same without a cause as with one. Words differ, and one event more."""

    def done(cause: str) -> list[str]:
        world = a_job(size, min_workers=1)
        pod = world.members()[-1]
        pod.cause = cause
        end(world, pod)
        world.run(90)
        rounds = [(world.status.round, world.status.restarts, world.made)]
        kinds = [
            type(one).__name__
            for one in world.told
            if not isinstance(one, job_effects.Tell | job_effects.Persist)
        ]
        return [*map(str, rounds), *kinds]

    assert done("") == done(OOM)
