"""What of a submission the status service is sent."""

import pytest

from scheduler.cli.cluster_document import Reading
from scheduler.cli.submission import wish
from scheduler.cli.training_runtimes import FOUND
from scheduler.cli.trial_requests import trials
from scheduler.model.policy import Policy
from scheduler.model.workload import GangKey
from tests.cli.support.manifests import OURS, a_job
from tests.cli.support.operators import a_leader_worker_set, a_runtime, a_train_job


def asked(*things):
    wanted = wish(things, "team", Reading(Policy(), 0.0), None, 0.0)
    return trials(wanted, wanted.made)


GROUPS = {
    "a group of volcano's": (a_leader_worker_set(size=3), "serve-0", [1, 2]),
    "a group of scheduler-plugins'": (
        {**a_train_job(numNodes=3), FOUND: a_runtime(podGroupPolicy={"coscheduling": {}})},
        "tune",
        [3],
    ),
}


@pytest.mark.parametrize("case", GROUPS)
def test_what_a_group_states_is_said_of_the_pods(case):
    """The service is sent pods alone, so each says in our words how many its gang needs."""
    thing, gang, counts = GROUPS[case]

    (request,) = (own for key, own in asked(thing).items() if key == GangKey("team", gang))

    assert [own.count for own in request.pods] == counts
    for own in request.pods:
        assert own.pod["metadata"]["labels"][OURS + "gang"] == gang
        assert own.pod["metadata"]["annotations"][OURS + "min-members"] == "3"


def test_pods_that_state_it_themselves_are_sent_as_they_are():
    """Nothing is added to what a template says."""
    (request,) = asked(a_job()).values()

    meta = request.pods[0].pod["metadata"]
    assert (meta["labels"], meta["annotations"]) == ({OURS + "gang": "train"}, {OURS + "min-members": "2"})
