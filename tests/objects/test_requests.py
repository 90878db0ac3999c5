"""What a pod takes, against examples whose sums can be made by hand."""

import pytest

from scheduler.model.resources import InvalidQuantity
from scheduler.objects.pod_demand import needs, thousandths
from tests.objects.reading import pod_with

GI = 2**30

CASES = {
    "nothing asked": ("containers: [{name: a}]", {}),
    "containers add up": (
        """
        containers:
          - resources: {requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: 1}}
          - resources: {requests: {cpu: "1.5", memory: 1Gi}}
        """,
        {"cpu": 2000, "memory": 2 * GI, "nvidia.com/gpu": 1},
    ),
    "init containers take turns, so the largest counts": (
        """
        containers: [{resources: {requests: {cpu: 1, memory: 4Gi}}}]
        initContainers:
          - resources: {requests: {cpu: 2, memory: 1Gi}}
          - resources: {requests: {cpu: 3, memory: 2Gi}}
        """,
        {"cpu": 3000, "memory": 4 * GI},
    ),
    "a sidecar adds to the containers": (
        """
        containers: [{resources: {requests: {cpu: 1}}}]
        initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2}}}]
        """,
        {"cpu": 3000},
    ),
    "a sidecar adds to the init containers after it": (
        """
        containers: [{resources: {requests: {cpu: 1}}}]
        initContainers:
          - {restartPolicy: Always, resources: {requests: {cpu: 2}}}
          - {resources: {requests: {cpu: 5}}}
        """,
        {"cpu": 7000},
    ),
    "a sidecar does not add to the init containers before it": (
        """
        containers: [{resources: {requests: {cpu: 1}}}]
        initContainers:
          - {resources: {requests: {cpu: 5}}}
          - {restartPolicy: Always, resources: {requests: {cpu: 2}}}
        """,
        {"cpu": 5000},
    ),
    "sidecars add up among themselves": (
        """
        containers: [{resources: {requests: {cpu: 1}}}]
        initContainers:
          - {restartPolicy: Always, resources: {requests: {cpu: 2}}}
          - {resources: {requests: {cpu: 1}}}
          - {restartPolicy: Always, resources: {requests: {cpu: 3}}}
          - {resources: {requests: {cpu: 4}}}
        """,
        {"cpu": 9000},
    ),
    "each resource has its own maximum": (
        """
        containers: [{resources: {requests: {cpu: 1, memory: 8Gi}}}]
        initContainers: [{resources: {requests: {cpu: 4, memory: 1Gi}}}]
        """,
        {"cpu": 4000, "memory": 8 * GI},
    ),
    "overhead comes on top": (
        """
        overhead: {cpu: 250m, memory: 128Mi}
        containers: [{resources: {requests: {cpu: 1, memory: 1Gi}}}]
        """,
        {"cpu": 1250, "memory": GI + 128 * 2**20},
    ),
    "pod-level requests stand in place of the sum, overhead still on top": (
        """
        overhead: {cpu: 1}
        resources: {requests: {cpu: 4, memory: 2Gi}}
        containers: [{resources: {requests: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 2}}}]
        """,
        {"cpu": 5000, "memory": 2 * GI, "nvidia.com/gpu": 2},
    ),
    "pod-level requests may be below the sum of init containers": (
        """
        resources: {requests: {cpu: 2}}
        containers: [{resources: {requests: {cpu: 1}}}]
        initContainers: [{resources: {requests: {cpu: 3}}}]
        """,
        {"cpu": 2000},
    ),
    "a pod-level limit stands in where no container asks": (
        "{resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{resources: {requests: {cpu: 500m}}}]}",
        {"cpu": 500, "memory": GI},
    ),
    "a pod-level limit of huge pages is a request": (
        """
        resources: {limits: {hugepages-2Mi: 8Mi, cpu: 1}}
        containers: [{resources: {requests: {hugepages-2Mi: 4Mi}, limits: {hugepages-2Mi: 4Mi}}}]
        """,
        {"cpu": 1000, "hugepages-2Mi": 8 * 2**20},
    ),
    "extended resources have no pod level": (
        "{resources: {requests: {nvidia.com/gpu: 8, cpu: 1}}, containers: [{name: a}]}",
        {"cpu": 1000},
    ),
    "a limit stands for the request it lacks": (
        "containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 4, nvidia.com/gpu: 4}}}]",
        {"cpu": 1000, "nvidia.com/gpu": 4},
    ),
    "what kube-scheduler does not count is left out": (
        "containers: [{resources: {requests: {storage: 5Gi, ephemeral-storage: 1Gi, pods: 7}}}]",
        {"ephemeral-storage": GI},
    ),
    "fractions of a byte are rounded up once, for the sum": (
        "containers: [{resources: {requests: {memory: 500m}}}, {resources: {requests: {memory: 400m}}}]",
        {"memory": 1},
    ),
    "cpu is counted in thousandths, rounded up": (
        "containers: [{resources: {requests: {cpu: 100u}}}, {resources: {requests: {cpu: 1500u}}}]",
        {"cpu": 3},
    ),
}


@pytest.mark.parametrize(("spec", "amounts"), CASES.values(), ids=CASES.keys())
def test_what_a_waiting_pod_takes(spec: str, amounts: dict[str, int]) -> None:
    """The sum is kube-scheduler's, and the pod itself is one of `pods`."""
    assert dict(needs(pod_with(spec))) == {"pods": 1, **amounts}


RUNNING = "{nodeName: n1, containers: [{name: a, resources: {requests: {cpu: %s}}}]}"
GIVEN = "containerStatuses: [{name: a, allocatedResources: {cpu: %s}, resources: {requests: {cpu: %s}}}]"
INFEASIBLE = "\nconditions: [{type: PodResizePending, reason: Infeasible}]"

RESIZES = {
    "nothing was resized": (RUNNING % 2, GIVEN % (2, 2), 2000),
    "growing: what is asked counts before it is given": (RUNNING % 4, GIVEN % (2, 2), 4000),
    "shrinking: what is allocated counts until it is given back": (RUNNING % 1, GIVEN % (3, 2), 3000),
    "shrinking: what is in force counts until it is taken": (RUNNING % 1, GIVEN % (1, 3), 3000),
    "what can never be granted does not count": (RUNNING % 9, GIVEN % (2, 2) + INFEASIBLE, 2000),
    "what can never be granted and was never given takes nothing": (
        RUNNING % 9,
        "phase: Running" + INFEASIBLE,
        None,
    ),
    "a deferred wish counts": (
        RUNNING % 9,
        GIVEN % (2, 2) + "\nconditions: [{type: PodResizePending, reason: Deferred}]",
        9000,
    ),
    "a pod without a node has nothing but its wish": (
        "containers: [{name: a, resources: {requests: {cpu: 1}}}]",
        GIVEN % (3, 3),
        1000,
    ),
    "an older kubelet reports allocated amounts alone": (
        RUNNING % 1,
        "containerStatuses: [{name: a, allocatedResources: {cpu: 2}}]",
        2000,
    ),
    "a resized sidecar counts as well": (
        """
        nodeName: n1
        containers: [{name: a, resources: {requests: {cpu: 1}}}]
        initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}]
        """,
        "initContainerStatuses: [{name: s, allocatedResources: {cpu: 3}}]",
        4000,
    ),
    "pod-level amounts of the status count for the whole pod": (
        "{nodeName: n1, resources: {requests: {cpu: 1}}, containers: [{name: a}]}",
        "{allocatedResources: {cpu: 3}, resources: {requests: {cpu: 2}}}",
        3000,
    ),
    "pod-level: what can never be granted does not count": (
        "{nodeName: n1, resources: {requests: {cpu: 9}}, containers: [{name: a}]}",
        (
            "{allocatedResources: {cpu: 3}, resources: {requests: {cpu: 2}}"
            ", conditions: [{type: PodResizePending, reason: Infeasible}]}"
        ),
        3000,
    ),
}


@pytest.mark.parametrize(("spec", "status", "cpu"), RESIZES.values(), ids=RESIZES.keys())
def test_what_a_resized_pod_takes(spec: str, status: str, cpu: int | None) -> None:
    """Of asked, allocated and in force, the most counts for a pod that has its node."""
    assert dict(needs(pod_with(spec, status))).get("cpu") == cpu


@pytest.mark.parametrize("text", ["1e3m", "", "-1", "two", "NaN", "1 Gi", "9" * 70, "0x10", "1e999"])
def test_a_wrong_quantity_is_refused(text: str) -> None:
    """What is no quantity, or none that a pod could have, raises the one error for it."""
    spec = f"containers: [{{resources: {{requests: {{cpu: '{text}'}}}}}}]"
    with pytest.raises(InvalidQuantity):
        needs(pod_with(spec))


def test_numbers_are_read_like_text() -> None:
    """A manifest may say 2 or 0.5 where the API server says "2" or "500m"."""
    assert [thousandths(2), thousandths(0.5), thousandths("2"), thousandths("500m")] == [2000, 500, 2000, 500]
