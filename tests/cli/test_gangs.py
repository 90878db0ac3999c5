"""`gangwright list`, `queue`, `explain`: what people are told of gangs, and in which form."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from scheduler.cli.screen import as_yaml, by_gang, preempted
from scheduler.status.schemas import PreemptedRow, VictimRow
from tests.cli.support.manifests import a_job
from tests.cli.support.speaking import CONFIG_MAPS, JOBS, say
from tests.kube.support.api_server import PODS, Refuse

EVERY_JOB = "/apis/batch/v1/jobs"
QUOTAS = "/api/v1/resourcequotas"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/gangwright-system/leases"
HOSTILE = "\x1b[31mred\x07[bold]\u202e"
"""A terminal escape, a bell, rich's markup, and a character that turns the line around."""


async def test_list_shows_the_gangs_of_a_namespace(cluster):
    """Who waits comes first, with his place; who runs has none; gangs of other namespaces are left out."""
    cluster.gang("runs", 2, gpus=8, node="r0-n0")
    cluster.gang("waits", 4, gpus=8)
    cluster.gang("elsewhere", 1, namespace="zoo")

    said = await cluster.say_offline("list", "-n", "team")

    assert said.code == 0, said.err
    assert [(own["GANG"], own["PLACE"], own["STATE"], own["MEMBERS"]) for own in said.rows] == [
        ("waits", "1", "waiting", "0/4"),
        ("runs", "-", "running", "2/2"),
    ]


async def test_list_shows_devices_age_and_owner(cluster):
    """GPUs held of wanted, also of members that are still missing; the owner and the message in wide tables alone."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
    for pod in ("train-0", "train-1"):
        cluster.pod(pod, gang="train", quorum=3, gpus=8)["metadata"]["ownerReferences"] = [owner]
    cluster.gang("runs", 2, gpus=4, node="r0-n0", created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    cluster.gang("light", 1, gpus=0)

    plain = await cluster.say_offline("list", "-n", "team")
    wide = await cluster.say_offline("list", "-n", "team", "-o", "wide")

    rows = {own["GANG"]: own for own in wide.rows}
    assert {name: own["GPUS"] for name, own in rows.items()} == {"train": "0/24", "runs": "8/8", "light": "-"}
    assert "d" in rows["train"]["AGE"]
    assert rows["runs"]["AGE"].removesuffix("s").isdecimal()
    assert (rows["train"]["OWNER"], rows["runs"]["OWNER"]) == ("Job/train", "-")
    assert wide.out.split("\n")[0].split()[-4:] == ["REASON", "OWNER", "PRIORITY", "MESSAGE"]
    assert plain.out.split("\n")[0].split()[-3:] == ["AGE", "STARTS", "REASON"]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("place", ["high", "old", "new", "runs"]),
        ("name", ["high", "new", "old", "runs"]),
        ("gpus", ["new", "runs", "old", "high"]),
        ("age", ["old", "runs", "high", "new"]),
        ("waited", ["old", "high", "new", "runs"]),
        ("priority", ["high", "old", "new", "runs"]),
    ],
)
async def test_list_is_sorted(cluster, by, names):
    """Rows that are equal in it are in the order of their places."""
    cluster.gang("runs", 1, gpus=4, node="r0-n0", created="2026-01-01T00:01:00Z")
    cluster.gang("old", 1, gpus=3, created="2026-01-01T00:00:00Z")
    cluster.gang("high", 1, gpus=2, created="2026-01-01T00:02:00Z", priority=5)
    cluster.gang("new", 1, gpus=8, created="2026-01-01T00:03:00Z")

    said = await cluster.say_offline("list", "-n", "team", "--sort", by)

    assert [own["GANG"] for own in said.rows] == names, said.err


async def test_pending_gangs_alone(cluster):
    """In the order of the queue; last those that cannot be placed. `queue` shows those of all namespaces."""
    cluster.gang("runs", 1, node="r0-n0")
    cluster.pod("half-0", gang="half", quorum=2)
    cluster.gang("waits", 1)
    cluster.gang("elsewhere", 1, namespace="zoo")

    pending = await cluster.say_offline("list", "--pending", "-n", "team")
    queue = await cluster.say_offline("queue")
    every = await cluster.say_offline("list", "--pending", "-A", "-o", "wide")

    assert [own["GANG"] for own in pending.rows] == ["waits", "half"]
    assert {own["GANG"] for own in queue.rows} == {"waits", "half", "elsewhere"}
    assert re.sub(r"\d", "", every.out) == re.sub(r"\d", "", queue.out)


@pytest.mark.parametrize("words", [["-l", "team=vision"], ["--pending", "-l", "team=vision"], ["--watch"]])
async def test_what_the_service_alone_can_do(cluster, words):
    """Labels of gangs, and asking again and again: offline it is an error that says so."""
    said = await cluster.say_offline("list", "-n", "team", *words)

    assert said.code == 2
    assert "requires the status service" in said.err


async def test_a_document_is_not_watched(cluster):
    """Exit code 2, before the cluster is asked."""
    said = await cluster.say_offline("list", "--watch", "-o", "json")

    assert (said.code, cluster.calls) == (2, [])
    assert "supports only tables" in said.err


@pytest.mark.parametrize("terminal", [True, False])
async def test_tables_end_with_the_line_of_a_terminal(cluster, terminal):
    """There the message is cut, and an ellipsis says so; in a pipe it is whole."""
    cluster.gang("large", 5, gpus=8)
    words = ("list", "--offline", "-n", "team", "-o", "wide")
    environ = {"KUBECONFIG": cluster.kubeconfig, "COLUMNS": "140", "FORCE_COLOR": "1" if terminal else ""}

    said = await asyncio.to_thread(say, *words, **environ)

    _, row = re.sub(r"\x1b\[[\d;]*m", "", said.out).splitlines()
    assert (len(row) <= 140, row.endswith("…")) == (terminal, terminal)


async def test_list_of_everything(cluster):
    """`-A` shows all namespaces, and says which."""
    cluster.gang("one", 1, namespace="a")
    cluster.gang("two", 1, namespace="b")

    said = await cluster.say_offline("list", "-A")

    assert {(own["NAMESPACE"], own["GANG"]) for own in said.rows} == {("a", "one"), ("b", "two")}


async def test_who_would_be_seated_starts_now(cluster):
    """A gang that waits only for Gangwright is said to start now; one behind it that lacks room says so."""
    cluster.gang("first", 3, gpus=8)
    cluster.gang("second", 3, gpus=8, created="2026-01-01T00:01:00Z")

    rows = (await cluster.say_offline("queue")).rows

    assert [(own["GANG"], own["STARTS"].split()[0], own["REASON"]) for own in rows] == [
        ("first", "now", "Queued"),
        ("second", "in", "InsufficientResources"),
    ]
    assert "needs 3 × 8 nvidia.com/gpu" in rows[1]["MESSAGE"]


async def test_when_a_gang_starts(cluster):
    """Who waits for the end of those who run is told when, with the bounds that hold in four of five cases."""
    now = datetime.now(UTC)
    said = {"gangwright.io/expected-runtime": "2h"}
    began = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        cluster.gang(f"on-{node}", 1, gpus=8, node=node, annotations=said, created=began)
    cluster.gang("waits", 1, gpus=8, created=began)

    (row,) = (await cluster.say_offline("queue", "-o", "json")).json
    (shown,) = (await cluster.say_offline("queue")).rows

    assert 0.5 * 7200 < row["forecast"]["middle"] - now.timestamp() < 1.5 * 7200
    assert row["forecast"]["low"] <= row["forecast"]["middle"] <= row["forecast"]["high"]
    assert shown["STARTS"].startswith("in ")


async def test_a_wait_counts_from_the_last_of_the_quorum(cluster):
    """The time waited is that since the pods were made, not since anybody looked."""
    cluster.gang("waits", 5, gpus=8, created="2026-01-01T00:00:00Z")

    (row,) = (await cluster.say_offline("queue", "-o", "json")).json

    assert row["waitSeconds"] > 1000


async def test_the_queue_names_whom_nobody_can_place(cluster):
    """Behind those that have a place come gangs whose members are missing, and why."""
    cluster.pod("half-0", gang="half", quorum=2)

    (row,) = (await cluster.say_offline("queue")).rows

    assert (row["PLACE"], row["STATE"], row["REASON"]) == ("-", "gathering", "MissingMembers")
    assert "1 of 2 exist" in row["MESSAGE"]


async def test_explain_tells_what_a_gang_lacks(cluster):
    """The nearest domain of every level, what it has room for, and what is in the way; nothing of it twice."""
    cluster.gang("large", 5, gpus=8)

    said = await cluster.say_offline("explain", "team/large")

    assert said.code == 0
    assert "team/large is waiting: ExceedsCluster" in said.out
    assert said.out.count("needs 5 × 8 nvidia.com/gpu") == 1
    assert "missing:" not in said.out
    assert re.search(r"nearest rack, \S+, fits \d of 5 × 8 nvidia.com/gpu", said.out)
    assert "large-4" in said.out


async def test_explain_tells_which_gang_a_gang_gave_way_to(cluster):
    """Without the service a pod that is still there tells it."""
    cluster.gang("low", 2, gpus=1)
    pod = cluster.pod("low-2", gang="low", quorum=2, node="r0-n0")
    told = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptedByGang"}
    told |= {"message": "gang team/high, of priority 7", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    pod["status"]["conditions"] = [told]

    said = await cluster.say_offline("explain", "team/low")

    assert "was preempted at 2026-01-02 03:04:05Z: gang team/high, of priority 7" in said.out


@pytest.mark.parametrize(
    ("gang", "words"),
    [("high", "team/high (priority 7)"), (None, "gang 00ff of another namespace (priority 7)")],
)
def test_the_service_tells_which_gang_a_gang_gave_way_to(gang, words):
    """By name where the reader may know it."""
    row = PreemptedRow("00ff", gang and "team", gang, 7, None, 0.0)

    assert preempted(row) == f"was preempted by {words} at 1970-01-01 00:00:00Z"


@pytest.mark.parametrize(
    ("hard", "used", "words"),
    [
        ("8", "4", "ResourceQuota research is full: 4 of 8 requests.nvidia.com/gpu are in use"),
        ("6", "2", "warning: ResourceQuota research allows 6 nvidia.com/gpu, but the gang's quorum needs 8"),
    ],
)
async def test_explain_names_the_quota_that_keeps_pods_from_being_created(cluster, hard, used, words):
    """One that is full for now, and one that the quorum alone goes beyond."""
    cluster.pod("half-0", gang="half", quorum=4, gpus=2)
    amounts = {"requests.nvidia.com/gpu": hard}, {"requests.nvidia.com/gpu": used}
    cluster.put("research", QUOTAS, "team", status={"hard": amounts[0], "used": amounts[1]})

    said = await cluster.say("explain", "team/half", "--offline")

    assert "MissingMembers" in said.out
    assert words.replace("requests.", "") in said.out


async def test_explain_shows_the_seats_that_would_be_given(cluster):
    """Of a gang that could start at once every member's node is named."""
    cluster.gang("small", 2, gpus=8)

    said = await cluster.say_offline("explain", "small", "-n", "team")

    assert said.out.count("(planned)") == 2


async def test_explain_finds_a_pod_without_a_gang(cluster):
    """A pod alone goes by its own name."""
    cluster.pod("single", gpus=1)

    assert "team/single is waiting" in (await cluster.say_offline("explain", "team/single")).out


async def test_a_gang_that_is_not_there(cluster):
    """The answer is no: exit code 1, and where to look."""
    said = await cluster.say_offline("explain", "team/nobody")

    assert said.code == 1
    assert "list -A" in said.err


@pytest.mark.parametrize("words", [["explain", "a/b/c"], ["explain", "/x"], ["explain", "a/b", "-n", "c"]])
async def test_a_name_that_is_none(cluster, words):
    """A wrong name is a wrong question: exit code 2, and how to write it."""
    said = await cluster.say(*words)

    assert said.code == 2
    assert "gangwright:" in said.err


@pytest.mark.parametrize("forbidden", [False, True])
async def test_a_gang_that_is_suspended(cluster, forbidden):
    """It has no pods, so it is no gang: whose Job is suspended is told that, and how it goes on."""
    cluster.put("mine", JOBS, "team", spec=dict(a_job(name="mine", suspend=True)["spec"]))
    if forbidden:
        cluster.barred[JOBS] = Refuse(403)

    said = await cluster.say_offline("explain", "team/train")

    assert said.code == 1
    assert ("job/mine is suspended" in said.err) != forbidden
    assert ("gangwright resume team/train" in said.err) != forbidden


async def test_suspended_gangs_are_listed(cluster):
    """Behind all others, by the Jobs that are read anyway: their state, and how they go on."""
    cluster.gang("waits", 1)
    cluster.put("nightly", EVERY_JOB, "team", spec=dict(a_job(size=3, suspend=True)["spec"]))
    cluster.put("day", EVERY_JOB, "team", spec=dict(a_job(gang="day")["spec"]))

    said = await cluster.say_offline("list", "-n", "team")
    wide = await cluster.say_offline("list", "-n", "team", "-o", "wide")

    assert [(own["GANG"], own["STATE"], own["MEMBERS"], own["REASON"]) for own in said.rows] == [
        ("waits", "waiting", "0/1", "Queued"),
        ("train", "suspended", "0/3", "Suspended"),
    ]
    assert "use: gangwright resume NAMESPACE/GANG" in said.err
    assert "gangwright resume team/train" in wide.out


async def test_a_suspended_gang_is_explained_by_its_row(cluster):
    """What the list knows is said without a further question."""
    cluster.put("nightly", EVERY_JOB, "team", spec=dict(a_job(suspend=True)["spec"]))
    cluster.barred[JOBS] = Refuse(403)

    said = await cluster.say_offline("explain", "team/train")

    assert (said.code, said.out) == (1, "")
    assert "nightly; to resume it, run: gangwright resume team/train" in said.err


@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_the_same_answer_for_programs(cluster, form):
    """JSON and YAML hold one answer, in the shapes of the status API."""
    cluster.gang("one", 1)

    said = await cluster.say_offline("list", "-n", "team", "-o", form)

    (row,) = getattr(said, form)
    assert (row["name"], row["position"], row["members"]["needed"]) == ("one", 1, 1)


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
async def test_a_strangers_text_does_nothing_to_the_terminal(cluster, form):
    """Control characters, markup and characters that hide others are shown, not obeyed."""
    cluster.pod("bad", annotations={"gangwright.io/strategy": HOSTILE})

    for words in (["queue"], ["explain", "team/bad"], ["list", "-A"]):
        said = await cluster.say_offline(*words, "-o", form)

        assert said.code == 0, said.err
        assert all(c.isprintable() or c == "\n" for c in said.out)
    assert "[bold]" in said.out or form == "table"


async def test_nodes_that_may_not_be_read(cluster):
    """Without the right to read nodes there is no answer: exit code 2, what was refused, and what to do."""
    cluster.refusals.extend(Refuse(403) for _ in range(12))

    said = await cluster.say_offline("list")

    assert said.code == 2
    assert "403" in said.err
    assert "kubectl auth can-i" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    "words",
    [("list",), ("list", "--offline"), ("nodes",), ("suspend", "team/g"), ("list", "--server", "pod")],
)
def test_a_cluster_that_is_not_there(tmp_path, words):
    """An API server that does not answer is named once, with what to try, and not tried again: exit code 2."""
    from tests.cli.support.speaking import say
    from tests.kube.support.kubeconfig import kubeconfig

    said = say(*words, "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))

    problem, advice = said.err.splitlines()
    assert said.code == 2
    assert "no answer" in problem
    assert "kubectl cluster-info" in advice


async def test_the_settings_of_the_cluster_hold(cluster):
    """They are read from the newest ConfigMap that kustomize made of them, under whatever hash; else the defaults
    are said to be assumed.
    """
    cluster.gang("waits", 4, gpus=8)
    before = await cluster.say_offline("explain", "team/waits", "-o", "json")
    for number, level in enumerate(("area", "host")):
        made = cluster.settings(f"placement: {{level: {level}}}", f"gangwright-settings-{'9b'[number]}f")
        made["metadata"]["creationTimestamp"] = f"2026-01-0{number + 1}T00:00:00Z"
    other = cluster.put("gangwright-settings9", CONFIG_MAPS, "gangwright-system", data={})
    other["metadata"]["creationTimestamp"] = "2026-01-09T00:00:00Z"

    said = await cluster.say_offline("explain", "team/waits", "-o", "json")

    assert ("defaults are assumed" in before.err, "defaults are assumed" in said.err) == (True, False)
    assert (before.json["wishes"]["level"], said.json["wishes"]["level"]) == ("rack", "host")


@pytest.mark.parametrize("known", [True, False], ids=["settings of the cluster", "defaults"])
async def test_the_callers_environment_changes_no_judgement(cluster, monkeypatch, known):
    """Variables that would be settings of the service are none of a command's, whether they are right or unknown."""
    monkeypatch.setenv("GANGWRIGHT_PLACEMENT__STRATEGY", "spread")
    monkeypatch.setenv("GANGWRIGHT_NO_SUCH__SETTING", "1")
    if known:
        cluster.settings("placement: {strategy: pack}")
    cluster.gang("waits", 4, gpus=8)

    said = await cluster.say_offline("explain", "team/waits", "-o", "json")

    assert said.code == 0, said.err
    assert said.json["wishes"]["strategy"] == "pack"


async def test_the_callers_environment_does_not_change_a_settings_file(cluster, monkeypatch, tmp_path):
    """What `--settings` names is read as it is."""
    monkeypatch.setenv("GANGWRIGHT_PLACEMENT__STRATEGY", "spread")
    file = tmp_path / "settings.yaml"
    file.write_text("placement: {strategy: cosine}", encoding="utf-8")
    cluster.gang("waits", 4, gpus=8)

    said = await cluster.say_offline("explain", "team/waits", "-o", "json", "--settings", str(file))

    assert said.json["wishes"]["strategy"] == "cosine"


async def test_a_gang_with_a_wrong_word_is_one_gang(cluster):
    """In the list, and when it is asked for by name: it is refused, and the word is told."""
    for number in (1, 0):
        cluster.pod(f"train-{number}", gang="train", annotations={"gangwright.io/strategy": "packed"})

    said = await cluster.say_offline("explain", "team/train")

    assert said.code == 0
    assert "gangwright.io/strategy: 'packed'" in said.out
    rows = (await cluster.say_offline("list", "-n", "team")).rows
    assert [(own["GANG"], own["STATE"]) for own in rows] == [("train", "refused")]


async def test_who_has_room_and_waits_on(cluster):
    """There is room, and yet the gang has waited long: the person is told to see whether Gangwright runs at all."""
    cluster.gang("waits", 2, gpus=8, created=f"{datetime.now(UTC) - timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}")
    cluster.gang("fresh", 1, gpus=8, created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")

    assert "is Gangwright running" in (await cluster.say_offline("explain", "team/waits")).err
    assert "is Gangwright running" not in (await cluster.say_offline("explain", "team/fresh")).err


async def test_who_has_no_place_stands_by_name(cluster):
    """Behind those that wait, gangs and refused pods are in the order of their names, not in that of their uids."""
    for uid, name in enumerate(("c", "a", "b")):
        made = cluster.pod(name, annotations={"gangwright.io/strategy": "packed"})
        made["metadata"]["uid"] = f"uid-{uid}"

    assert [own["GANG"] for own in (await cluster.say_offline("list", "-n", "team")).rows] == ["a", "b", "c"]


def stands_there(cluster, name, ready):
    """A Pod of Gangwright itself."""
    return cluster.put(
        name, PODS, "gangwright-system", labels={"app.kubernetes.io/name": "gangwright"},
        spec={"schedulerName": "default-scheduler"},
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    )  # fmt: skip


@pytest.mark.parametrize("words", [("explain", "team/waits"), ("list", "-n", "team"), ("queue",)])
async def test_while_nobody_acts_that_is_said(cluster, words):
    """The answer is worked out here and would read alike: that no Pod of Gangwright is ready is said at once, beside
    it, and no more when one is.
    """
    cluster.gang("waits", 2, gpus=8, created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    for number in range(2):
        stands_there(cluster, f"gangwright-{number}", "False")
    away = await cluster.say_offline(*words)
    stands_there(cluster, "gangwright-1", "True")
    back = await cluster.say_offline(*words)

    assert (away.code, back.code) == (0, 0), away.err
    assert "no Pod of Gangwright is ready" in away.err
    assert "no Pod of Gangwright is ready" not in back.err


async def test_nobody_acts_is_said_once(cluster):
    """A gang that has waited long is told why nothing happens, where that is known, and not to go and see as well."""
    cluster.gang("waits", 2, gpus=8)
    stands_there(cluster, "gangwright-0", "False")

    said = (await cluster.say_offline("explain", "team/waits")).err

    assert ("no Pod of Gangwright is ready" in said, "is Gangwright running" in said) == (True, False)


async def test_a_pod_of_a_gang_leads_to_it(cluster):
    """Whoever asks for a member, as kubectl names it, is told which gangs it may be of; not by a mere likeness."""
    cluster.gang("waits", 2)
    cluster.gang("wait", 2)

    member = await cluster.say_offline("explain", "team/waits-0")
    other = await cluster.say_offline("explain", "team/waitsome-0")

    assert (member.code, other.code) == (1, 1)
    assert "a pod of a gang, use: gangwright explain team/waits" in member.err
    assert "a pod of a gang?" not in other.err


async def test_the_settings_are_asked_for_again(cluster):
    """An API server that refuses the first question for a moment costs another try, and not the answer."""
    cluster.gang("waits", 1)
    cluster.refusals.append(Refuse(503))

    said = await cluster.say_offline("list", "-n", "team")

    assert (said.code, [own["GANG"] for own in said.rows]) == (0, ["waits"]), said.err


async def test_who_may_not_look_is_told_whom_to_ask(cluster):
    """Without the right to list nodes and pods everywhere, that the status service answers, once."""
    cluster.refusals.extend(Refuse(403) for _ in range(12))

    said = await cluster.say_offline("explain", "team/waits")

    assert said.code == 2
    assert said.err.count("leave out --offline") == 1


@pytest.mark.parametrize(
    ("leader", "told"), [("gangwright-0", True), ("gangwright-1", False), ("gone", False)]
)
async def test_a_leader_that_is_not_ready_is_named(cluster, leader, told):
    """The Pod whose kube-scheduler holds the Lease acts, and no other: while its extender is away all stands still,
    though the other replica is ready. One that is gone is followed by the other in a moment.
    """
    cluster.gang("waits", 2, gpus=8, created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    stands_there(cluster, "gangwright-0", "False")
    stands_there(cluster, "gangwright-1", "True")
    cluster.put("gangwright", LEASES, "gangwright-system", spec={"holderIdentity": f"{leader}_1-2"})

    said = await cluster.say_offline("explain", "team/waits")

    assert said.code == 0
    assert ("gangwright-0 is the leader but not ready" in said.err) is told
    assert "no Pod of Gangwright is ready" not in said.err


async def test_a_leader_that_goes_is_followed(cluster):
    """It gives its Lease to the other replica, which is ready: a rollout is no alarm."""
    cluster.gang("waits", 2, gpus=8, created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    stands_there(cluster, "gangwright-0", "False")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stands_there(cluster, "gangwright-1", "True")
    cluster.put("gangwright", LEASES, "gangwright-system", spec={"holderIdentity": "gangwright-0_1-2"})

    said = await cluster.say_offline("explain", "team/waits")

    assert said.code == 0
    assert "nothing happens" not in said.err


async def test_a_terminal_that_knows_few_characters(cluster):
    """What it cannot show is shown as an escape, and the answer is told all the same."""
    cluster.gang("g", 2, gpus=9)
    environ = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "PYTHONIOENCODING": "ascii"}
    command = (sys.executable, "-m", "scheduler", "explain", "--offline", "team/g")

    asked = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE, stderr=PIPE)
    out, err = await asked.communicate()

    assert asked.returncode == 0, err
    assert b"MEMBER" in out
    assert rb"\xd7" in out


@pytest.mark.parametrize("word", ["123e456789012345", "1e5", "0o17", "1E+3", "-2e7", "1e5x", "0x1f", "yes"])
def test_a_name_is_a_name_in_every_yaml(word):
    """What YAML 1.2 reads as a number stands in quotes, too; a gang's id may look like one."""
    numbers = re.compile(r"[-+]?(0o[0-7]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)")

    text = as_yaml({"id": word}).removeprefix("id: ").strip()

    assert not numbers.fullmatch(text)
    assert yaml.safe_load(text) == word


async def test_who_waits_in_vain_has_no_place_and_no_start(cluster):
    """Too large for the cluster, or alone above its ceiling: "-", and the reason says that no waiting helps."""
    shares = "queue: {shares: {team: {ceiling: {nvidia.com/gpu: 4}}}}"
    cluster.settings(shares, "gangwright-settings")
    cluster.gang("greedy", 5, gpus=1)
    cluster.gang("huge", 5, gpus=8, namespace="other")
    cluster.gang("waits", 1, gpus=1, namespace="zoo", created="2026-01-01T00:01:00Z")

    said = await cluster.say_offline("queue")
    told = await cluster.say_offline("explain", "team/greedy")

    assert [(own["GANG"], own["PLACE"], own["STARTS"], own["REASON"]) for own in said.rows] == [
        ("waits", "1", "now", "Queued"),
        ("huge", "-", "-", "ExceedsCluster"),
        ("greedy", "-", "-", "QuotaExceeded"),
    ]
    assert "needs 5 of nvidia.com/gpu, above the ceiling of 4; waiting does not help" in told.out
    assert "starts" not in told.out
    assert "place in the queue" not in told.out


async def test_a_gang_at_its_ceiling_starts_when_its_namespace_has_left_enough(cluster):
    """Though there is room now. One of another namespace that needs as much starts at once."""
    shares = "queue: {shares: {team: {ceiling: {nvidia.com/gpu: 4}}}}"
    cluster.settings(shares, "gangwright-settings")
    cluster.gang("runs", 4, node="r0-n0", annotations={"gangwright.io/expected-runtime": "1h"})
    cluster.gang("capped", 2, created="2026-01-01T00:01:00Z")

    rows = (await cluster.say_offline("queue")).rows

    assert [(own["GANG"], own["PLACE"], own["REASON"]) for own in rows] == [("capped", "1", "QuotaExceeded")]
    assert rows[0]["STARTS"].startswith("in ")


async def test_a_gang_that_is_over_is_explained_and_not_listed(cluster):
    """Its completed pods are there for as long as their Job is."""
    cluster.gang("done", 2, node="r0-n0")
    cluster.gang("runs", 2, node="r0-n1")
    for number, phase in enumerate(("Succeeded", "Failed")):
        cluster.objects[PODS]["team", f"done-{number}"]["status"] = {"phase": phase}

    rows = (await cluster.say_offline("list", "-n", "team")).rows
    told = (await cluster.say_offline("explain", "team/done")).out

    assert [own["GANG"] for own in rows] == ["runs"]
    assert told.startswith(
        "team/done is over: Finished\n  All pods of the gang have finished: 1 succeeded, 1 failed\n"
    )
    assert "0 created, 2 required, 1 scheduled, 0 running" in told


async def test_room_that_is_held_is_not_said_to_be_there(cluster):
    """There are free nodes. Who stays beyond the start of the first gang is told for which they are held."""
    for name, node in (("one", "r0-n0"), ("two", "r0-n1")):
        cluster.gang(name, 1, gpus=8, node=node, annotations={"gangwright.io/expected-runtime": "1h"})
    cluster.gang("head", 4, gpus=8)
    cluster.gang(
        "young",
        1,
        gpus=8,
        created="2026-01-01T00:01:00Z",
        annotations={"gangwright.io/expected-runtime": "9h"},
    )

    told = (await cluster.say_offline("explain", "team/young")).out

    assert told.startswith("team/young is waiting: CapacityReserved\n")
    assert "; the remaining free capacity is reserved for team/head\n" in told
    assert "there is room for it now" not in told
    assert "starts: now" not in told


async def test_explain_names_the_gang_that_preempts_first(cluster):
    """Nodes are free and kept for it: a gang behind it is told its name, and not only that there is no room."""
    for node in ("r0-n0", "r0-n1", "r1-n0"):
        cluster.gang(f"on-{node}", 1, gpus=8, node=node)
    cluster.gang("urgent", 2, gpus=8, priority=1000)
    cluster.gang("behind", 1, gpus=8, created="2026-01-01T00:01:00Z")

    urgent = (await cluster.say_offline("explain", "team/urgent")).out
    behind = (await cluster.say_offline("explain", "team/behind")).out

    assert "would preempt: team/on-r" in urgent
    assert "the gang would preempt 1 pod and start when all of them have terminated" in urgent
    assert behind.startswith("team/behind is waiting: InsufficientResources\n")
    assert (
        "reserved for: team/urgent, ahead of this gang; it starts when its victims have terminated" in behind
    )


def test_victims_of_one_gang_are_one_line():
    """Pods that leave in the same way are counted together."""
    pods = [
        VictimRow(key, "room", gang, kind, 1, 5, 60.0, "evict")
        for key, gang, kind in (
            ("a", "elastic", "surplus"),
            ("b", "other", "gang"),
            ("a", "elastic", "surplus"),
        )
    ]

    assert [(own.gang, own.pods, own.lost) for own in by_gang(pods)] == [
        ("elastic", 2, 120.0),
        ("other", 1, 60.0),
    ]


async def test_a_gang_that_will_be_ended_says_when(cluster):
    """How long it may run, and how much of that is left."""
    cluster.gang("runs", 2, node="r0-n0", annotations={"gangwright.io/max-runtime": "8h"})

    told = (await cluster.say_offline("explain", "team/runs")).out

    assert "  max runtime: 8h, reached in " in told
