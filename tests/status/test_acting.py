"""What the status service lets people try out and do, and what it asks of them for it."""

import asyncio

import pytest
from structlog.testing import capture_logs

from scheduler.engine import Engine
from scheduler.model.decision import Reason
from scheduler.objects import api, storage_kinds
from scheduler.objects.volumes import Volumes
from scheduler.status.operator_api import READING, Trial, cannot_tell
from tests.status.support.reviewing import ADMIN, JANE
from tests.status.support.scene import HOSTILE, POLICY, a_scene
from tests.status.support.served import served
from tests.support.builders import GPU

POD = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", GPU: "1"}}}]}}

DRAIN = "/v1/nodes/a0-r0-n0/drain"


async def test_forecasts_reach_people(acting):
    """What the operator expects stands in the queue."""
    rows = {row["name"]: row for row in (await acting.ask("/v1/queue", ADMIN)).json["gangs"]}

    assert rows["huge"]["forecast"] == {"middle": 100.0, "low": 50.0, "high": 200.0}
    assert rows["late"]["forecast"] is None


async def test_how_near_a_gang_is_reaches_people(acting):
    """What was inquired about it stands beside its reason."""
    found = (await acting.ask("/v1/gangs/team-b/huge", ADMIN)).json

    (near,) = found["nearest"]
    assert (near["level"], near["domain"], near["best"], near["needed"]) == ("rack", "a0/r1", 4, 10)
    assert (found["wouldCost"], found["behind"]) == ([], None)


async def test_pods_are_tried_out_as_if_they_had_come(acting, operator):
    """Each gets our gate, a uid and a name; the answer tells seats by name."""
    answer = await acting.do(
        "/v1/simulate", ADMIN, {"namespace": "team-a", "pods": [{"pod": POD, "count": 3}]}
    )
    ((_, pods),) = operator.asked

    assert answer.status == 200
    assert answer.json["starts"] is True
    assert [seat["pod"] for seat in answer.json["seats"]] == ["pod-0", "pod-1", "pod-2"]
    assert len({pod.uid for pod in pods}) == 3
    assert all(pod.gated and pod.key.namespace == "team-a" for pod in pods)
    assert dict(pods[0].demand.requests)[GPU] == 1


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        ([{"pod": POD, "count": 4096}, {"pod": POD}], "4097 pods: a gang must have at most 4096"),
        (
            [{"pod": {"metadata": {"annotations": {"gangwright.io/strategy": HOSTILE}}}}],
            "gangwright.io/strategy",
        ),
    ],
)
async def test_what_would_be_refused_is_an_answer(acting, operator, pods, text):
    """Pods that Gangwright would not place as they are written: it says so, and nobody is asked."""
    answer = await acting.do("/v1/simulate", ADMIN, {"pods": pods})

    assert answer.status == 200
    assert (answer.json["starts"], answer.json["reason"]) == (False, "InvalidSpec")
    assert text in answer.json["message"]
    assert operator.asked == []


async def test_what_cannot_be_told_is_no_start(acting, operator):
    """A dry run that the planner cannot answer says so by its reason, and names the field."""
    said = Trial(Reason.UNSUPPORTED_FIELD, cannot_tell(["spec.affinity.podAntiAffinity"]))
    operator.simulate = lambda _pods: asyncio.sleep(0, said)

    answer = (await acting.do("/v1/simulate", ADMIN, {"pods": [{"pod": POD}]})).json

    assert (answer["starts"], answer["reason"], answer["seats"]) == (False, "UnsupportedField", [])
    assert "spec.affinity.podAntiAffinity" in answer["message"]


@pytest.mark.parametrize(
    ("name", "unmodeled"), [("bound", ()), ("unknown", ("spec.volumes: a claim does not exist yet",))]
)
async def test_claims_are_known_to_a_dry_run(reviewing, operator, name, unmodeled):
    """A claim that is bound ties the pod to the nodes of its volume, as it does when the pod has come."""
    volumes = Volumes()
    volumes.see_volume(storage_kinds.PersistentVolume(metadata=api.Meta(name="disk")))
    volumes.see_claim(
        storage_kinds.PersistentVolumeClaim(
            metadata=api.Meta(namespace="team-a", name="bound"),
            spec=storage_kinds.ClaimSpec(volume_name="disk"),
            status=storage_kinds.ClaimStatus(phase="Bound"),
        )
    )
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    pod = {"spec": {**POD["spec"], "volumes": [claim]}}
    async with served(a_scene().engine, reviewing, operator=operator, volumes=volumes) as running:
        await running.do("/v1/simulate", ADMIN, {"namespace": "team-a", "pods": [{"pod": pod}]})

    ((_, (tried,)),) = operator.asked
    assert tried.unmodeled == unmodeled


async def test_trying_out_needs_the_right_to_create_pods(acting, operator):
    """Whoever may not make them there may not ask either."""
    assert (await acting.do("/v1/simulate", JANE, {"pods": [{"pod": POD}]})).status == 403
    assert operator.asked == []


async def test_a_drain_needs_the_rights_that_kubectl_would_need(acting, operator, reviewing):
    """To patch the node, and to evict pods in every namespace on it; asked about anew each time."""
    node = next(
        row["name"]
        for row in (await acting.ask("/v1/nodes", ADMIN)).json["nodes"]
        if any(tenant["name"] == "train" for tenant in row["gangs"])
    )
    path = f"/v1/nodes/{node}/drain"
    assert (await acting.do(path, JANE)).status == 403

    reviewing.rights.add(("jane", "patch", "nodes", ""))
    acting.clock[0] += 100
    assert (await acting.do(path, JANE)).status == 403

    reviewing.rights.add(("jane", "create", "pods/eviction", "team-a"))
    done = await acting.do(path, JANE)
    assert done.status == 200
    assert done.json["moves"][0]["name"] == "train"
    assert operator.asked == [("drain", node, "jane")]

    reviewing.rights.discard(("jane", "patch", "nodes", ""))
    assert (await acting.do(path, JANE)).status == 403
    assert (await acting.do("/v1/nodes/nowhere/drain", ADMIN)).status == 404


async def test_no_node_is_drained_before_all_was_read(reviewing, operator):
    """Whose pods are on it is not known then, so nobody can say who may evict them: 503, not that there is no such
    node.
    """
    async with served(Engine(POLICY), reviewing, operator=operator) as running:
        said = await running.do("/v1/nodes/a0-r0-n0/drain", ADMIN)

    assert (said.status, said.json["error"]) == (503, READING)
    assert operator.asked == []


async def test_moves_are_shown_to_those_that_see_all_pods(acting, operator):
    """They name pods of any namespace, so the right to list pods in one is not enough; a dry run moves nothing."""
    refused = await acting.do("/v1/defrag", JANE, {"dryRun": True})
    shown = await acting.do("/v1/defrag", ADMIN, {"dryRun": True})

    assert (refused.status, "all namespaces" in refused.json["error"]) == (403, True)
    assert shown.json == {
        "head": {"namespace": "team-b", "gang": "huge", "seats": {"huge-0": "a0-r0-n0"}},
        "moves": [
            {"namespace": "team-a", "gang": "solo", "pod": "solo", "from": "a0-r0-n0", "to": "a1-r0-n0"}
        ],
        "message": "",
        "started": False,
    }
    assert operator.asked == []


async def test_moves_need_the_right_to_evict_in_every_namespace_that_moves(acting, operator, reviewing):
    """Both rights are asked for anew each time, whatever was remembered of them."""
    reviewing.rights.add(("jane", "list", "pods", ""))
    assert (await acting.do("/v1/defrag", JANE, {"dryRun": True})).status == 200
    refused = await acting.do("/v1/defrag", JANE, {"dryRun": False})
    assert (refused.status, refused.json["error"]) == (
        403,
        "you may not create pods/eviction in namespace team-a",
    )

    reviewing.rights.add(("jane", "create", "pods/eviction", "team-a"))
    done = await acting.do("/v1/defrag", JANE, {"dryRun": False})
    assert (done.status, done.json["started"]) == (200, True)
    assert operator.asked == [("defrag", "huge", "jane")]

    reviewing.rights.discard(("jane", "list", "pods", ""))
    assert (await acting.do("/v1/defrag", JANE, {"dryRun": False})).status == 403
    assert len(operator.asked) == 1


@pytest.mark.parametrize(
    ("moves", "head", "message"), [("vain", "huge", "nothing helps"), ("none", None, "")]
)
async def test_without_moves_nothing_is_done(acting, operator, moves, head, message):
    """No moves help, or no gang waits for room: the answer says which."""
    operator.moves = moves

    said = (await acting.do("/v1/defrag", ADMIN, {"dryRun": False})).json

    assert ((said["head"] or {}).get("gang"), said["message"], said["started"]) == (head, message, False)
    assert operator.asked == []


async def test_moves_must_be_asked_for_in_so_many_words(acting, operator):
    """An empty body is no wish to stop pods, and none to show what would be stopped."""
    assert (await acting.do("/v1/defrag", ADMIN, {})).status == 400
    assert operator.asked == []


async def test_what_the_operator_refuses_is_told(acting, operator):
    """409, with the operator's own words."""
    operator.refuses = "no other node has room for team-a/train"

    answer = await acting.do(DRAIN, ADMIN)

    assert (answer.status, answer.json["error"]) == (409, operator.refuses)


async def test_who_acted_is_written_every_time(acting):
    """An act is never left out of the log as one of many alike."""
    with capture_logs() as lines:
        await acting.do(DRAIN, ADMIN)
    (line,) = [one for one in lines if one["event"] == "request"]

    assert (line["user"], line["route"], line["status"]) == ("admin", "drain", 200)
    assert "kind" not in line


@pytest.mark.parametrize("what", ["suspend", "resume"])
async def test_removed_routes_name_their_replacement(acting, operator, what):
    """410 for one version, with the command that does it; nothing is done."""
    answer = await acting.do(f"/v1/gangs/team-a/work/{what}", ADMIN)

    assert answer.status == 410
    assert f"gangwright {what} " in answer.json["error"]
    assert operator.asked == []


async def test_nobody_acts_where_nobody_is_there_to(status):
    """A service that was started without an operator says so."""
    answer = await status.do("/v1/simulate", ADMIN, {"pods": [{"pod": POD}]})

    assert answer.status == 409
