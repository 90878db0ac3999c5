"""What the API server spends its time on, as read from its profile."""

from bench.load.causes import CAUSES, shares

TOP = """\
File: kube-apiserver
Showing nodes accounting for 3.13s, 100% of 3.13s total
      flat  flat%   sum%        cum   cum%
         0     0%     0%      1.29s 41.21%  k8s.io/apiserver/pkg/endpoints/handlers.(*patcher).patchResource.func2
     0.01s  0.32%  0.32%      0.34s 10.86%  runtime.gcBgMarkWorker
         0     0%  0.32%      0.34s 10.86%  runtime.gcBgMarkWorker.func2
         0     0%  2.24%      0.30s  9.58%  runtime.gcDrainMarkWorkerFractional (inline)
"""


def test_a_cause_has_the_time_of_its_function_and_all_that_it_calls():
    """The cumulative percentage counts, and a cause whose function is not in the profile took nothing."""
    found = shares(TOP)
    assert found["patch"] == 41.21
    assert found["garbage collection"] == 10.86
    assert found["binding"] == 0.0
    assert list(found) == list(CAUSES)
