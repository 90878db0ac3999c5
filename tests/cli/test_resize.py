"""`gangwright resize`: the size of an ElasticJob, written with the caller's own rights."""

import pytest

JOBS = "/apis/gangwright.io/v1alpha1/namespaces/team/elasticjobs"


@pytest.fixture
def job(cluster):
    """Two to six workers are allowed, four train."""
    spec = {"minWorkers": 2, "maxWorkers": 6, "sizing": {"policy": "efficiency"}}
    return cluster.put("train", JOBS, "team", spec=spec, status={"workers": 4})


async def test_a_size(cluster, job):
    """The number is what `kubectl scale` would write."""
    said = await cluster.say("resize", "team/train", "5")

    assert (said.code, said.out) == (0, "elasticjob/train resizes to 5 workers; 4 now\n")
    ((path, query, kind, sent),) = cluster.patches
    assert (path, kind, sent) == (f"{JOBS}/train", "application/merge-patch+json", {"spec": {"workers": 5}})
    assert query == {"fieldManager": "gangwright-resize"}


@pytest.mark.parametrize(("asked", "goal"), [("9", 6), ("1", 2), ("0", 2)])
async def test_a_size_out_of_bounds(cluster, job, asked, goal):
    """The job keeps to its bounds, and the answer says so."""
    said = await cluster.say("resize", "train", asked, "-n", "team")

    assert (
        said.out
        == f"elasticjob/train resizes to {goal} workers (requested {asked}; 2 to 6 are allowed); 4 now\n"
    )


async def test_auto(cluster, job):
    """Without a number the policy decides again."""
    said = await cluster.say("resize", "team/train", "auto")

    assert said.out == "elasticjob/train is sized by its policy efficiency; 4 workers now\n"
    ((_, _, _, sent),) = cluster.patches
    assert sent == {"spec": {"workers": None}}


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        ({}, "offer"),
        ({"schedule": [{"epoch": 0, "workers": 2}]}, "schedule"),
        ({"schedule": [{"epoch": 0, "batch": 32}]}, "offer"),
        ({"schedule": [{"epoch": 0, "workers": 2}], "sizing": {"policy": "offer"}}, "offer"),
    ],
)
async def test_auto_where_no_policy_is_named(cluster, said, policy):
    """The answer names the one by which the elastic master goes: `schedule` where the schedule has sizes."""
    cluster.put("train", JOBS, "team", spec={"minWorkers": 2, "maxWorkers": 6, **said}, status={"workers": 4})

    told = await cluster.say("resize", "team/train", "auto")

    assert told.out == f"elasticjob/train is sized by its policy {policy}; 4 workers now\n"


@pytest.mark.parametrize("asked", ["many", "-1", "2.5", "10001", ""])
async def test_no_number(cluster, job, asked):
    """What is none is refused before anything is asked, with what would be right."""
    said = await cluster.say("resize", "team/train", "--", asked)

    assert said.code == 2
    assert "must be a whole number up to 10000, or auto" in said.err.replace("\n", " ")
    assert cluster.patches == []


async def test_no_job(cluster):
    """Nothing of that name: exit code 1."""
    from tests.kube.support.api_server import Refuse

    cluster.refusals.append(Refuse(404))
    said = await cluster.say("resize", "team/none", "3")

    assert (said.code, said.err) == (1, "ElasticJob none not found in namespace team\n")
