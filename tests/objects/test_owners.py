"""Who makes lost pods again at no cost, and who never makes all of a gang."""

import pytest

from scheduler.model.workload import GangKey, Owner
from scheduler.objects import api
from scheduler.objects.owners import job, of_reference, stateful_set
from tests.objects.reading import struct

IGNORES = "podFailurePolicy: {rules: [{action: FailJob}, {action: %s, onPodConditions: [{type: %s}]}]}"
JOBS = {
    "a plain job counts every lost pod": ("backoffLimit: 3", False),
    "a job that replaces failed pods only": ("podReplacementPolicy: Failed", True),
    "a job that replaces terminating pods": ("podReplacementPolicy: TerminatingOrFailed", False),
    "a job that ignores disruptions": (IGNORES % ("Ignore", "DisruptionTarget"), True),
    "a job that counts disruptions": (IGNORES % ("Count", "DisruptionTarget"), False),
    "a job that ignores something else": (IGNORES % ("Ignore", "ConfigIssue"), False),
    "a job with an empty policy": ("podFailurePolicy: {rules: null}", False),
}


@pytest.mark.parametrize(("spec", "free"), JOBS.values(), ids=JOBS.keys())
def test_which_jobs_remake_freely(spec: str, free: bool) -> None:
    """Only those whose policy keeps a pod that never ran from counting as failed."""
    traits = job(struct(api.Job, f"metadata: {{uid: u}}\nspec: {{{spec}}}"))
    assert (traits.uid, traits.remakes_freely, traits.warnings) == ("u", free, ())


def test_birth_of_a_job_is_read() -> None:
    """Its pods are made again whenever it is resumed; it itself is as old as it was."""
    traits = job(struct(api.Job, "metadata: {uid: u, creationTimestamp: '1970-01-01T01:00:00Z'}"))
    assert traits.created == 3600.0
    assert job(struct(api.Job, "metadata: {uid: u}")).created is None


@pytest.mark.parametrize(
    ("meta", "status", "said"),
    [
        ("", "{}", (0, 0, False)),
        ("", "{succeeded: 3, failed: 2}", (3, 2, False)),
        ("", "{conditions: [{type: Failed, status: 'True'}]}", (0, 0, True)),
        ("", "{conditions: [{type: Complete, status: 'False'}]}", (0, 0, False)),
        (", deletionTimestamp: '2026-01-01T00:00:00Z'", "{succeeded: null}", (0, 0, True)),
    ],
)
def test_what_a_job_has_behind_it_is_read(meta: str, status: str, said: tuple[int, int, bool]) -> None:
    """Pods that succeeded and failed by its own count, and whether it makes any more."""
    traits = job(struct(api.Job, f"metadata: {{uid: u{meta}}}\nstatus: {status}"))
    assert (traits.succeeded, traits.failed, traits.ended) == said


NOTED = "metadata: {name: j, uid: u, resourceVersion: '17', annotations: {%s}}\nspec: {suspend: %s}"
PAUSED, STAYS = "gangwright.io/paused: '2026-01-01T00:00:00+00:00'", "gangwright.io/stay-suspended: 'true'"


@pytest.mark.parametrize(
    ("said", "suspended", "ours"),
    [
        ("", "true", False),
        (PAUSED, "true", True),
        (f"{PAUSED}, {STAYS}", "true", False),
        (STAYS, "true", False),
        (PAUSED, "false", True),
        (f"{PAUSED}, {STAYS}", "false", True),
        ("", "false", False),
    ],
)
def test_whose_suspension_it_is(said: str, suspended: str, ours: bool) -> None:
    """Ours as long as our word stands on the Job and nobody said that it stays suspended; of a Job that runs, our
    word is left over.
    """
    traits = job(struct(api.Job, NOTED % (said, suspended)))

    assert traits.paused == (Owner("Job", "j", "u", "batch/v1") if ours else None)
    assert (traits.suspended, traits.version) == (suspended == "true", "17")


@pytest.mark.parametrize(
    ("kind", "controller", "managed"),
    [("JobSet", "true", "o"), ("CronJob", "true", ""), ("JobSet", "false", "")],
)
def test_who_may_resume_a_job(kind: str, controller: str, managed: str) -> None:
    """A controller that owns a Job may undo a suspension, but a CronJob only makes Jobs."""
    owner = f"{{kind: {kind}, name: o, uid: o, apiVersion: v1, controller: {controller}}}"
    assert job(struct(api.Job, f"metadata: {{uid: u, ownerReferences: [{owner}]}}")).managed == managed


def test_a_deadline_that_runs_while_waiting_is_told() -> None:
    """`activeDeadlineSeconds` begins with the Job, not with the gang."""
    traits = job(struct(api.Job, "metadata: {uid: u}\nspec: {activeDeadlineSeconds: 600}"))
    assert [(w.field, w.value, w.fatal) for w in traits.warnings] == [
        ("spec.activeDeadlineSeconds", "600", False)
    ]


@pytest.mark.parametrize(
    ("spec", "warned"),
    [("podManagementPolicy: Parallel", 0), ("podManagementPolicy: OrderedReady", 1), ("", 1)],
)
def test_an_ordered_stateful_set_is_told(spec: str, warned: int) -> None:
    """It makes the second pod when the first is ready: no gang ever assembles. OrderedReady is the API's default."""
    traits = stateful_set(struct(api.StatefulSet, f"metadata: {{uid: u}}\nspec: {{{spec}}}"))
    assert traits.remakes_freely
    assert len(traits.warnings) == warned


@pytest.mark.parametrize(
    ("kind", "version", "known"),
    [
        ("ReplicaSet", "apps/v1", True),
        ("ReplicationController", "v1", True),
        ("ElasticJob", "gangwright.io/v1alpha1", True),
        ("ElasticJob", "elsewhere.io/v1", False),
        ("Job", "batch/v1", False),
        ("Workflow", "argoproj.io/v1alpha1", False),
    ],
)
def test_kinds_that_say_all_by_themselves(kind: str, version: str, known: bool) -> None:
    """The reference alone tells that these remake freely; others must be read, or are not known to."""
    traits = of_reference(Owner(kind, "o", "u", version))
    assert (traits is not None and traits.remakes_freely) == known


SLEEPING = """
metadata: {name: j, uid: u, namespace: team%s}
spec: {suspend: %s, template: {metadata: {labels: {%s}, annotations: {gangwright.io/min-members: '4'}},
  spec: {schedulerName: gangwright}}}
status: {conditions: [{type: %s, status: 'True'}]}
"""
NAMED = "gangwright.io/gang: g"


def test_a_suspended_job_says_which_gang_it_would_be() -> None:
    """By the words of its template, read like those of a pod."""
    found = job(struct(api.Job, SLEEPING % ("", "true", NAMED, "Suspended"))).asleep

    assert found is not None
    assert (found.job, found.scheduler, found.paused) == ("j", "gangwright", False)
    assert (found.membership.gang, found.membership.quorum) == (GangKey("team", "g"), {"": 4})


@pytest.mark.parametrize(("word", "exceeded"), [("RuntimeExceeded", True), ("true", False)])
def test_a_job_that_was_ended_says_so(word: str, *, exceeded: bool) -> None:
    """The word that keeps it suspended is a person's, or gives the reason."""
    said = f", annotations: {{gangwright.io/stay-suspended: '{word}'}}"
    found = job(struct(api.Job, SLEEPING % (said, "true", NAMED, "Suspended")))

    assert found.asleep is not None
    assert (found.paused, found.asleep.exceeded) == (None, exceeded)


@pytest.mark.parametrize(
    ("meta", "suspended", "said", "condition"),
    [
        ("", "false", NAMED, "Suspended"),
        ("", "true", NAMED, "Complete"),
        ("", "true", NAMED, "Failed"),
        (", deletionTimestamp: '2026-01-01T00:00:00Z'", "true", NAMED, "Suspended"),
        ("", "true", "app: x", "Suspended"),
    ],
    ids=["it runs", "it is done", "it failed", "it goes", "no gang"],
)
def test_who_is_not_asleep(meta: str, suspended: str, said: str, condition: str) -> None:
    """A Job that runs, one that never will again, and one whose pods would be no gang."""
    assert job(struct(api.Job, SLEEPING % (meta, suspended, said, condition))).asleep is None


def test_who_is_asleep_until_we_resume_it() -> None:
    """The Job says that it was we who suspended it."""
    text = SLEEPING % (f", annotations: {{{PAUSED}}}", "true", NAMED, "Suspended")
    found = job(struct(api.Job, text)).asleep
    assert found is not None
    assert found.paused
