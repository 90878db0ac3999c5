"""The trust policies on the real API server: only we plan, and we only plan."""

import itertools
import json
from contextlib import suppress

import pytest

from bench.plane import ApiError, where
from scheduler.model.decision import Reason
from scheduler.model.effects import ResumeJob, SuspendJob
from scheduler.model.workload import GangKey, Owner, PodKey, Uid
from scheduler.objects import patches
from tests.manifests import TEAM

pytestmark = pytest.mark.plane

PLAN, SEAT, OUR_GATE, OTHER_GATE = (
    "gangwright.io/plan",
    "gangwright.io/seat",
    "gangwright.io/planned",
    "example.com/quota",
)
PODS = where("pods", TEAM)
_number = itertools.count()


def term(node, **rest):
    return {**rest, "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def affinity(*terms):
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }


def a_pod(annotations=None, **spec):
    return {
        "metadata": {
            "name": f"trust-{next(_number)}",
            "labels": {"app": "training"},
            "annotations": {"example.com/mine": "1"} | (annotations or {}),
        },
        "spec": {
            "schedulerName": "gangwright",
            "schedulingGates": [{"name": OTHER_GATE}],
            "containers": [{"name": "main", "image": "busybox"}],
        }
        | spec,
    }


def seating(pod, node="n1", terms=None):
    """The PATCH that seats a pod: our gate goes, the pin and the seat come, for exactly this pod."""
    return {
        "metadata": {
            "uid": pod["metadata"]["uid"],
            "annotations": {SEAT: f'{{"node":"{node}","plan":"p1"}}'},
        },
        "spec": {
            "schedulingGates": [{"$patch": "delete", "name": OUR_GATE}],
            "affinity": affinity(*(terms or [term(node)])),
        },
    }


async def made(client, **words):
    return await client.create(PODS, a_pod(**words))


def at(pod, part=None):
    return where("pods", TEAM, pod["metadata"]["name"], part)


async def refusal(call):
    """What the policy says when it refuses the call; fails when it does not."""
    with pytest.raises(ApiError) as refused:
        await call
    assert refused.value.status == 403, str(refused.value)
    said = str(refused.value)
    assert "ValidatingAdmissionPolicy 'gangwright-" in said
    assert "resulted in error" not in said, "the policy judged nothing: it broke"
    return said


# --- only we plan ---


@pytest.mark.parametrize("key", [PLAN, SEAT])
async def test_nobody_comes_with_a_plan(alice, admin, key):
    """A pod that brings a plan or a seat of its own is refused, even to an administrator, with the annotation named."""
    for somebody in (alice, admin):
        said = await refusal(made(somebody, annotations={key: "forged"}))
        assert f"{key} is written by Gangwright alone" in said
        assert "do not set it on new objects" in said


@pytest.mark.parametrize("key", [PLAN, SEAT])
@pytest.mark.parametrize(
    "change", [{}, {"value": "another"}, {"value": None}], ids=["keep", "change", "remove"]
)
async def test_nobody_touches_a_plan(alice, ours, key, change):
    """Somebody else's update may keep our annotations, but neither change nor remove them."""
    pod = await made(alice)
    await ours.patch(at(pod), {"metadata": {"annotations": {key: "ours"}}})
    update = {
        "metadata": {"annotations": {"example.com/mine": "2"} | ({key: change["value"]} if change else {})}
    }

    if change:
        await refusal(alice.patch(at(pod), update))
    else:
        kept = await alice.patch(at(pod), update)
        assert kept["metadata"]["annotations"] == {"example.com/mine": "2", key: "ours"}


async def test_nobody_adds_a_plan_later(alice):
    """A pod without a seat does not get one by its owner's update."""
    pod = await made(alice)

    await refusal(alice.patch(at(pod), {"metadata": {"annotations": {SEAT: "forged"}}}))


async def test_nobody_adds_a_plan_through_the_status(admin):
    """Metadata that travels with a status is judged like any other."""
    pod = await made(admin)

    await refusal(admin.patch(at(pod, "status"), {"metadata": {"annotations": {SEAT: "forged"}}}))


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
async def test_other_parts_of_a_pod_carry_no_seat(admin, part):
    """These subresources keep the pod's metadata as it is, whatever is sent."""
    pod = await made(admin)
    kept = await admin.patch(at(pod, part), {"metadata": {"annotations": {SEAT: "forged", PLAN: "forged"}}})

    assert kept["metadata"]["annotations"] == pod["metadata"]["annotations"]


@pytest.mark.parametrize("through", ["pods/binding", "bindings"])
async def test_nobody_adds_a_plan_through_a_binding(admin, through):
    """The annotations of a Binding would be copied onto the pod: they are judged on both roads that a Binding has."""
    pod = await made(admin, schedulerName="default-scheduler", schedulingGates=[])
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["metadata"]["name"], "annotations": {SEAT: "forged"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    road = at(pod, "binding") if through == "pods/binding" else where("bindings", TEAM)

    await refusal(admin.create(road, binding))


async def test_a_tenant_who_may_edit(tenant, admin):
    """A user who may edit a namespace forges nothing: by no kind of update, by no subresource, and on no Job."""
    pod = await tenant.create(PODS, a_pod())
    job = await tenant.create(JOBS, a_job_of({}))
    forged = {"metadata": {"annotations": {SEAT: "forged", PLAN: "forged"}}}
    had = {"metadata": {"annotations": {"gangwright.io/attained": "0"}}}
    whole = await admin.get(at(pod))
    whole["metadata"]["annotations"] |= {SEAT: "forged"}

    await refusal(tenant.replace(at(pod), whole))
    for how in ("strategic", "merge"):
        await refusal(tenant.patch(at(pod), forged, how=how))
    await refusal(tenant.patch(job_at(job), had, how="merge"))
    await refusal(tenant.create(JOBS, a_job_of({"gangwright.io/attained": "0"})))
    for part in ("ephemeralcontainers", "resize", "status", "binding"):
        with suppress(ApiError):  # its role has not all of them
            await tenant.patch(at(pod, part), forged)

    for one, path in ((pod, at(pod)), (job, job_at(job))):
        seen = (await admin.get(path))["metadata"]["annotations"]
        assert seen == one["metadata"]["annotations"]


async def test_status_and_binding_of_others_pass(admin):
    """What kubelets and schedulers do all day passes: a status, and a binding of a pod that has a seat."""
    pod = await made(admin, schedulingGates=[])
    await admin.patch(at(pod), {"spec": {"schedulingGates": [{"$patch": "delete", "name": OUR_GATE}]}})
    await admin.create(
        at(pod, "binding"), {"metadata": {"name": pod["metadata"]["name"]}, "target": {"name": "n1"}}
    )
    running = await admin.patch(at(pod, "status"), {"status": {"phase": "Running"}})

    assert running["status"]["phase"] == "Running"
    assert running["spec"]["nodeName"] == "n1"


async def test_our_other_words_are_the_users(alice):
    """How a gang wants to be treated is its owner's to write, at any time."""
    pod = await made(alice, annotations={"gangwright.io/min-members": "2"})
    changed = await alice.patch(at(pod), {"metadata": {"annotations": {"gangwright.io/timeout": "5m"}}})

    assert changed["metadata"]["annotations"]["gangwright.io/timeout"] == "5m"


async def test_a_user_may_ungate(alice):
    """A user may take our gate off his own pod: that is how pods are freed when Gangwright is removed."""
    pod = await made(alice)
    freed = await alice.patch(
        at(pod), {"spec": {"schedulingGates": [{"$patch": "delete", "name": OUR_GATE}]}}
    )

    assert [gate["name"] for gate in freed["spec"]["schedulingGates"]] == [OTHER_GATE]


# --- we only plan ---


async def test_seating(alice, ours):
    """The one PATCH of ours: our gate goes and no other, the pin and the seat come; saying it again is harmless."""
    pod = await made(alice)
    for _ in range(2):
        seated = await ours.patch(at(pod), seating(pod), fieldManager="gangwright")

    assert [gate["name"] for gate in seated["spec"]["schedulingGates"]] == [OTHER_GATE]
    assert seated["spec"]["affinity"] == affinity(term("n1"))
    assert seated["metadata"]["annotations"][SEAT] == '{"node":"n1","plan":"p1"}'


async def test_seating_with_alternates(alice, ours):
    """A pin of a pod without terms of its own may name several nodes, a term each."""
    pod = await made(alice)
    seated = await ours.patch(at(pod), seating(pod, terms=[term("n1"), term("n2")]))

    assert seated["spec"]["affinity"] == affinity(term("n1"), term("n2"))


async def test_seating_narrows_each_term(alice, ours):
    """A pod with terms of its own keeps all they say, and each of them gains the node."""
    fast = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    large = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": fast}]}
    wish = affinity(fast, large)
    wish["nodeAffinity"] |= preferred
    wish["podAntiAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}
        ]
    }
    pod = await made(alice, affinity=wish)
    pinned = [
        term("n1", **fast),
        {"matchFields": [*large["matchFields"], *term("n1")["matchFields"]]},
    ]
    seated = await ours.patch(at(pod), seating(pod, terms=pinned))

    assert seated["spec"]["affinity"]["nodeAffinity"] == affinity(*pinned)["nodeAffinity"] | preferred
    assert seated["spec"]["affinity"]["podAntiAffinity"] == pod["spec"]["affinity"]["podAntiAffinity"]


async def test_seating_without_a_pin(alice, ours):
    """The soft form: our gate goes and the seat comes, and the pod is pinned to nothing."""
    pod = await made(alice)
    patch = seating(pod)
    del patch["spec"]["affinity"]
    seated = await ours.patch(at(pod), patch)

    assert "affinity" not in seated["spec"]
    assert OUR_GATE not in {gate["name"] for gate in seated["spec"]["schedulingGates"]}


async def test_plan_comes_and_goes(alice, ours):
    """We may write a plan on a pod and take it away again."""
    pod = await made(alice)
    await ours.patch(at(pod), {"metadata": {"annotations": {PLAN: "{}"}}})
    bare = await ours.patch(at(pod), {"metadata": {"annotations": {PLAN: None}}})

    assert bare["metadata"]["annotations"] == {"example.com/mine": "1"}


async def test_nominating(alice, ours):
    """We may nominate a node for a gated pod and set our condition, both in its status."""
    pod = await made(alice)
    seated = {"type": "gangwright.io/Seated", "status": "True", "reason": "Seated"}
    nominated = await ours.patch(
        at(pod, "status"), {"status": {"nominatedNodeName": "n1", "conditions": [seated]}}
    )

    assert nominated["status"]["nominatedNodeName"] == "n1"


NOT_OURS = {
    "label": {"metadata": {"labels": {"app": "mine"}}},
    "label gone": {"metadata": {"labels": {"app": None}}},
    "finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
    "owner": {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1-2-3"}]}
    },
    "foreign annotation": {"metadata": {"annotations": {"example.com/mine": "2"}}},
    "foreign annotation gone": {"metadata": {"annotations": {"example.com/mine": None}}},
    "new foreign annotation": {"metadata": {"annotations": {"gangwright.iox/seat": "1"}}},
    "foreign gate": {"spec": {"schedulingGates": [{"$patch": "delete", "name": OTHER_GATE}]}},
    "all gates": {"spec": {"schedulingGates": None}},
    "image": {"spec": {"containers": [{"name": "main", "image": "evil"}]}},
    "deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "node selector": {"spec": {"nodeSelector": {"disk": "fast"}}},
    "label affinity": {
        "spec": {
            "affinity": affinity(
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
            )
        }
    },
    "label affinity beside the pin": {
        "spec": {
            "affinity": affinity(term("n1", matchExpressions=[{"key": "disk", "operator": "Exists"}])),
        }
    },
    "anything but one node": {
        "spec": {
            "affinity": affinity(
                {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}
            )
        }
    },
    "preferred affinity": {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
                        }
                    ]
                }
            }
        }
    },
}


LABELS, ANNOTATIONS, GATES, REST, AFFINITY, PIN = (
    "no labels, finalizers or owners",
    "annotations under gangwright.io/ only",
    "its own gate only",
    "no tolerations, deadlines or node selectors",
    "no affinity but the required one",
    "by metadata.name only",
)
SAID = {
    "label": LABELS,
    "label gone": LABELS,
    "finalizer": LABELS,
    "owner": LABELS,
    "foreign annotation": ANNOTATIONS,
    "foreign annotation gone": ANNOTATIONS,
    "new foreign annotation": ANNOTATIONS,
    "foreign gate": GATES,
    "all gates": GATES,
    "image": "changes no container",
    "deadline": REST,
    "node selector": REST,
    "label affinity": PIN,
    "label affinity beside the pin": PIN,
    "anything but one node": PIN,
    "preferred affinity": AFFINITY,
}


async def test_not_ours_to_write(alice, ours):
    """Whatever is no part of a plan is refused to us in words that fit, though our role lets us patch pods."""
    pod = await made(alice)
    said = {what: await refusal(ours.patch(at(pod), change)) for what, change in NOT_OURS.items()}

    assert [what for what in NOT_OURS if SAID[what] not in said[what]] == []
    assert await alice.get(at(pod)) == pod


async def test_tolerations_are_not_ours(alice, ours):
    """Nor do we make a pod tolerate what its owner did not, which the API server would allow."""
    pod = await made(alice)
    more = [*pod["spec"]["tolerations"], {"operator": "Exists"}]

    assert REST in await refusal(ours.patch(at(pod), {"spec": {"tolerations": more}}))
    assert await alice.patch(at(pod), {"spec": {"tolerations": more}})


async def test_pin_that_adds_more_to_a_term(alice, ours):
    """A term of the user's gains the node and nothing else beside it."""
    fast = [{"key": "disk", "operator": "In", "values": ["fast"]}]
    pod = await made(alice, affinity=affinity({"matchExpressions": fast}))
    more = [*fast, {"key": "zone", "operator": "Exists"}]

    await refusal(ours.patch(at(pod), seating(pod, terms=[term("n1", matchExpressions=more)])))
    await refusal(ours.patch(at(pod), seating(pod, terms=[{"matchExpressions": more}])))


async def test_metadata_beside_a_status(alice, ours):
    """A label does not get through with a status either."""
    pod = await made(alice)

    await refusal(ours.patch(at(pod, "status"), {"metadata": {"labels": {"app": "mine"}}}))


READY = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
CHECKED = READY | {"type": "example.com/Checked"}
REPORTED = {"podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}], "conditions": [READY, CHECKED]}
"""What a kubelet and others wrote before we come."""
FIELDS, CONDITIONS = "nothing of a pod's status but", "no conditions but"
CONTAINER = {"name": "main", "ready": True, "restartCount": 0, "image": "busybox", "imageID": "x"}
NOT_OURS_OF_A_STATUS = {
    "phase": ({"phase": "Failed"}, FIELDS),
    "address": ({"podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}, FIELDS),
    "address gone": ({"podIP": None, "podIPs": None}, FIELDS),
    "node's address": ({"hostIP": "10.9.9.9", "hostIPs": [{"ip": "10.9.9.9"}]}, FIELDS),
    "containers": ({"containerStatuses": [CONTAINER]}, FIELDS),
    "message": ({"message": "gone", "reason": "Evicted"}, FIELDS),
    "start": ({"startTime": "2026-01-01T00:00:00Z"}, FIELDS),
    "generation": ({"observedGeneration": 1}, FIELDS),
    "ready": ({"conditions": [READY | {"status": "True"}, CHECKED]}, CONDITIONS),
    "another's": ({"conditions": [READY, CHECKED, READY | {"type": "example.com/Other"}]}, CONDITIONS),
    "nearly ours": ({"conditions": [READY, CHECKED, READY | {"type": "gangwright.iox/Seated"}]}, CONDITIONS),
    "one gone": ({"conditions": [READY]}, CONDITIONS),
    "all gone": ({"conditions": None}, CONDITIONS),
}


async def test_not_ours_to_write_of_a_status(admin, ours):
    """What a kubelet or a controller reports of a pod is refused to us in words that fit: a stolen token neither ends
    a pod nor points a Service at another address.
    """
    pod = await made(admin)
    told = await admin.patch(at(pod, "status"), {"status": REPORTED})
    said = {
        what: await refusal(ours.patch(at(pod, "status"), {"status": change}, how="merge"))
        for what, (change, _) in NOT_OURS_OF_A_STATUS.items()
    }

    assert [what for what, (_, fits) in NOT_OURS_OF_A_STATUS.items() if fits not in said[what]] == []
    assert await admin.get(at(pod)) == told


async def test_ours_to_write_of_a_status(admin, ours):
    """What kube-scheduler and the extender write of a status is taken beside what others reported: the nomination, the
    claim for extended resources, and three kinds of conditions, in any order.
    """
    asks = {"name": "main", "image": "busybox", "resources": {"limits": {"example.com/gpu": "1"}}}
    pod = await made(admin, containers=[asks])
    told = (await admin.patch(at(pod, "status"), {"status": REPORTED}))["status"]["conditions"]
    mine = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "observedGeneration": 1},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        {"type": "gangwright.io/Seated", "status": "False", "reason": "InsufficientResources"},
    ]
    asked = {
        "containerName": "main",
        "resourceName": "example.com/gpu",
        "requestName": "container-0-request-0",
    }
    claim = {"resourceClaimName": "extended", "requestMappings": [asked]}
    written = {"nominatedNodeName": "n1", "extendedResourceClaimStatus": claim}
    await ours.patch(at(pod, "status"), {"status": {**written, "conditions": mine}})
    others = [own for own in reversed(told) if own["type"] != "PodScheduled"]
    kept = await ours.patch(at(pod, "status"), {"status": {"conditions": [*mine, *others]}}, how="merge")
    bare = await ours.patch(at(pod, "status"), {"status": {"nominatedNodeName": None}}, how="merge")

    assert [own["type"] for own in kept["status"]["conditions"]] == [own["type"] for own in (*mine, *others)]
    assert "nominatedNodeName" not in bare["status"]
    assert bare["status"]["podIP"] == "10.1.1.1"


# --- we only evict elsewhere ---


def eviction(pod):
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}


async def test_where_we_evict(admin, ours):
    """The Eviction API takes our word in namespaces of users, and refuses it in the cluster's own and in ours."""
    for namespace in ("kube-system", "kube-public", "gangwright-system"):
        path = where("pods", namespace, "anything", "eviction")
        said = await refusal(ours.create(path, eviction({"metadata": {"name": "anything"}})))
        assert "neither in kube-* namespaces nor in gangwright-system" in said

    pod = await made(admin)
    await ours.create(at(pod, "eviction"), eviction(pod))


async def test_others_evict_everywhere(admin):
    """The policy binds us alone: a person who drains a node by hand evicts pods of the cluster's own."""
    pod = await admin.create(where("pods", "kube-system"), a_pod())
    await admin.create(where("pods", "kube-system", pod["metadata"]["name"], "eviction"), eviction(pod))


async def test_others_write_their_pods(alice):
    """The policy binds us alone: a user changes labels and images of his pods as ever."""
    pod = await made(alice)
    changed = await alice.patch(
        at(pod),
        {
            "metadata": {"labels": {"app": "mine"}},
            "spec": {"containers": [{"name": "main", "image": "busybox:2"}]},
        },
    )

    assert changed["metadata"]["labels"] == {"app": "mine"}


# --- we only suspend ---

JOBS = where("jobs", TEAM)


def a_job_of(annotations, **spec):
    return {
        "metadata": {
            "name": f"trust-{next(_number)}",
            "labels": {"app": "training"},
            "annotations": {"example.com/mine": "1"} | annotations,
        },
        "spec": {
            "parallelism": 2,
            "template": {
                "spec": {
                    "schedulerName": "gangwright",
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox"}],
                }
            },
        }
        | spec,
    }


async def a_job(admin, annotations=None, **spec):
    return await admin.create(JOBS, a_job_of(annotations or {}, **spec))


def job_at(job):
    return where("jobs", TEAM, job["metadata"]["name"])


async def test_suspending_and_resuming(admin, ours):
    """A Job is suspended with the two annotations that tell of it, and resumed; its owner's words stay."""
    job = await a_job(admin)
    told = {"gangwright.io/paused": "2026-01-01T00:00:00+00:00", "gangwright.io/attained": "7"}
    suspend = {
        "metadata": {"uid": job["metadata"]["uid"], "annotations": told},
        "spec": {"suspend": True},
    }
    suspended = await ours.patch(job_at(job), suspend, how="merge", fieldManager="gangwright")
    resume = {"metadata": {"annotations": {"gangwright.io/paused": None}}, "spec": {"suspend": False}}
    resumed = await ours.patch(job_at(job), resume, how="merge", fieldManager="gangwright")

    assert suspended["spec"]["suspend"] is True
    assert resumed["spec"]["suspend"] is False
    assert resumed["metadata"]["annotations"] == {"example.com/mine": "1", "gangwright.io/attained": "7"}


async def test_a_person_was_there_first(admin, ours):
    """What was decided on a Job as it was is refused when its owner has suspended it since, and stays his
    suspension.
    """
    seen = (await a_job(admin))["metadata"]
    owner = Owner("Job", seen["name"], seen["uid"], "batch/v1")
    key = PodKey(TEAM, owner.name)
    mine = {"metadata": {"annotations": {STAYS: "true"}}, "spec": {"suspend": True}}
    told = await admin.patch(where("jobs", TEAM, owner.name), mine, how="merge")
    for effect in (
        SuspendJob(GangKey(TEAM, "g"), Uid("u"), key, owner, 7.0, seen["resourceVersion"]),
        ResumeJob(GangKey(TEAM, "g"), Uid("u"), key, owner, seen["resourceVersion"]),
    ):
        (call,) = patches.calls(effect, 0.0)
        with pytest.raises(ApiError) as refused:
            await ours.patch(call.path, json.loads(call.body), how="merge")
        assert refused.value.status == 409

    kept = await admin.get(where("jobs", TEAM, owner.name))
    assert kept["metadata"]["annotations"] == told["metadata"]["annotations"]
    assert kept["spec"]["suspend"] is True


async def test_a_job_that_is_ended(admin, ours):
    """A Job may be suspended with the reason why it stays so. That comes with the suspension alone, and in no other words."""
    seen = (await a_job(admin))["metadata"]
    owner = Owner("Job", seen["name"], seen["uid"], "batch/v1")
    key, why = PodKey(TEAM, owner.name), Reason.RUNTIME_EXCEEDED
    (call,) = patches.calls(SuspendJob(GangKey(TEAM, "g"), Uid("u"), key, owner, 7.0, stays=why), 0.0)
    forged = {"metadata": {"annotations": {STAYS: "true"}}, "spec": {"suspend": True}}
    without = {"metadata": {"annotations": {STAYS: why.value}}}
    for change in (forged, without):
        assert JOB_ANNOTATIONS in await refusal(ours.patch(call.path, change, how="merge"))

    ended = await ours.patch(call.path, json.loads(call.body), how="merge", fieldManager="gangwright")
    assert ended["spec"]["suspend"] is True
    assert ended["metadata"]["annotations"][STAYS] == "RuntimeExceeded"


async def test_a_word_that_is_over_is_taken_off(admin, ours):
    """That a Job stays suspended is its owner's word: we end it with the suspension, and do not give it."""
    job = await a_job(admin, suspend=True)
    forged = {"metadata": {"annotations": {STAYS: "true"}}}
    assert JOB_ANNOTATIONS in await refusal(ours.patch(job_at(job), forged, how="merge"))

    await admin.patch(job_at(job), forged, how="merge")
    over = {"metadata": {"annotations": {STAYS: None}}, "spec": {"suspend": False}}
    resumed = await ours.patch(job_at(job), over, how="merge", fieldManager="gangwright")
    assert resumed["metadata"]["annotations"] == {"example.com/mine": "1"}


STAYS = "gangwright.io/stay-suspended"
JOB_METADATA, JOB_ANNOTATIONS, JOB_SPEC = (
    "no labels, finalizers or owners",
    "no annotation of a Job but",
    "nothing of a Job but spec.suspend",
)
NOT_OURS_OF_A_JOB = {
    "label": ({"metadata": {"labels": {"app": "mine"}}}, JOB_METADATA),
    "finalizer": ({"metadata": {"finalizers": ["example.com/never"]}}, JOB_METADATA),
    "annotation": ({"metadata": {"annotations": {"example.com/mine": "2"}}}, JOB_ANNOTATIONS),
    "annotation gone": ({"metadata": {"annotations": {"example.com/mine": None}}}, JOB_ANNOTATIONS),
    "plan": ({"metadata": {"annotations": {PLAN: "{}"}}}, JOB_ANNOTATIONS),
    "parallelism": ({"spec": {"parallelism": 3}}, JOB_SPEC),
    "deadline": ({"spec": {"activeDeadlineSeconds": 1}}, JOB_SPEC),
    "backoff limit gone": ({"spec": {"backoffLimit": None}}, JOB_SPEC),
    "time to live": ({"spec": {"ttlSecondsAfterFinished": 0}}, JOB_SPEC),
    "node selector": ({"spec": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}}, JOB_SPEC),
}
"""Of a suspended Job, where the API server lets the template be changed too."""


async def test_not_ours_to_write_of_a_job(admin, ours):
    """Whatever is neither a suspension nor a resumption is refused to us in words that fit, though our role lets us
    patch Jobs.
    """
    job = await a_job(admin, suspend=True, backoffLimit=3)
    said = {
        what: await refusal(ours.patch(job_at(job), change, how="merge"))
        for what, (change, _) in NOT_OURS_OF_A_JOB.items()
    }

    assert [what for what, (_, fits) in NOT_OURS_OF_A_JOB.items() if fits not in said[what]] == []
    assert (await admin.get(job_at(job)))["spec"] == job["spec"]


@pytest.mark.parametrize("key", ["gangwright.io/paused", "gangwright.io/attained"])
async def test_nobody_counts_what_he_has_had(admin, ours, key):
    """What we write on a Job nobody else sets or takes away, and everybody may leave it as it is."""
    job = await a_job(admin)
    forged = {"metadata": {"annotations": {key: "0"}}}
    assert f"{key} is written by Gangwright alone" in await refusal(
        admin.patch(job_at(job), forged, how="merge")
    )

    await ours.patch(job_at(job), {"metadata": {"annotations": {key: "7"}}}, how="merge")
    await refusal(admin.patch(job_at(job), {"metadata": {"annotations": {key: None}}}, how="merge"))
    kept = await admin.patch(job_at(job), {"spec": {"suspend": True}}, how="merge")
    assert kept["metadata"]["annotations"][key] == "7"


@pytest.mark.parametrize("key", ["gangwright.io/paused", "gangwright.io/attained"])
async def test_a_job_of_a_backup_is_told_what_to_leave_out(admin, key):
    """A Job that is made anew with what its former self had is refused, with the annotation that must go."""
    said = await refusal(a_job(admin, annotations={key: "7"}))

    assert f"{key} is written by Gangwright alone; do not change it, and do not set it on new objects" in said


async def test_others_write_their_jobs(admin):
    """The policy binds us alone."""
    job = await a_job(admin, suspend=True)
    changed = await admin.patch(job_at(job), {"spec": {"parallelism": 3}}, how="merge")

    assert changed["spec"]["parallelism"] == 3
