"""A job's life as the API server sees it: pods, status, events, and what a restart of the master leaves of them."""

import asyncio

import pytest

from scheduler.elastic.controller import pod_control, requests
from scheduler.elastic.controller.autoscaler import decide
from scheduler.elastic.controller.pod_template import Owner, reference
from scheduler.elastic.reconciler import Timeouts
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Elapsed, Exited
from scheduler.elastic.rendezvous.worker_messages import Reason, Refused
from scheduler.settings import Confinement
from tests.elastic.controller.support.house import (
    KIT,
    TEMPLATE,
    Actor,
    House,
    beat,
    job,
    pods,
    seat,
    status,
    train,
)
from tests.kube.support.api_server import Refuse, status_body
from tests.kube.support.follower import until


async def test_a_job_gets_its_quorum(api, house):
    """Two gated pods of the job, as one gang, and a status that says what they wait for."""
    job(api)

    await house.until(lambda: len(pods(api)) == 2 and status(api).get("phase") == "Queued")

    for pod in pods(api):
        assert pod["spec"]["schedulingGates"] == [{"name": "gangwright.io/planned"}]
        assert pod["metadata"]["labels"]["gangwright.io/gang"] == "train"
        assert pod["metadata"]["labels"]["gangwright.io/elastic-role"] == "core"
        assert pod["metadata"]["annotations"]["gangwright.io/min-members"] == "2"
    assert status(api)["selector"] == "gangwright.io/elastic-job=train"
    assert status(api)["observedGeneration"] == 1


async def test_workers_meet_and_train(api, house):
    """When both are warm a round is written, then told: ranks, size, names."""
    job(api)
    first, second = await train(house, 2)

    assert {first.told[0].rank, second.told[0].rank} == {0, 1}
    assert first.told[0].members == second.told[0].members
    assert set(first.told[0].members) == {pod["metadata"]["name"] for pod in pods(api)}
    assert first.round == second.round == status(api)["round"]
    assert house.handler.worker(first.uid).rounds == {first.round}
    await house.until(lambda: status(api).get("phase") == "Running" and status(api)["workers"] == 2)


async def test_the_rendezvous_is_told_when_all_have_met(api, house):
    """Once for each round, by the job's name, when all its members train; not before."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2)
    first = Actor(house, seat(api, pods(api)[0]))
    house.actors.append(first)
    await house.until(lambda: any(one["phase"] == "Ready" for one in status(api).get("members", ())))
    assert house.values.all_met == []
    second = Actor(house, seat(api, pods(api)[1]))
    house.actors.append(second)
    await house.until(lambda: status(api).get("phase") == "Running")

    assert house.values.all_met == [("team/train", first.round)]


async def test_the_rendezvous_is_told_of_a_member_that_has_ended(api, house):
    """By the job's name and the round, when it was a member of that; an end of anybody else says nothing of who
    meets.
    """
    job(api)
    first, second = await train(house, 2)
    for number in (None, first.round + 1, 0):
        await house.handler.exit(Exited(first.uid, round=number))
    assert house.values.all_broken == []
    await house.handler.exit(Exited(second.uid, signal=9, round=second.round))

    assert house.values.all_broken == [("team/train", second.round)]


async def test_who_meets_is_told_of_a_member_that_has_ended(api, house):
    """With the answer to its next beat: in which round nobody meets any more; before, and once all train, none."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2)
    first, second = (seat(api, pod) for pod in pods(api))
    await house.until(lambda: all(map(house.seated, (first, second))))
    told = [house.handler.ready(Arrived(uid), 20.0) for uid in (first, second)]
    number, _ = [assignment.round for assignment in await asyncio.gather(*told)]
    assert (await house.handler.beat(beat(first, round=number, phase="Ready"))).broken == 0
    await house.handler.exit(Exited(second, signal=9, round=number))

    assert (await house.handler.beat(beat(first, round=number, phase="Ready"))).broken == number


async def test_the_rendezvous_is_told_of_a_member_whose_pod_is_gone(api, house):
    """Its agent cannot say any more that its process has ended; a pod that was in no round says nothing of who
    meets.
    """
    job(api)
    first, second = await train(house, 2)
    job(api, workers=3)
    await house.until(lambda: len(pods(api)) == 3)
    newcomer = pods(api)[2]["metadata"]
    api.delete(newcomer["name"], requests.PODS)
    await house.until(lambda: newcomer["uid"] not in house.controller().workers)
    assert house.values.all_broken == []
    second.kill()
    api.delete(
        next(pod["metadata"]["name"] for pod in pods(api) if pod["metadata"]["uid"] == second.uid),
        requests.PODS,
    )

    await house.until(lambda: house.values.all_broken == [("team/train", first.round)])


async def test_asked_again_the_same_is_said(api, house):
    """An assignment whose answer was lost is told again."""
    job(api)
    first, _ = await train(house, 2)

    assert await house.handler.ready(Arrived(first.uid), 1.0) == first.told[0]


async def test_a_round_is_written_before_it_is_told(api, house):
    """As long as the API server refuses the status, nobody is told of the round."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2 and status(api).get("phase"))
    refused = api.refused["PATCH", requests.JOBS] = [Refuse(500) for _ in range(1000)]

    training = asyncio.create_task(train(house, 2))
    await house.until(lambda: "Round 1" in house.controller()._reconciler.status(0.0).reason)
    before = len(refused)
    await house.until(lambda: len(refused) < before - 1)
    assert not training.done()
    assert not status(api)["round"]
    refused.clear()

    assert [actor.round for actor in await training] == [status(api)["round"]] * 2


async def test_a_restart_makes_no_second_set(api, tmp_path):
    """A master that died is followed by one that finds the pods, the round and its members as they were."""
    job(api)
    async with House(api, tmp_path) as house:
        before = await train(house, 2)

    async with House(api, tmp_path) as house:
        for actor in before:
            told = actor.told[0]
            answer = await house.handler.beat(beat(actor.uid, round=told.round, step=9, committed=9))
            assert (answer.round, answer.abort) == (told.round, None)
            assert await house.handler.ready(Arrived(actor.uid), 2.0) == told
        await house.until(lambda: status(api)["phase"] == "Running")
        assert len(pods(api)) == 2


async def test_killed_between_the_pods_and_the_status(api, tmp_path):
    """Pods were made, and no status says so: they are the job's all the same."""
    job(api)
    api.refused[("PATCH", requests.JOBS)] = [Refuse(500) for _ in range(1000)]
    async with House(api, tmp_path) as house:
        await house.until(lambda: len(pods(api)) == 2)
    api.refused.clear()
    before = [pod["metadata"]["uid"] for pod in pods(api)]

    async with House(api, tmp_path) as house:
        await house.until(lambda: status(api).get("phase") == "Queued")
        assert [pod["metadata"]["uid"] for pod in pods(api)] == before


async def test_an_answer_that_was_lost_makes_no_second_pod(api, house):
    """The same pod is asked for again, by the same name."""
    api.lost["POST", requests.PODS] = 2
    job(api)

    await house.until(lambda: house.value("writes_total", what="start", result="conflict") >= 2)

    assert len(pods(api)) == 2
    await house.until(lambda: status(api).get("phase") == "Queued")
    assert house.value("told_total", reason="FailedCreate") == 0


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minWorkers": 3, "maxWorkers": 2}, "spec.maxWorkers"),
        ({"minWorkers": 0}, "spec.minWorkers"),
        ({"sizing": {"policy": "magic"}}, "spec.sizing.policy"),
        ({"template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}, "containers[0].command"),
        ({"template": {"spec": {"containers": []}}}, "spec.template.spec.containers"),
        (
            {"template": {**TEMPLATE, "metadata": {"labels": {"gangwright.io/surplus": "true"}}}},
            "spec.template.metadata.labels[gangwright.io/surplus] = 'true': remove it",
        ),
    ],
)
async def test_a_spec_that_cannot_be_read(api, house, spec, field):
    """Field and value stand in a condition, nothing is started, and a mended spec is."""
    job(api, **spec)
    job(api, "other")

    await house.until(
        lambda: any(
            field in own.get("message", "") and own["status"] == "False"
            for own in status(api).get("conditions", ())
        )
    )
    await house.until(lambda: len(pods(api, "other")) == 2)
    assert pods(api) == []

    job(api, template={**TEMPLATE, "metadata": None})
    await house.until(lambda: len(pods(api)) == 2)


@pytest.mark.parametrize("code", [500, 422, 403])
async def test_a_status_that_is_refused_disturbs_nobody(api, house, code):
    """One job's status is refused again and again; the other's workers meet meanwhile, and the first catches up."""
    place = requests.inside(requests.JOBS, "team", "bad", "status")
    refused = api.refused["PATCH", place] = [Refuse(code) for _ in range(1000)]
    job(api, "bad")
    job(api)
    assert len(await train(house, 2)) == 2
    assert len(refused) < 1000
    assert status(api, "bad") == {}

    refused.clear()
    await house.until(lambda: status(api, "bad").get("phase") == "Queued")


async def test_a_fault_of_ours_while_a_status_is_written(api, house, monkeypatch):
    """The writer is begun anew, with the job."""
    monkeypatch.setattr("scheduler.elastic.controller.job_controller.FIRST_PAUSE", 0.05)
    job(api)
    await house.until(lambda: len(pods(api)) == 2 and status(api).get("phase"))

    def fail(_old, _new):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("scheduler.elastic.controller.requests.difference", fail)
        seat(api, pods(api)[0])
        await house.until(lambda: house.value("broken_total") >= 1)

    assert len(await train(house, 2)) == 2


async def test_somebody_else_changes_the_job_meanwhile(api, house):
    """A conflict is answered by another look; what others wrote stays."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2 and status(api).get("phase"))
    api.mute()
    for turn in range(3):
        api.change(requests.JOBS, "team", "train", metadata={"labels": {"turn": str(turn)}})
    api.cut()

    first, _ = await train(house, 2)

    assert status(api)["round"] == first.round
    assert api.objects[requests.JOBS]["team", "train"]["metadata"]["labels"] == {"turn": "2"}


async def test_a_conflict_that_stays_one_is_waited_for(api, house, pauses):
    """Whoever writes beside us without end, or answers so, is not asked again without end."""
    place = requests.inside(requests.JOBS, "team", "train", "status")
    refused = api.refused["PATCH", place] = [Refuse(409) for _ in range(1000)]
    job(api)
    await house.until(lambda: len(pauses) >= 5)
    asked = 1000 - len(refused)
    refused.clear()

    assert asked <= 4 * (len(pauses) + 1)
    await house.until(lambda: status(api).get("phase") == "Queued")


async def test_another_master_wrote_a_later_round(api, house):
    """What we believed of the job is dropped; nothing of the other's is overwritten."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2 and status(api).get("phase"))
    first, second = (seat(api, pod) for pod in pods(api))
    await house.until(lambda: house.seated(first) and house.seated(second))
    api.mute()
    api.change(requests.JOBS, "team", "train", status={"round": 99})

    waiting = [asyncio.create_task(house.handler.ready(Arrived(uid), 0.5)) for uid in (first, second)]
    await house.until(lambda: house.value("broken_total") == 1)

    assert await asyncio.gather(*waiting) == [None, None]
    assert status(api)["round"] == 99


@pytest.mark.slow
async def test_a_quota_refuses_the_pods(api, house):
    """It is shown with the API server's words, and tried again a while later."""
    api.refused["POST", requests.PODS] = [Refuse(403) for _ in range(4)]
    job(api)

    await house.until(lambda: "403" in status(api).get("reason", ""))
    await house.until(lambda: len(pods(api)) == 2)


@pytest.mark.parametrize(("what", "collection"), [("pod", requests.PODS), ("policy", requests.POLICIES)])
async def test_a_refusal_ends_with_its_remedy(api, house, what, collection):
    """However long names and message are: the event says first what was refused, and last what would be right."""
    said = f"{what} {'n' * 63} is forbidden: {'x' * 900}: label the Namespace"
    refuse = Refuse(403, body=status_body(403, said, "Forbidden"))
    api.refused["POST" if what == "pod" else "PATCH", collection] = [refuse] * 1000
    job(api)

    def notes():
        events = api.objects.get(requests.EVENTS, {}).values()
        return [one["note"] for one in events if one["reason"] == "FailedCreate"]

    await house.until(notes)
    assert f"403 Forbidden: {what} nnn" in notes()[0]
    assert notes()[0].endswith("x: label the Namespace")


@pytest.mark.slow
async def test_no_worker_starts_before_its_policy(api, house):
    """The NetworkPolicy comes first: as long as it is refused no pod is made, and the job says why."""
    refused = api.refused[("PATCH", requests.POLICIES)] = [Refuse(403) for _ in range(1000)]
    job(api)

    await house.until(lambda: "NetworkPolicy" in status(api).get("reason", ""))
    assert pods(api) == []
    refused.clear()

    await house.until(lambda: len(pods(api)) == 2)
    policy = api.objects[requests.POLICIES]["team", "train-workers"]
    assert policy["spec"]["podSelector"] == {"matchLabels": {"gangwright.io/elastic-job": "train"}}
    assert policy["metadata"]["ownerReferences"][0]["kind"] == "ElasticJob"


@pytest.mark.slow
async def test_starts_that_wait_for_the_policy_do_not_pile_up(api, tmp_path):
    """Whatever was asked for while the policy could not be written is answered with it: when it can be, no more pods
    are made than are wanted.
    """
    refused = api.refused[("PATCH", requests.POLICIES)] = [Refuse(503) for _ in range(100_000)]
    async with House(api, tmp_path, limits=Timeouts(unseen=0.1)) as house:
        job(api)
        await asyncio.sleep(3.0)
        waiting = len(house.controller()._carrying._tasks)
        refused.clear()
        await house.until(lambda: len(pods(api)) >= 2)
        await asyncio.sleep(0.3)

    made = sum(method == "POST" and path.endswith("/pods") for method, path, _ in api.writes)
    assert (waiting < 10, made < 10) == (True, True), (waiting, made)


@pytest.mark.parametrize(("stands", "there"), [(0.0, True), (60.0, False)])
async def test_a_policy_that_somebody_deleted(api, house, monkeypatch, stands, there):
    """It is made again before the next workers are, unless it was seen to stand a moment before."""
    monkeypatch.setattr(pod_control, "STANDS", stands)
    job(api)
    await house.until(lambda: len(pods(api)) == 2)
    del api.objects[requests.POLICIES]["team", "train-workers"]

    job(api, workers=4)
    await house.until(lambda: len(pods(api)) == 4)

    assert (("team", "train-workers") in api.objects[requests.POLICIES]) == there


async def test_one_look_at_the_policy_is_enough_for_many(api, house):
    """However many workers are made, it is written once."""
    job(api, minWorkers=8, maxWorkers=8)
    await house.until(lambda: len(pods(api)) == 8)

    assert sum("networkpolicies" in path for _, path, _ in api.writes) == 1


async def test_without_a_policy(api, tmp_path):
    """Where the settings want none, none is made."""
    async with House(api, tmp_path, confinement=Confinement.NONE) as house:
        job(api)
        await house.until(lambda: len(pods(api)) == 2)
        assert api.objects[requests.POLICIES] == {}


async def test_a_size_by_hand(api, house):
    """More workers are asked for: surplus pods beside the quorum join; fewer: they are told to go, and their pods
    go.
    """
    job(api, workers=2)
    await train(house, 2)

    job(api, workers=4)
    await house.until(lambda: len(pods(api)) == 4)
    roles = [pod["metadata"]["labels"]["gangwright.io/elastic-role"] for pod in pods(api)]
    assert roles == ["core", "core", "surplus", "surplus"]
    assert pods(api)[2]["spec"]["priorityClassName"] == "gangwright-surplus"
    house.actors += [Actor(house, seat(api, pod)) for pod in pods(api)[2:]]
    await house.until(lambda: [a.told and a.told[-1].size for a in house.actors] == [4] * 4)

    job(api, workers=2)
    await house.until(lambda: [a.told[-1].removed for a in house.actors].count(True) == 2)
    await house.until(lambda: house.value("leaves_total") == 2)
    assert house.value("idle_seconds_count", cause="ScaleUp") >= 1


async def test_a_quorum_that_changes(api, house):
    """All members of the gang say the new one, so that the scheduler does not refuse them."""
    job(api, minWorkers=2)
    await house.until(lambda: len(pods(api)) == 2)

    job(api, minWorkers=1)

    await house.until(
        lambda: {p["metadata"]["annotations"]["gangwright.io/min-members"] for p in pods(api)} == {"1"}
    )


async def test_a_newcomer_joins(api, house):
    """Members train until it is warm; then all are called, and the next round has three, the newcomer last."""
    job(api, workers=2)
    actors = await train(house, 2)
    job(api, workers=3)
    await house.until(lambda: len(pods(api)) == 3)
    assert [len(actor.told) for actor in actors] == [1, 1]

    newcomer = Actor(house, seat(api, pods(api)[2]))
    house.actors.append(newcomer)
    await house.until(lambda: [a.told and a.told[-1].size for a in house.actors] == [3, 3, 3])

    assert newcomer.told[0].rank == 2
    assert newcomer.told[0].round == actors[0].round > actors[0].told[0].round
    assert house.value("joins_total") == 3


async def test_a_member_is_lost(api, house):
    """Its pod is gone: the other is told to meet, and goes on; nobody of that uid is let in any more."""
    job(api)
    kept, lost = await train(house, 2)
    job(api, minWorkers=1, workers=2)

    lost.kill()
    api.delete(
        next(p["metadata"]["name"] for p in pods(api) if p["metadata"]["uid"] == lost.uid), requests.PODS
    )
    await house.until(lambda: kept.told[-1].size == 1)

    assert kept.round > lost.round
    assert house.handler.worker(lost.uid) is None
    with pytest.raises(Refused) as refused:
        await house.handler.beat(beat(lost.uid))
    assert refused.value.reason is Reason.NO_WORKER
    assert house.value("losses_total") == 1


async def test_a_worker_that_leaves(api, house):
    """It said that it goes: the next round is without it, and may not use that round's values."""
    job(api)
    kept, leaving = await train(house, 2)
    job(api, minWorkers=1, workers=2)

    await leaving.leave()
    await house.until(lambda: leaving.told[-1].removed)
    await house.until(lambda: kept.told[-1].size == 1)

    assert house.handler.worker(leaving.uid).rounds == {leaving.told[0].round}
    assert house.handler.worker(kept.uid).rounds == {own.round for own in kept.told}


async def test_a_child_that_was_killed(api, house):
    """Whether it is started again is the membership's to say, and the agent is told."""
    job(api)
    first, _ = await train(house, 2)

    restart = await house.handler.exit(Exited(first.uid, why="signal", signal=6, tail=("Aborted",)))

    assert restart is house.controller()._reconciler.restart(first.uid)


async def test_the_end_is_written_at_once(api, house):
    """Whoever waits for it need not wait for figures, and a master that follows begins nothing again."""
    job(api)
    actors = await train(house, 2)
    for actor in actors:
        actor.kill()
        await house.handler.exit(Exited(actor.uid, why="finished", code=0, round=actor.round))

    await until(lambda: status(api).get("phase") == "Succeeded")


async def test_a_suspended_job_has_no_pods(api, house):
    """Nothing is made for it; resumed, its quorum is."""
    job(api, suspend=True)
    await house.until(lambda: status(api).get("phase") == "Suspended")
    assert pods(api) == []

    job(api, suspend=False)
    await house.until(lambda: len(pods(api)) == 2)


async def test_a_job_that_is_deleted(api, house):
    """Nobody waits for it any longer, and nothing is written."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2)
    uid = seat(api, pods(api)[0])
    await house.until(lambda: house.controller().workers[uid].seen.node)
    waiting = asyncio.create_task(house.handler.ready(Arrived(uid), 0.3))
    await asyncio.sleep(0)

    api.delete("train", requests.JOBS)
    await house.until(lambda: not house.master.controllers)

    assert await waiting is None
    assert house.values.forgotten == ["team/train"]
    assert house.handler.worker(uid) is None


async def test_what_a_script_reports_is_shown(api, house):
    """Accuracy and loss that rank 0 reports are in the status, and a metric under the job's uid."""
    uid = job(api)["metadata"]["uid"]
    first, _ = await train(house, 2)
    await house.handler.beat(beat(first.uid, phase="Training", round=1, step=5, values={"accuracy": 0.75}))
    await house.until(lambda: status(api).get("values") == {"accuracy": 0.75})

    house.counting.refresh(0.0, {}, leading=True)
    assert house.value("reported", elasticjob=uid, value="accuracy") == 0.75


async def test_what_a_stock_script_does_not_take_over_is_said(api, house):
    """An unmodified script in a job with perWorker: an event says that it keeps its own, and no batch is shown."""
    job(api, batch={"perWorker": 64})
    first, _ = await train(house, 2)
    assert "global" not in status(api)["batch"]

    await house.handler.beat(beat(first.uid, phase="Training", round=1, step=5, uses=()))
    await house.until(lambda: "BatchNotApplied" in str(api.objects.get(requests.EVENTS, {})))
    await house.until(lambda: "uses" in status(api))

    assert (status(api)["uses"], status(api)["batch"]) == ([], {"mode": "capped"})


async def test_a_name_that_is_taken_again(api, house):
    """Another job of the same name is another job: pods of the former are none of its."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2)
    old = {pod["metadata"]["uid"] for pod in pods(api)}

    api.delete("train", requests.JOBS)
    job(api)

    await house.until(lambda: len(pods(api)) == 4)
    assert old.isdisjoint(house.controller().workers)


async def test_a_foreign_pod_is_no_worker(api, house):
    """Labels alone make none: the job must be its owner."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2)
    labels = {"gangwright.io/elastic-job": "train", "gangwright.io/gang": "train"}
    forged = api.put(
        "forged", requests.PODS, labels=labels, spec={"nodeName": "n0"}, status={"phase": "Running"}
    )
    forged["metadata"]["ownerReferences"] = [
        {
            "kind": "ElasticJob",
            "apiVersion": "gangwright.io/v1alpha1",
            "name": "train",
            "uid": "other",
            "controller": True,
        }
    ]
    api.change(
        requests.PODS, "team", "forged", metadata={"annotations": {"gangwright.io/elastic-number": "9"}}
    )

    await house.until(lambda: house.master._workers.get(forged["metadata"]["uid"]))
    assert house.handler.worker(forged["metadata"]["uid"]) is None
    assert len(house.controller().workers) == 2


@pytest.mark.parametrize(("namespace", "name"), [("elsewhere", "train"), ("team", "other")])
async def test_a_pod_that_knows_no_more_than_the_uid_is_no_worker(api, house, namespace, name):
    """The uid of a job can be read by many: the pod must be of the job's namespace, and name it, before and after a
    restart.
    """
    uid = job(api)["metadata"]["uid"]
    await house.until(lambda: len(pods(api)) == 2)
    owner = reference(Owner(namespace, name, uid))
    meta = {"labels": {"gangwright.io/elastic-job": name}, "ownerReferences": [owner]}
    forged = api.make(requests.PODS, namespace, "forged", metadata=meta, status={"phase": "Running"})[
        "metadata"
    ]

    await house.until(lambda: house.master._workers.get(forged["uid"]))
    assert house.handler.worker(forged["uid"]) is None
    assert len(house.controller().workers) == 2
    known = house.controller().job
    house.master._forget(uid)
    house.master._job_seen(known)
    assert house.handler.worker(forged["uid"]) is None
    assert len(house.controller().workers) == 2
    api.delete("forged", requests.PODS, namespace=namespace)
    await house.until(lambda: forged["uid"] not in house.master._workers)
    assert len(house.controller().workers) == 2


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_whoever_has_ended_is_no_worker(api, house, phase):
    """His pod is still there to be read, and his token still good: he is not let in."""
    job(api)
    first, _ = await train(house, 2)
    name = next(pod["metadata"]["name"] for pod in pods(api) if pod["metadata"]["uid"] == first.uid)
    assert house.handler.worker(first.uid) is not None

    first.kill()
    api.change(requests.PODS, "team", name, status={"phase": phase})

    await house.until(lambda: house.handler.worker(first.uid) is None)


async def test_a_node_that_is_about_to_go(api, house):
    """A cordon and a configured taint are told to every job, and taken back."""
    job(api)
    api.put("n0", requests.NODES, "", spec={"unschedulable": True})
    api.put("n1", requests.NODES, "", spec={"taints": [{"key": "going", "effect": "NoSchedule"}]})
    api.put("n2", requests.NODES, "", spec={})
    await house.until(lambda: len(house.master._doomed) == 2 and len(pods(api)) == 2)
    assert house.controller()._reconciler._s.doomed.keys() == {"n0", "n1"}

    api.put("n0", requests.NODES, "", spec={})
    api.delete("n1", requests.NODES, "")

    await house.until(lambda: house.master._doomed == {})
    assert house.controller()._reconciler._s.doomed == {}


async def test_a_fault_of_ours_at_one_job(api, house, monkeypatch):
    """A job at which we fail is begun anew from what stands; the other one does not notice."""
    monkeypatch.setattr("scheduler.elastic.controller.job_controller.FIRST_PAUSE", 0.05)
    job(api)
    job(api, "other")
    await house.until(lambda: len(pods(api)) == len(pods(api, "other")) == 2)

    def fail(_event, _now):
        raise ZeroDivisionError

    house.controller()._reconciler.take = fail
    house.controller().feed(Elapsed())
    await house.until(lambda: house.value("broken_total") == 1)

    assert len(await train(house, 2)) == 2
    assert len(await train(house, 2, "other")) == 2


def newer(api, name="train"):
    """A newer master writes a status that we cannot read; gives it."""
    api.change(requests.JOBS, "team", name, status={"phase": "Migrating"})
    return status(api, name)


def told(api, reason):
    return [one for one in api.objects[requests.EVENTS].values() if one["reason"] == reason]


async def test_a_job_whose_status_cannot_be_read_is_left_alone(api, tmp_path):
    """No pod is made or removed, nothing is written; that is said, once, and the other job goes on. When it can be
    read again its training is where it was.
    """
    job(api)
    async with House(api, tmp_path) as house:
        before = await train(house, 2)
    former, stands = status(api), newer(api)
    job(api, "other")

    async with House(api, tmp_path) as house:
        assert len(await train(house, 2, "other")) == 2
        job(api, workers=4)
        uid = before[0].uid
        assert (await house.handler.beat(beat(uid, round=1))).abort is None
        with pytest.raises(Refused) as refused:
            await house.handler.exit(Exited(uid, signal=9, round=1))
        assert refused.value.status == 503
        assert house.controller().wishes() is None
        await house.until(lambda: told(api, "StatusUnreadable"))

        assert status(api) == stands
        assert len(pods(api)) == 2
        assert len(told(api, "StatusUnreadable")) == 1
        assert house.value("unreadable_objects_total", resource="elasticjobs") == 1

        api.change(requests.JOBS, "team", "train", status=former)
        await house.until(lambda: len(pods(api)) == 4)
        assert status(api)["round"] == before[0].round
        assert house.handler.worker(uid).rounds == {before[0].round}


async def test_a_status_that_becomes_unreadable_is_not_written_over(api, house):
    """A newer master wrote it beside us: we let go of the job at once."""
    job(api)
    await train(house, 2)
    await house.until(lambda: status(api).get("phase") == "Running")
    stands = newer(api)
    await house.until(lambda: told(api, "StatusUnreadable"))
    job(api, workers=4)
    await asyncio.sleep(0.2)

    assert status(api) == stands
    assert len(pods(api)) == 2


async def test_faults_of_ours_that_are_far_apart_are_in_no_row(api, house, monkeypatch):
    """A job that was looked after well for a while is begun anew as soon as after the first fault."""
    monkeypatch.setattr("scheduler.elastic.controller.job_controller.FIRST_PAUSE", 0.01)
    job(api)
    await house.until(lambda: len(pods(api)) == 2)
    controller = house.controller()

    def fail(_event, _now):
        raise ZeroDivisionError

    async def broken():
        before = house.value("broken_total")
        controller._reconciler.take = fail
        controller.feed(Elapsed())
        await house.until(lambda: house.value("broken_total") > before and controller._reconciler is not None)
        return controller._failures

    found = [await broken() for _ in range(4)]
    monkeypatch.setattr("scheduler.elastic.controller.job_controller.LONGEST_PAUSE", 0.1)
    await asyncio.sleep(0.2)
    found.append(await broken())

    assert found == [1, 2, 3, 4, 1]


@pytest.mark.slow
@pytest.mark.parametrize("question", ["status", "wishes", "next_deadline"])
async def test_whatever_fails_at_one_job(api, house, monkeypatch, question):
    """Sizes are decided and figures written for the others all the same."""
    monkeypatch.setattr("scheduler.elastic.controller.job_controller.FIRST_PAUSE", 0.05)
    job(api)
    job(api, "other")
    await train(house, 2, "other")

    def fail(_now):
        raise ZeroDivisionError

    setattr(house.controller()._reconciler, question, fail)
    wants = await decide(house.master, KIT)
    await house.until(lambda: house.value("broken_total") == 1)

    assert "team/other" in wants
    await house.until(lambda: status(api, "other").get("phase") == "Running")
    assert len(await train(house, 2)) == 2


async def test_whoever_lost_the_lease_writes_nothing(api, house):
    """A process that slept finds out before it writes, and sends workers away."""
    job(api)
    await house.until(lambda: len(pods(api)) == 2 and status(api).get("phase"))
    uid = pods(api)[0]["metadata"]["uid"]
    house.leading = False
    await asyncio.sleep(0.1)  # what was on its way has come
    writes = len(api.writes)

    job(api, workers=4)
    await asyncio.sleep(0.1)

    assert len(api.writes) == writes
    with pytest.raises(Refused) as refused:
        house.handler.worker(uid)
    assert refused.value.reason is Reason.STANDBY


async def test_while_the_watch_is_down_strangers_wait(api, house):
    """A worker that we may not have heard of yet is not called a stranger."""
    house.seeing = False

    with pytest.raises(Refused) as refused:
        house.handler.worker("unknown")
    assert refused.value.reason is Reason.AWAY


async def test_people_are_told(api, house):
    """What happens to a job is an event on it."""
    job(api, minWorkers=3, maxWorkers=2)

    await house.until(lambda: api.objects[requests.EVENTS])
    event = next(iter(api.objects[requests.EVENTS].values()))
    assert event["regarding"]["kind"] == "ElasticJob"
    assert event["regarding"]["name"] == "train"
    assert event["reportingController"] == "gangwright.io/elastic"


async def test_what_a_worker_says_is_passed_on_whole(api, house, monkeypatch):
    """Its position in the data; the round that its child was in when it ended, and the checkpoint that it wrote."""
    job(api)
    first, _ = await train(house, 2)
    heard = []
    monkeypatch.setattr(house.controller(), "feed", heard.append)

    told = [
        Arrived(first.uid, 1, 7, 5, "announced", "f", 56.0),
        Exited(first.uid, 1, None, "disk", "it", ("end",), 1, 5),
    ]
    await house.handler.ready(told[0], 0.0)
    await house.handler.exit(told[1])

    assert [one for one in heard if not isinstance(one, Beat | Elapsed)] == told


async def test_after_a_restart_members_read_the_values_of_their_round(api, tmp_path):
    """Who is a member of the round that stands is one for the next master too."""
    job(api)
    async with House(api, tmp_path) as house:
        before = await train(house, 2)

    async with House(api, tmp_path) as house:
        for actor in before:
            assert house.handler.worker(actor.uid).rounds == {actor.round}
