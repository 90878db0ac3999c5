"""ElasticJobs on the command line: their logs, a look ahead, and the master's own command."""

import asyncio

import pytest

from scheduler.elastic.job.status import Barred, Member, Phase, Status
from scheduler.elastic.job.status_json import encode_status
from tests.cli.support.speaking import DISCOVERY, say
from tests.elastic.controller.support.house import TEMPLATE
from tests.kube.support.api_server import Refuse

JOBS = "/apis/gangwright.io/v1alpha1/namespaces/team/elasticjobs"


def elastic(**spec):
    return {
        "apiVersion": "gangwright.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "train"},
        "spec": {"minWorkers": 2, "maxWorkers": 4, "template": TEMPLATE, **spec},
    }


async def test_would_its_quorum_start(cluster, write):
    """The pods are those that the master would make: a gang of the job's own name, as large as its quorum."""
    said = await cluster.say_offline("simulate", "-n", "team", "-f", write(elastic()), "-o", "json")

    (own,) = said.json
    assert (said.code, own["answer"]) == (0, "starts now")
    assert set(own["seats"]) == {"train-0", "train-1"}


async def test_a_job_that_is_wrong(cluster, write):
    """It is told before anything is applied, with field, value and remedy."""
    said = await cluster.say("submit", "-n", "team", "-f", write(elastic(maxWorkers=1)))

    assert said.code == 2
    assert "spec.maxWorkers" in said.err
    assert "must be at least minWorkers (2)" in said.err.replace("\n", " ")
    assert cluster.patches == []


async def test_it_is_submitted(cluster, write, monkeypatch):
    """A good one is applied."""
    monkeypatch.setitem(DISCOVERY, "/apis/gangwright.io/v1alpha1", [("ElasticJob", "elasticjobs")])

    said = await cluster.say("submit", "-n", "team", "-f", write(elastic()))

    assert (said.code, said.out) == (0, "elasticjob/train applied\n")
    assert [path for path, *_ in cluster.patches] == [f"{JOBS}/train"]


CAUSE = "failed: OOMKilled: container worker exceeded its memory limit of 4Gi"
TOLD = Status(
    phase=Phase.RUNNING,
    reason="2 wanted by offer: that is all there is",
    members=(Member(name="train-0", uid="u0"), Member(name="train-1", uid="u1", reason=CAUSE)),
    barred=(Barred("r0-n0", 3, 4102444800.0, CAUSE), Barred("r0-n1", 1, 1.0, "hangs")),
)


async def test_an_elastic_gang_is_explained_by_its_job_too(cluster):
    """What became of its workers, on which nodes, and why: as the elastic master has written it."""
    cluster.gang("train", 2, node="r0-n0", owner="ElasticJob/train")
    cluster.put("train", JOBS, "team", spec=elastic()["spec"], status=encode_status(TOLD))

    said = await cluster.say_offline("explain", "team/train")

    assert said.code == 0
    assert "  elastic job: Running: 2 wanted by offer: that is all there is\n" in said.out
    assert f"  node r0-n0 failed 3×, excluded until 00:00:00Z: {CAUSE}\n" in said.out
    assert "  node r0-n1 failed 1×: hangs\n" in said.out
    (lost,) = (row for row in said.out.splitlines() if row.startswith("train-1 "))
    assert lost.endswith(CAUSE)


async def test_an_elastic_job_without_pods_is_explained(cluster):
    """It is over, and its pods are gone: why stands in its status."""
    over = Status(phase=Phase.FAILED, reason=f"Worker processes failed 7 times in a row: train-3 {CAUSE}")
    cluster.put("train", JOBS, "team", spec=elastic()["spec"], status=encode_status(over))

    said = await cluster.say_offline("explain", "team/train")

    assert said.code == 1
    assert f"elastic job: Failed: {over.reason}" in " ".join(said.err.split())


@pytest.mark.parametrize("status", [None, {}, {"phase": "Strange"}, {"barred": 3}, "text"])
@pytest.mark.parametrize("forbidden", [False, True])
async def test_a_gang_is_explained_without_the_word_of_an_elastic_job(cluster, status, forbidden):
    """Whatever stands there, and whether the caller may read it or not."""
    cluster.gang("train", 2)
    cluster.put("train", JOBS, "team", spec=elastic()["spec"], status=status)
    if forbidden:
        cluster.barred[JOBS] = cluster.barred[f"{JOBS}/train"] = Refuse(403)

    said = await cluster.say_offline("explain", "team/train")

    assert (said.code, "elastic job" in said.out) == (0, False)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_logs_go_on_until_the_job_is_over(cluster, monkeypatch, phase):
    """Workers come and go; the command ends with the job, not with those that there are at the moment."""
    monkeypatch.setattr("scheduler.cli.logs.EVERY", 0.02)
    cluster.put("train", JOBS, "team", status={"phase": "Running"})
    cluster.gang("train", 1)
    cluster.pod("train-0", gang="train", node="r0-n0")
    cluster.objects["/api/v1/namespaces/team/pods"]["team", "train-0"]["status"]["phase"] = "Succeeded"
    cluster.logs["train-0"] = [b"first\n"]
    cluster.later["train-0"].put_nowait(None)
    saying = asyncio.create_task(cluster.say("logs", "team/train", "-f"))
    async with asyncio.timeout(20):
        while not cluster.asked:
            await asyncio.sleep(0.01)
    assert not saying.done()

    cluster.logs["train-1"] = [b"second\n"]
    cluster.pod("train-1", gang="train", node="r0-n1")
    async with asyncio.timeout(20):
        while len(cluster.asked) < 2:
            await asyncio.sleep(0.01)
    cluster.put("train", JOBS, "team", status={"phase": phase})
    await cluster.ends("train-1")

    said = await saying
    assert (said.code, sorted(said.out.split())) == (0, ["first", "second", "train-0", "train-1"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "rendezvous.port"], "must be NAME=VALUE"),
        (["--set", "elastic.sizingEvery=often"], "must be a duration"),
        (["--set", "workers.confine=some"], "must be one of none, ingress, both"),
        (["--set", "workers.address=http://plain:1"], "must be an https URL, for example https://"),
        (["--set", "api.kubeconfig=/nowhere"], "file not found"),
    ],
)
def test_the_master_does_not_start_with_wrong_settings(words, told):
    """One line says which setting, its value and what would be right; exit code 2."""
    said = say("elastic", *words)

    assert said.code == 2
    assert told in said.err.replace("\n", " ")
