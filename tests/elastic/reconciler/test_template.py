"""The template is edited: a gang goes on with the one that it was started with, and the next gang has the edited one."""

from typing import Any

import pytest

from scheduler.elastic.job import Condition, Phase, Spec, encode_status
from scheduler.elastic.job.spec import Checkpoint, EarlyExit
from scheduler.elastic.job.status_json import LONGEST_COPY
from scheduler.elastic.reconciler import job_effects, job_events
from scheduler.elastic.reconciler.template_revision import LONG
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.workers import Pod
from tests.elastic.reconciler.support.world import TEMPLATE, World, edited

SAVED = Checkpoint(path="/ckpt")


def changed(world: World) -> Condition:
    return next(one for one in world.status.conditions if one.type == "TemplateChanged")


def told(world: World, reason: str = "TemplateChanged") -> list[str]:
    return [one.message for one in world.sentences(job_effects.Tell) if one.reason == reason]


def images(world: World) -> set[str]:
    """Of all pods that are not deleted."""
    return {image(pod.template) for pod in world.pods.values() if not pod.deleting}


def image(template: dict[str, Any]) -> str:
    return str(template["spec"]["containers"][0]["image"])


def restart(world: World) -> None:
    """The master dies after its status stands, and another one comes."""
    assert world.witness.spec is not None
    world.stored = encode_status(world.status, {"template": world.witness.spec.template})
    world.die(1.0)
    world.run(10, lambda: world.up)


@pytest.mark.parametrize("restarted", [False, True])
def test_who_joins_a_gang_has_its_template(restarted: bool) -> None:
    """Growth and replacement are made from what the gang was started with, by the next master too; and people are told
    what differs, once.
    """
    world = a_job(2, checkpoint=SAVED)
    world.change(template=edited())
    if restarted:
        restart(world)
    world.size(3)
    assert world.run(60, lambda: world.trains(3)), world.status.reason
    world.end(world.members()[0], 1, None)
    world.run(2)
    assert world.run(60, lambda: world.trains(3)), world.status.reason

    said = (
        "spec.template was edited: spec.containers. Workers use the template with which the gang was started "
        "until the whole gang restarts. To apply the edit now, suspend and resume the job."
    )
    assert world.made == 4
    assert images(world) == {"train"}
    assert (changed(world).status, changed(world).reason, changed(world).message) == (
        True,
        "PendingRestart",
        said,
    )
    assert told(world) == [said]
    assert world.status.template == TEMPLATE


def test_an_edit_while_no_master_runs_is_one() -> None:
    """The next one knows what was accepted last."""
    world = a_job(2)
    restart(world)
    world.die(1.0)
    world.change(template=edited())
    world.run(10, lambda: world.up)
    world.size(3)
    assert world.run(60, lambda: world.trains(3)), world.status.reason

    assert images(world) == {"train"}
    assert len(told(world)) == 1
    assert changed(world).status


def test_each_edit_is_told_once() -> None:
    """Another edit is told of, another change of the spec is not; what is edited back is no edit."""
    world = a_job(2)
    before = changed(world)
    world.change(template={**edited(), "metadata": {"labels": {"team": "a"}}})
    world.change(workers=3)
    world.change(template=edited(3))
    world.change(max_workers=5)
    assert [one.partition(".")[2].partition(". ")[0] for one in told(world)] == [
        "template was edited: metadata.labels, spec.containers",
        "template was edited: spec.containers",
    ]
    assert (
        "Without spec.checkpoint.path, training then restarts from the beginning." in changed(world).message
    )

    world.change(template=TEMPLATE)
    assert (before.status, changed(world).status, changed(world).message) == (False, False, "")
    assert world.status.template is None
    world.change(template=edited())
    assert len(told(world)) == 3
    assert not told(world, "TemplateApplied")


@pytest.mark.parametrize(
    "same",
    [
        {**TEMPLATE, "metadata": None},
        {**TEMPLATE, "metadata": {}},
        {"metadata": {"creationTimestamp": None}, "spec": {**TEMPLATE["spec"], "volumes": None}},
    ],
)
def test_a_field_without_a_value_is_no_edit(same: dict[str, Any]) -> None:
    """Neither is one that is taken away."""
    world = a_job(2)
    world.change(template=same)
    world.change(template=TEMPLATE)

    assert told(world) == []
    assert not changed(world).status


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_that_was_suspended_goes_on_with_the_edit(restarted: bool) -> None:
    """All its pods are made from it, and the condition turns false when that is settled."""
    world = a_job(3, checkpoint=SAVED)
    steps = world.steps()
    world.change(template=edited())
    world.change(suspend=True)
    assert world.run(30, lambda: world.phase is Phase.SUSPENDED), world.status.reason
    assert not changed(world).status
    assert len(told(world, "TemplateApplied")) == 1
    if restarted:
        restart(world)
    world.change(suspend=False)
    assert world.run(60, lambda: world.trains(3) and world.steps() > steps), world.status.reason

    assert images(world) == {"train:2"}
    assert world.status.restarts == 0


def test_an_edit_of_a_suspended_job_waits_for_nothing() -> None:
    """Nothing trains, so nothing is told to wait."""
    world = a_job(2, checkpoint=SAVED)
    world.change(suspend=True)
    assert world.run(30, lambda: world.phase is Phase.SUSPENDED)
    world.change(template=edited())
    assert (told(world), changed(world).status) == ([], False)
    world.change(suspend=False)
    assert world.run(60, lambda: world.trains(2)), world.status.reason

    assert images(world) == {"train:2"}


def test_a_state_that_was_not_saved_keeps_its_gang() -> None:
    """Those that hold it go on with the template that they have, and whatever joins them has it too."""
    world = a_job(3, checkpoint=SAVED)
    for pod in world.pods.values():
        pod.disk_full = True
    world.change(template=edited(), suspend=True)
    assert world.run(60, lambda: bool(world.status.assignment and world.status.assignment.holding))
    world.run(10)
    world.change(suspend=False)
    assert world.run(60, lambda: world.trains(3)), world.status.reason

    assert images(world) == {"train"}
    assert changed(world).status


def test_a_gang_that_is_lost_is_started_with_the_edit() -> None:
    """Newcomers that were on their way to the former one go; the training goes on from its checkpoint."""
    world = a_job(2, checkpoint=SAVED)
    world.size(3)
    assert world.run(60, lambda: world.trains(3)), world.status.reason
    world.size(5)
    world.run(1)
    world.change(template=edited())
    assert len(world.pods) == 5
    for pod in world.members():
        world.end(pod, 1, None)
    world.run(1)
    assert images(world) == {"train:2"}
    assert world.run(60, lambda: world.trains(5)), world.status.reason

    assert images(world) == {"train:2"}
    assert world.status.restarts == 1
    assert len(told(world, "GangLost")) == len(told(world, "TemplateApplied")) == 1


def test_nodes_that_a_gang_was_lost_with_stay_avoided() -> None:
    """That a node was silent says something of it, whatever the template is."""
    world = a_job(2, checkpoint=SAVED)
    world.change(template=edited())
    silent, other = world.members()
    world.lose_node(silent)
    assert world.run(20, lambda: bool(told(world, "WorkerLost")))
    world.run(1)
    world.end(other, 1, None)
    world.run(1)

    assert len(told(world, "TemplateApplied")) == 1
    assert [one.node for one in world.status.barred if one.until > world.now] == [silent.node]


def test_processes_that_start_again_in_their_pods_are_no_new_gang() -> None:
    """All are killed together, and their pods would start them again: they are made again instead."""
    world = a_job(2, checkpoint=SAVED)
    world.change(template=edited())
    for pod in world.members():
        world.kill(pod)
    assert world.run(60, lambda: world.trains(2)), world.status.reason

    assert images(world) == {"train:2"}


class Crashing(World):
    """Whatever is made from the first template crashes."""

    def _startworker(self, effect: job_effects.StartWorker) -> None:
        super()._startworker(effect)
        pod = list(self.pods.values())[-1]
        pod.crashes = pod.template == TEMPLATE


def test_a_job_that_fails_at_its_start_is_mended_at_once() -> None:
    """No failure of the former template is waited for: neither its pauses nor the nodes that it failed on."""
    world = Crashing(Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=100), nodes=2)
    assert world.run(200, lambda: len(world.status.barred) == 2 and not world.pods)
    world.change(template=edited())

    assert world.run(10, lambda: world.trains(2)), world.status.reason
    assert images(world) == {"train:2"}
    assert told(world) == []


def test_failures_of_the_former_template_are_not_counted() -> None:
    """An edited template may fail as often as the first one might."""

    class Always(World):
        def _startworker(self, effect: job_effects.StartWorker) -> None:
            super()._startworker(effect)
            list(self.pods.values())[-1].crashes = True

    world = Always(Spec(min_workers=1, max_workers=1, template=TEMPLATE, max_restarts=4), nodes=1)
    assert world.run(400, lambda: world.made == 4)
    world.change(template=edited())

    assert world.run(3000, lambda: world.status.phase is Phase.FAILED), world.status.reason
    assert world.made >= 4 + 5


class Refusing(World):
    """The API server makes no pod from the first template, and says so after a while."""

    after = 0.1

    def _startworker(self, effect: job_effects.StartWorker) -> None:
        assert self.membership.spec is not None
        if self.membership.spec.template == TEMPLATE:
            self.later(
                self.after, lambda: self.handle(job_events.StartRefused(effect.number, "no such class"))
            )
        else:
            super()._startworker(effect)


def test_a_start_that_is_refused_is_not_waited_for() -> None:
    """The API server would not make the former pod; what it said of that does not hold up the next one."""
    world = Refusing(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    world.run(300)
    assert "no such class" in world.status.reason
    world.change(template=edited())

    assert "no such class" not in world.status.reason
    assert world.run(10, lambda: world.trains(1)), world.status.reason


class Slow(Refusing):
    after = 100.0


def test_a_late_refusal_of_a_former_start_says_nothing() -> None:
    """It was given up before, and is not held against the edit."""
    world = Slow(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    world.run(world.limits.unseen + 5)
    world.change(template=edited())
    assert world.run(10, lambda: world.trains(1)), world.status.reason
    world.run(200)

    assert told(world, "FailedCreate") == []


class Late(World):
    """The watch tells of no pod from the first template."""

    def tell(self, pod: Pod) -> None:
        if pod.template != TEMPLATE:
            super().tell(pod)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pod_that_is_seen_late_begins_nothing(restarted: bool) -> None:
    """It was asked for before the edit, and seen after it: its number tells, to the next master too."""
    world = Late(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    world.run(1)
    world.change(template=edited())
    (late, _) = list(world.pods.values())
    if restarted:
        del world.pods[late.uid]  # the answer to its list does not have it yet
        restart(world)
        world.pods[late.uid] = late
    world.handle(world.seen(late))
    assert late.deleting
    assert world.run(20, lambda: world.trains(1)), world.status.reason

    assert images(world) == {"train:2"}


def test_numbers_begin_beyond_those_that_are_retired() -> None:
    """A master that finds no pod does not take its own first ones for former ones."""
    world = a_job(2, checkpoint=SAVED)
    world.change(template=edited(), suspend=True)
    assert world.run(30, lambda: world.phase is Phase.SUSPENDED)
    restart(world)
    world.change(suspend=False)
    assert world.run(60, lambda: world.trains(2)), world.status.reason

    assert world.made == 4
    assert world.status.retired == 2


def test_what_was_not_seen_begins_nothing_after_a_restart() -> None:
    """The watch of pods is dead while the gang is lost: those that it had asked for are there when a new master looks."""
    world = a_job(2, checkpoint=SAVED)
    world.lose_sight()
    world.size(4)
    world.run(1)
    assert world.made == 4
    world.change(template=edited())
    for pod in world.members():
        world.end(pod, 1, None)
    world.run(3)
    assert len(told(world, "TemplateApplied")) == 1
    restart(world)

    assert world.run(120, lambda: world.trains(4)), world.status.reason
    assert images(world) == {"train:2"}


def test_a_round_that_is_being_written_is_a_gang() -> None:
    """It may stand at the API server: the job begins with what it has, and says so."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE))
    assert world.run(20, lambda: world.writing is not None)
    world.change(template=edited())
    assert world.run(20, lambda: world.trains(2)), world.status.reason

    assert world.made == 2
    assert images(world) == {"train"}
    assert len(told(world)) == 1


def test_workers_that_get_ready_make_way() -> None:
    """No round is theirs yet, so nothing is lost: the first gang has the edit."""
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE))
    world.run(2)
    assert len(world.pods) == 2
    world.change(template=edited())
    assert world.run(20, lambda: world.trains(2)), world.status.reason

    assert world.made == 4
    assert images(world) == {"train:2"}
    assert told(world) == []


def test_a_job_that_ends_takes_nothing() -> None:
    """Nothing is made from the edit, and nothing is promised."""
    world = a_job(2, early_exit=EarlyExit.ALLOW)
    world.end(world.members()[0], 0, None)
    world.change(template=edited())
    assert world.run(60, lambda: world.phase is Phase.SUCCEEDED), world.status.reason
    before = told(world)
    world.change(template=edited(3))
    world.run(5)

    assert (changed(world).status, changed(world).reason) == (False, "Succeeded")
    assert (told(world), told(world, "TemplateApplied")) == (before, [])
    assert world.status.template is None


def test_a_template_that_is_too_long_is_not_kept() -> None:
    """That is said; after a restart of the master new workers are made from the edited one."""
    long = {**TEMPLATE, "metadata": {"annotations": {"note": "x" * LONGEST_COPY}}}
    world = a_job(2, template=long)
    world.change(template=edited())
    assert changed(world).message.endswith(LONG)
    assert world.status.template is None
    world.size(3)
    assert world.run(60, lambda: world.trains(3)), world.status.reason
    assert images(world) == {"train"}
    restart(world)
    assert not changed(world).status


def test_a_template_that_is_too_deep_is_no_edit() -> None:
    """It cannot be compared, and the job goes on."""
    deep: dict[str, Any] = {}
    for _ in range(900):
        deep = {"deeper": deep}
    world = a_job(2)
    world.change(template={**edited(), "metadata": {"annotations": deep}})
    world.run(1)

    assert world.trains(2)
    assert told(world) == []
