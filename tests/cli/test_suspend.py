"""`gangwright suspend` and `resume`: the gang's Job, JobSet or ElasticJob, found by what its pods would say."""

import pytest

from tests.cli.support.manifests import a_job
from tests.cli.support.speaking import JOB_SETS, JOBS
from tests.kube.support.api_server import Refuse


def put(cluster, job, *, path=JOBS, **meta):
    made = cluster.put(job["metadata"]["name"], path, "team", spec=dict(job["spec"]))
    made["metadata"] |= meta
    return made


@pytest.mark.parametrize(("command", "value"), [("suspend", True), ("resume", False)])
async def test_the_gangs_job(cluster, command, value):
    """The Job whose pods are the gang's gets `spec.suspend` with a person's word that it stays so, and no other."""
    put(cluster, a_job(name="mine", suspend=not value))
    put(cluster, a_job(name="other", gang="another"))

    said = await cluster.say(command, "team/train")

    assert (said.code, said.out) == (0, f"job/mine {command}{'ed' if value else 'd'}\n")
    ((path, _, kind, sent),) = cluster.patches
    assert (path, kind) == (f"{JOBS}/mine", "application/merge-patch+json")
    word = {"gangwright.io/stay-suspended": "true" if value else None}
    assert sent == {"metadata": {"annotations": word}, "spec": {"suspend": value}}


async def test_a_job_that_gangwright_suspended_stays_so(cluster):
    """It would be resumed: a person's word that it is not is written on it, once."""
    job = put(cluster, a_job(suspend=True), annotations={"gangwright.io/paused": "2026-01-01T00:00:00+00:00"})

    first = await cluster.say("suspend", "team/train")
    job["metadata"]["annotations"]["gangwright.io/stay-suspended"] = "true"
    second = await cluster.say("suspend", "team/train")

    assert (
        first.out
        == "job/train suspended (was already suspended by Gangwright; won't be resumed automatically)\n"
    )
    assert second.out == "job/train already suspended\n"
    ((_, _, _, sent),) = cluster.patches
    assert sent["metadata"] == {"annotations": {"gangwright.io/stay-suspended": "true"}}


async def test_what_is_done_is_not_done_again(cluster):
    """A Job that is suspended already is left alone, and that is said."""
    put(cluster, a_job(suspend=True))

    said = await cluster.say("suspend", "team/train")

    assert (said.code, said.out) == (0, "job/train already suspended\n")
    assert cluster.patches == []


async def test_a_job_set_and_not_its_jobs(cluster):
    """Jobs of a JobSet are its own business: the JobSet is suspended."""
    template = a_job()["spec"]
    whole = {
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": template}}]},
    }
    put(cluster, whole, path=JOB_SETS)
    put(
        cluster,
        a_job(name="set-w-0"),
        ownerReferences=[{"kind": "JobSet", "controller": True, "name": "set"}],
    )

    said = await cluster.say("suspend", "train", "-n", "team")

    assert said.out == "jobset/set suspended\n"
    assert [path for path, *_ in cluster.patches] == [f"{JOB_SETS}/set"]


async def test_a_job_without_a_gang_goes_by_its_name(cluster):
    """Where nobody's pods name the gang, the Job of that name is meant."""
    put(cluster, a_job(name="plain", gang=""))

    assert (await cluster.say("suspend", "team/plain")).out == "job/plain suspended\n"


async def test_nothing_to_suspend(cluster):
    """A gang of bare pods cannot be suspended: exit code 1."""
    cluster.gang("bare", 2)

    said = await cluster.say("suspend", "team/bare")

    assert (said.code, cluster.patches) == (1, [])
    assert "no Job, JobSet or ElasticJob" in said.err


async def test_without_the_right(cluster):
    """The caller's own rights count: a refusal is told, exit code 2."""
    cluster.refusals.extend(Refuse(403) for _ in range(3))

    said = await cluster.say("suspend", "team/train")

    assert (said.code, "403" in said.err) == (2, True)


async def test_an_elastic_job(cluster):
    """Its workers are a gang of its own name, so that names it; nothing else is needed."""
    path = "/apis/gangwright.io/v1alpha1/namespaces/team/elasticjobs"
    cluster.put("train", path, "team", spec={"minWorkers": 2})
    cluster.put("other", path, "team", spec={"minWorkers": 2})

    said = await cluster.say("suspend", "team/train")

    assert (said.code, said.out) == (0, "elasticjob/train suspended\n")
    ((place, _, _, sent),) = cluster.patches
    assert (place, sent) == (f"{path}/train", {"spec": {"suspend": True}})


async def test_kinds_that_may_not_be_listed(cluster):
    """Whoever may change Jobs suspends one, though he may not list JobSets: the API server says so also of a kind that
    it does not have. Who is not found without them is told of the right that is missing.
    """
    put(cluster, a_job(name="mine"))
    cluster.barred[JOB_SETS] = Refuse(403)

    done = await cluster.say("suspend", "team/train")
    none = await cluster.say("suspend", "team/another")

    assert (done.code, done.out) == (0, "job/mine suspended\n")
    assert (none.code, JOB_SETS in none.err) == (2, True)


@pytest.mark.parametrize("command", ["suspend", "resume"])
async def test_what_cannot_be_done_is_named_as_asked(cluster, command):
    """Who asks to resume is not told of suspending."""
    said = await cluster.say(command, "team/bare")

    assert (said.code, f"can't be {command}{'ed' if command == 'suspend' else 'd'}" in said.err) == (1, True)
