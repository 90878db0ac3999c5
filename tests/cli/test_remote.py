"""The status service asked by the command line: through the API server, at its URL, and in its Pod."""

import asyncio
import os
import struct
import sys
from asyncio.subprocess import PIPE
from dataclasses import replace
from types import SimpleNamespace

import pytest
from aiohttp import WSMsgType, web

from scheduler.cli import history_command, live_table
from scheduler.cli.status_client import STANDINGS, TRIES, StatusClient
from scheduler.cli.submission import PRIORITIES
from scheduler.elastic.job.status import Phase, Status
from scheduler.elastic.job.status_json import encode_status
from scheduler.engine.explanation import Found
from scheduler.errors import Unreachable
from scheduler.model.decision import TEXT, Reason
from scheduler.model.events import PodGone
from scheduler.model.workload import GangKey
from scheduler.status.accounting import HistoryRow
from scheduler.status.api_group import Standing
from scheduler.status.operator_api import Drained, Moved, OperatorError, Trial, cannot_tell
from scheduler.status.schemas import PreemptedRow
from tests.cli.support.manifests import a_job
from tests.cli.support.speaking import CONFIG_MAPS, GPU, Cluster
from tests.kube.support.api_server import PODS, Refuse
from tests.kube.support.kubeconfig import kubeconfig
from tests.status.support.reviewing import ADMIN, BOB, everybody
from tests.status.support.scene import a_scene
from tests.status.support.served import served

KEEPER = "token-of-keeper"
AWAY = "http://127.0.0.1:1"
JOBS = "/apis/gangwright.io/v1alpha1/namespaces/team-b/elasticjobs"
SYSTEM = "/api/v1/namespaces/gangwright-system/pods"


class Doorway(Cluster):
    """A cluster whose kubelets forward ports: those of Pods named in `ports` to that port of this machine."""

    def __init__(self, folder, token=ADMIN):
        super().__init__(folder)
        self.objects[SYSTEM] = {}
        self.ports = {}
        self.token = token
        self.protocols = ("v4.channel.k8s.io",)
        """Spoken on the WebSockets of forwarded ports; None: no WebSocket is opened."""

    @property
    def kubeconfig(self):
        return kubeconfig(self._folder, self.url, user={"token": self.token})

    def runs(self, name, port):
        labels = {"app.kubernetes.io/name": "gangwright"}
        self.put(name, SYSTEM, "gangwright-system", labels=labels, status={"phase": "Running"})
        self.ports[name] = port

    async def _answer(self, request):
        if not request.path.endswith("/portforward"):
            return await super()._answer(request)
        if self.protocols is None:
            return web.Response(status=400, text="Upgrade request required")
        socket = web.WebSocketResponse(protocols=self.protocols)
        await socket.prepare(request)
        if not self.protocols:
            return socket
        assert socket.ws_protocol == "v4.channel.k8s.io"
        for channel in (0, 1):
            await socket.send_bytes(bytes((channel,)) + struct.pack("<H", int(request.query["ports"])))
        await self._carry(socket, self.ports[request.path.split("/")[-2]])
        return socket

    async def _carry(self, socket, port):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await socket.send_bytes(b"\x01nobody listens there")
            return

        async def back():
            while chunk := await reader.read(1000):
                await socket.send_bytes(b"\x00" + chunk)

        task = asyncio.create_task(back())
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            assert message.data[0] == 0
            writer.write(message.data[1:])
        task.cancel()
        writer.close()


class OperatorService:
    """What the service would do."""

    def __init__(self):
        self.left = 2
        self.asked = 0
        self.instead = {}
        """By the number of the question, what is done in place of an answer."""

    def forecasts(self):
        return {}

    def victims(self, _gang):
        return ()

    async def inquire(self, _gang):
        return Found()

    async def drain(self, node, by):
        self.asked += 1
        self.instead.get(self.asked, lambda: None)()
        self.left -= 1
        moves = () if self.left <= 0 else (Moved(next(iter(self.gangs)), 1, f"moves away from {node}"),)
        return Drained(not moves, moves)


@pytest.fixture
async def door(tmp_path):
    async with Doorway(tmp_path) as made:
        yield made


@pytest.fixture
async def service():
    world = a_scene()
    operator = OperatorService()
    operator.gangs = world.engine.ledger.registry.gangs
    known = everybody()
    known.know(KEEPER, "keeper", ("patch", "nodes", ""), ("create", "pods/eviction", ""))
    async with served(world.engine, known, operator=operator, endless=True) as running:
        running.engine, running.operator = world.engine, operator
        yield running


# ── through the API server ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def behind(door, service):
    """The API server passes the status API's paths on to the service."""
    door.service = service.url
    return door


QUESTIONS = (("list", "-A"), ("queue",), ("explain", "team-b/huge"), ("nodes", "-o", "wide"))


@pytest.mark.parametrize("words", QUESTIONS)
async def test_the_service_answers_without_an_option(behind, words):
    """The API server leads to it, and nothing that it answers is read of the cluster."""
    said = await behind.say(*words)

    assert (said.code, said.err) == (0, "")
    assert "huge" in said.out or "train" in said.out
    assert [call.path for call in behind.calls if call.path != f"{JOBS}/huge"] == []


async def test_the_service_tries_out_and_drains_without_an_option(behind, service, write):
    """What changes nothing, and what acts."""
    service.operator.simulate = lambda _pods: asyncio.sleep(
        0, Trial(Reason.INSUFFICIENT_RESOURCES, TEXT[Reason.INSUFFICIENT_RESOURCES])
    )
    node = service.engine.snapshot().names[0]

    foretold = await behind.say("simulate", "-f", write(a_job("thought", gang="thought")), "-n", "team-a")
    drained = await behind.say("drain", node)

    assert (foretold.code, foretold.rows[0]["ANSWER"]) == (1, "waits")
    assert (drained.code, f"moves away from {node}" in drained.out) == (1, True)
    assert behind.passed[-1] == f"/v1/nodes/{node}/drain"


async def test_what_a_dry_run_may_not_read_is_no_matter(behind, service, write):
    """The service has its settings; that priorities are not known is said, since they are told by the asker."""
    service.operator.simulate = lambda _pods: asyncio.sleep(
        0, Trial(Reason.INSUFFICIENT_RESOURCES, TEXT[Reason.INSUFFICIENT_RESOURCES])
    )
    behind.barred |= {CONFIG_MAPS: Refuse(403), PRIORITIES: Refuse(403)}

    said = await behind.say("simulate", "-f", write(a_job("thought", gang="thought")), "-n", "team-a")

    assert said.code == 1
    assert said.err.startswith("you may not read priority classes; priority 0 is assumed\n")
    assert "defaults are assumed" not in said.err


INSTEAD = {
    "not installed": ("", None, "is not installed behind this API server (404)"),
    "away": (AWAY, None, "no replica of the status service answers the API server"),
    "an APIService without endpoints": (
        "",
        Refuse(503, body=b"service unavailable\n"),
        "answers the API server",
    ),
    "forbidden": ("", Refuse(403), "does not let you use the status service, or Gangwright is not installed"),
}


@pytest.mark.parametrize("case", INSTEAD)
async def test_a_service_that_is_not_there(door, case):
    """Which it is, and that the answer can be worked out: that is not done unasked."""
    door.service, refusal, told = INSTEAD[case]
    door.refusals.extend([refusal] if refusal else [])

    said = await door.say("list")

    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert told in said.err
    assert "use --offline to compute the answer from what you may read" in said.err
    assert PODS not in {call.path for call in door.calls}


async def test_no_drain_without_a_service(door):
    """Nothing else could do it."""
    said = await door.say("drain", "r0-n0")

    assert (said.code, "is not installed" in said.err, "--offline" in said.err) == (2, True, False)


async def test_credentials_that_the_api_server_does_not_believe(door):
    """They are told of as everywhere, and not as a service that is not there."""
    door.refusals.append(Refuse(401))

    said = await door.say("list")

    assert (said.code, "log in to the cluster again" in said.err) == (2, True)


@pytest.mark.parametrize("words", QUESTIONS)
async def test_a_standby_replica_is_asked_again(behind, words):
    """The next request may meet the active one, whose answer it is then."""
    behind.standings.extend([Standing.STANDBY] * 2)

    said = await behind.say(*words)

    assert (said.code, said.err) == (0, "")
    assert behind.passed[0] == behind.passed[1] == behind.passed[2]


async def test_where_all_replicas_stand_by_that_is_said(behind):
    """After some tries a standby's answer is shown, with one line about it."""
    behind.standings.extend([Standing.STANDBY] * TRIES)

    said = await behind.say("list", "-A")

    assert (said.code, "huge" in said.out) == (0, True)
    assert said.err == STANDINGS[Standing.STANDBY] + "\n"
    assert behind.passed == ["/v1/gangs"] * TRIES


@pytest.mark.parametrize("standing", [Standing.READING, Standing.STALE])
@pytest.mark.parametrize("words", QUESTIONS)
async def test_a_replica_that_may_be_wrong_says_so(behind, standing, words):
    """Beside its answer, and it is not asked again: another would know no more."""
    behind.standings.extend([standing] * 2)

    said = await behind.say(*words)

    assert (said.code, said.err) == (0, STANDINGS[standing] + "\n")
    assert len(set(behind.passed)) == len(behind.passed)


async def test_an_elastic_job_is_read_with_the_askers_rights(behind):
    """The service does not know it. Where it may not be read the rest is told without a word about that."""
    over = Status(phase=Phase.FAILED, reason="Worker processes failed 7 times in a row")
    behind.put("ended", JOBS, "team-b", spec={}, status=encode_status(over))

    told = await behind.say("explain", "team-b/ended")
    behind.barred[f"{JOBS}/ended"] = Refuse(403)
    untold = await behind.say("explain", "team-b/ended")

    assert "elastic job: Failed: Worker processes failed 7 times in a row" in told.err
    assert (untold.code, "elastic job" in untold.err, "403" in untold.err) == (1, False, False)


CONTRADICTIONS = {
    "no service, and which": (("list", "--offline", "--server", "pod"), "--server = 'pod'"),
    "settings of a service": (("queue", "--settings", "s.yaml"), "--settings = 's.yaml': requires --offline"),
    "a trace of a service": (
        ("simulate", "-f", "job.yaml", "--trace"),
        "--trace = True: requires a local computation. Add --offline",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
async def test_options_that_contradict_each_other(door, case):
    """Are named, with the remedy."""
    words, named = CONTRADICTIONS[case]

    said = await door.say(*words)

    assert (said.code, named in said.err) == (2, True), said


@pytest.mark.parametrize("words", [("list",), ("queue",), ("nodes",), ("explain", "team/g")])
async def test_an_answer_that_is_worked_out_says_what_it_cannot_know(cluster, words):
    """In one line; no service is asked."""
    cluster.gang("g", 1)

    said = await cluster.say_offline(*words)

    assert said.code == 0
    assert (
        said.err.count(
            "computed locally from what you may read; only the status service knows reservations, back-offs"
        )
        == 1
    )
    assert cluster.passed == []


LATE = {"kubernetes", "aiohttp", "numpy", "structlog", "stamina", "prometheus_client"}


@pytest.mark.slow
async def test_a_list_loads_no_more_than_it_needs(behind):
    """Neither the Kubernetes client nor an event loop's HTTP client, numbers or logging: it comes at once."""
    told = (
        "import sys, atexit; from scheduler.cli import main\n"
        f"atexit.register(lambda: print(sorted({LATE} & sys.modules.keys()), file=sys.stderr))\n"
        "main(['list', '-A'])"
    )
    environ = {**os.environ, "KUBECONFIG": behind.kubeconfig}

    asked = await asyncio.create_subprocess_exec(
        sys.executable, "-c", told, env=environ, stdout=PIPE, stderr=PIPE
    )
    out, err = await asked.communicate()

    assert b"huge" in out
    assert err.splitlines()[-1] == b"[]"


# ── at its URL, and in its Pod ──────────────────────────────────────────────────────────────────────────


async def test_the_service_answers_list(door, service):
    """With a URL the service's own gangs are shown, in the same columns."""
    said = await door.say("list", "-A", "--server", service.url)

    assert said.code == 0, said.err
    assert {own["GANG"]: own["STATE"] for own in said.rows}["train"] in {"bound", "running"}
    assert door.calls == []


@pytest.mark.parametrize("words", [["list", "-A"], ["list", "--pending", "-A"]])
async def test_gangs_are_chosen_by_labels(door, service, words):
    """The service compares the labels of each gang's first pod. Blanks, as kubectl takes them, are taken too."""
    huge = service.engine.ledger.registry.gangs[GangKey("team-b", "huge")]
    for member in huge.members.values():
        member.see(replace(member.pod, labels="app=llm,team=vision"))

    chosen = await door.say(*words, "--server", service.url, "-l", "team=vision, app!=web")
    wrong = await door.say(*words, "--server", service.url, "-l", "team in (vision)")

    assert [own["GANG"] for own in chosen.rows] == ["huge"], chosen.err
    assert (wrong.code, "KEY!=VALUE" in wrong.err) == (2, True)


@pytest.mark.parametrize("terminal", [True, False])
async def test_list_is_watched(door, service, monkeypatch, terminal):
    """The service is asked again until the person interrupts; in a pipe only another table is printed again."""
    looks = []
    huge = service.engine.ledger.registry.gangs.get(GangKey("team-b", "huge"))

    def pause(_seconds):
        looks.append(1)
        if len(looks) == 3:
            for uid in list(huge.members)[6:]:
                del huge.members[uid]
        if len(looks) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(live_table, "time", SimpleNamespace(sleep=pause))
    monkeypatch.setenv("FORCE_COLOR", "1" if terminal else "")
    said = await door.say("list", "-A", "-w", "--server", service.url)

    assert (said.code, len(looks), door.calls) == (0, 5, []), said.err
    assert said.out.count("PLACE") >= 5 if terminal else said.out.count("PLACE") == 2
    assert ("\x1b[" in said.out) is terminal


async def test_a_service_that_is_away_for_a_moment_is_asked_again(door, service, monkeypatch):
    """What it does not answer is noted once, and the watch goes on. Its first answer is needed."""
    looks, was = [], StatusClient.gangs

    def gangs(*words):
        if 0 < len(looks) < 3:
            raise Unreachable("GET /v1/gangs", "no answer")
        return was(*words)

    def pause(_seconds):
        looks.append(1)
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(StatusClient, "gangs", gangs)
    monkeypatch.setattr(live_table, "time", SimpleNamespace(sleep=pause))
    said = await door.say("list", "-A", "-w", "--server", service.url)
    never = await door.say("list", "-A", "-w", "--server", "http://127.0.0.1:1")

    assert (said.code, said.err.count("retrying"), said.out.count("PLACE")) == (0, 1, 1)
    assert (never.code, never.out) == (2, "")


async def test_the_url_may_stand_in_the_environment(door, service):
    """$GANGWRIGHT_SERVER is as good as the flag."""
    from tests.cli.support.speaking import say

    said = await asyncio.to_thread(say, "queue", KUBECONFIG=door.kubeconfig, GANGWRIGHT_SERVER=service.url)

    assert "huge" in {own["GANG"] for own in said.rows}


async def test_explain_and_nodes(door, service):
    """One gang in full, all nodes; a gang that is not there is a no."""
    explained = await door.say("explain", "team-b/huge", "--server", service.url)
    nodes = await door.say("nodes", "--server", service.url, "-o", "json")
    nobody = await door.say("explain", "team-b/nobody", "--server", service.url)

    assert "team-b/huge is waiting" in explained.out
    assert len(nodes.json["nodes"]) == 8
    assert nobody.code == 1


async def test_a_service_that_still_reads_denies_nobody(door):
    """Before every list is read it does not say that there is no such gang: it says that it is reading."""
    world = a_scene()
    world.engine.ledger.synced = False

    async with served(world.engine, everybody(), operator=OperatorService(), endless=True) as service:
        said = await door.say("explain", "team-b/nobody", "--server", service.url)

    assert said.code == 2
    assert "still reading the cluster" in said.err


async def test_through_the_api_server(door, service):
    """`--server pod` finds the Pod that acts and speaks with it over a forwarded port; the token arrives."""
    door.runs("gangwright-0", 1)
    door.runs("gangwright-1", service.port)

    said = await door.say("list", "-A", "--server", "pod")

    assert (said.code, said.err) == (0, "")
    assert "train" in {own["GANG"] for own in said.rows}


async def test_the_pods_may_not_be_listed(door):
    """Who lacks the role for people is told its name: exit code 2."""
    door.refusals.append(Refuse(403))

    said = await door.say("list", "--server", "pod")

    assert said.code == 2
    assert "the ClusterRole gangwright-view there" in said.err


async def test_nobody_listens_in_the_pod(door):
    """What the kubelet said is told, with the Pod: exit code 2."""
    door.runs("gangwright-0", 1)

    said = await door.say("list", "--server", "pod")

    assert said.code == 2
    assert "gangwright-0: nobody listens there" in said.err


@pytest.mark.parametrize("protocols", [None, ()])
async def test_an_api_server_without_websockets(door, service, protocols):
    """Where ports are forwarded over SPDY alone, or the wish for a WebSocket is not passed on, that is said, and what
    to do.
    """
    door.runs("gangwright-0", service.port)
    door.protocols = protocols

    said = await door.say("list", "--server", "pod")

    assert said.code == 2
    assert "does not support WebSockets with v4.channel.k8s.io" in said.err
    assert "run `kubectl port-forward`" in said.err


async def test_no_pod_runs(door):
    """Without a Pod there is nobody to ask, and what else can be done is said."""
    said = await door.say("list", "--server", "pod")

    assert (said.code, "found no running Pod of Gangwright" in said.err) == (2, True)


async def test_nobody_listens_at_the_url(door):
    """A service that does not answer is told from a cluster that does not: exit code 2."""
    said = await door.say("list", "--server", "http://127.0.0.1:1")

    assert said.code == 2
    assert "the port-forward is up" in said.err
    assert "cluster-info" not in said.err


@pytest.mark.parametrize("url", ["ftp://x", "status", "http://10.0.0.1:10272", "http://example.com"])
async def test_a_token_is_not_sent_in_clear(door, url):
    """A server that is no URL, or would be told the token without TLS, is refused."""
    said = await door.say("list", "--server", url)

    assert (said.code, "--server" in said.err) == (2, True)


async def test_somebody_unknown(door, service):
    """A token that nobody knows: exit code 2, and how to get one."""
    door.token = "nobodys"

    said = await door.say("list", "--server", service.url)

    assert said.code == 2
    assert "401" in said.err
    assert "kubectl create token" in said.err


async def test_without_the_right_to_see(tmp_path, service):
    """Other tenants' gangs are shown without their names."""
    async with Doorway(tmp_path, token=BOB) as door:
        said = await door.say("list", "-A", "--server", service.url)

    assert {own["NAMESPACE"] for own in said.rows} == {"(hidden)"}
    assert "train" not in said.out


async def test_a_dry_run_by_a_service_that_offers_none(door, service, write):
    """What the service cannot do is told in its words: exit code 2."""
    said = await door.say(
        "simulate", "-f", write(a_job("thought", gang="thought")), "-n", "team-a", "--server", service.url
    )

    assert said.code == 2
    assert "the status service:" in said.err


@pytest.mark.parametrize(
    ("reason", "answer"), [(Reason.INSUFFICIENT_RESOURCES, "waits"), (Reason.CONFLICT, "refused")], ids=str
)
async def test_a_dry_run_of_pods_that_get_no_seat(door, service, write, reason, answer):
    """They are counted as those that would get one, and whoever is refused does not wait."""
    service.operator.simulate = lambda _pods: asyncio.sleep(0, Trial(reason, TEXT[reason]))

    said = await door.say(
        "simulate", "-f", write(a_job("thought", gang="thought")), "-n", "team-a", "--server", service.url
    )

    assert said.code == 1
    assert [(own["PODS"], own["ANSWER"]) for own in said.rows] == [("2", answer)]


async def test_a_dry_run_that_cannot_be_told(door, service, write):
    """What the service cannot tell is not a yes and not a no: exit code 2, and the field that it is about."""
    field = "spec.volumes: a claim is not bound yet"
    said = Trial(Reason.UNSUPPORTED_FIELD, cannot_tell([field]))
    service.operator.simulate = lambda _pods: asyncio.sleep(0, said)
    words = (
        "simulate",
        "-f",
        write(a_job("thought", gang="thought")),
        "-n",
        "team-a",
        "--server",
        service.url,
    )

    table, told = await door.say(*words), await door.say(*words, "-o", "json")

    (row,) = table.rows
    assert (table.code, row["ANSWER"], field in row["MESSAGE"]) == (2, "cannot tell", True)
    assert (told.code, told.json[0]["answer"], told.json[0]["starts"]) == (2, "cannot tell", False)


@pytest.mark.parametrize("disk", [{"gcePersistentDisk": {"pdName": "d"}}, {"ephemeral": {}}])
async def test_what_a_pod_asks_of_its_node_reaches_the_service(door, service, write, disk):
    """Also a part of which its being there is all that counts: the service finds the same fields as is found here."""
    asked = []
    service.operator.simulate = lambda pods: asyncio.sleep(
        0, asked.extend(pods) or Trial(Reason.INSUFFICIENT_RESOURCES, "")
    )
    job = a_job("thought", gang="thought", spec={"volumes": [{"name": "data", **disk}]})

    await door.say("simulate", "-f", write(job), "-n", "team-a", "--server", service.url)

    assert len(asked) == 2
    assert all(pod.unmodeled for pod in asked)


async def test_a_dry_run_of_a_gang_that_runs_at_the_service(door, service, write):
    """A gang that is there is told as it is, and the service is asked about no pods."""
    said = await door.say(
        "simulate", "-f", write(a_job("train", 4)), "-n", "team-a", "--server", service.url, "-o", "json"
    )

    (own,) = said.json
    assert (said.code, own["answer"], own["starts"]) == (0, "runs", True)
    assert len(own["seats"]) == 4


async def test_a_dry_run_of_a_gang_that_waits_at_the_service(door, service, write):
    """A gang that waits already says so, with its place and its reason: exit code 1."""
    said = await door.say(
        "simulate", "-f", write(a_job("huge", 12, gang="huge")), "-n", "team-b", "--server", service.url
    )

    (row,) = said.rows
    assert (said.code, row["ANSWER"], row["REASON"]) == (1, "waits", "InsufficientResources")
    assert row["MESSAGE"].startswith(
        "a gang with this name already exists and is waiting, place 1 in the queue: "
    )


async def test_drain(door, service):
    """The service moves gangs; 1 while something is left on the node, 0 when nothing is; --wait asks until then."""
    node = service.engine.snapshot().names[0]

    first = await door.say("drain", node, "--server", service.url)
    second = await door.say("drain", node, "--server", service.url, "--wait", "-o", "json")

    assert (first.code, f"moves away from {node}" in first.out) == (1, True)
    assert (second.code, second.json["done"]) == (0, True)


@pytest.mark.slow
async def test_drain_says_what_it_waits_for_and_what_next(door, service):
    """--wait names what is still on the node, once, beside the answer; whoever did not wait is told how to go on."""
    node = service.engine.snapshot().names[0]

    asked = await door.say("drain", node, "--server", service.url)
    service.operator.left = 3
    waited = await door.say("drain", node, "--server", service.url, "--wait")

    assert "run the command again or use --wait" in asked.err
    assert waited.err.count(f"1 on the node: moves away from {node}") == 1
    assert waited.out == f"node {node}: no pods of Gangwright are left\n"


def refuses():
    raise OperatorError("this replica does not act, or does not see the cluster")


@pytest.mark.slow
async def test_drain_waits_for_a_service_that_begins_anew(door, service):
    """Once it answered, --wait asks again whatever else happens to it: it looks on, or nobody listens where it was;
    each is told once.
    """
    door.runs("gangwright-0", service.port)
    node, loop = service.engine.snapshot().names[0], asyncio.get_running_loop()

    def goes():
        door.ports["gangwright-0"] = 1
        loop.call_later(3.0, door.ports.update, {"gangwright-0": service.port})

    service.operator.left, service.operator.instead = 3, {2: refuses, 3: goes}
    said = await door.say("drain", node, "--wait", "--server", "pod")

    assert (said.code, said.out) == (0, f"node {node}: no pods of Gangwright are left\n"), said
    assert said.err.count("retrying") == 2


@pytest.mark.slow
async def test_drain_waits_no_longer_than_it_was_told(door, service):
    """A service that does not come back within --timeout is an error, and so is one that refuses from the first."""
    node = service.engine.snapshot().names[0]
    service.operator.left, service.operator.instead = 9, dict.fromkeys(range(2, 99), refuses)
    waited = await door.say("drain", node, "--server", service.url, "--wait", "--timeout", "3s")
    service.operator.instead = dict.fromkeys(range(99), refuses)
    asked = service.operator.asked
    first = await door.say("drain", node, "--server", service.url, "--wait")

    assert (waited.code, first.code) == (2, 2)
    assert "does not act" in waited.err
    assert service.operator.asked == asked + 1


async def test_drain_of_what_may_not_be_seen(tmp_path, service):
    """Who keeps nodes and may list no pods is told why no gang is named."""
    async with Doorway(tmp_path, token=KEEPER) as door:
        said = await door.say("drain", service.engine.snapshot().names[0], "--server", service.url)

    assert (said.code, "namespaces whose pods you may not list" in said.err) == (1, True), said


async def test_the_service_tells_shares(door, service):
    """Who may not list pods of a namespace sees it in the sums alone."""
    everything = await door.say("shares", "--server", service.url)
    door.token = BOB
    hidden = await door.say("shares", "--server", service.url)

    assert [own["NAMESPACE"] for own in everything.rows] == ["team-a", "team-b"]
    assert [own["NAMESPACE"] for own in hidden.rows] == ["(2 others)"]
    assert {own["USED"] for own in hidden.rows} == {"17"}


async def test_the_service_tells_what_ended(door, service):
    """In one line it also says that it forgets; one namespace or all, as many as asked for."""
    members = [own for gang in service.engine.ledger.registry.gangs.values() for own in gang.members.values()]
    pods = {own.pod.key.name: own.pod for own in members}
    for name in ("late-0", "late-1", "solo"):
        service.engine.observe([PodGone(pods[name].uid, pods[name].key)], 100.0)

    everything = await door.say("history", "-A", "--server", service.url)
    one = await door.say("history", "-n", "team-b", "--limit", "1", "--server", service.url)
    document = await door.say("history", "-A", "-o", "json", "--server", service.url)

    assert [(own["NAMESPACE"], own["GANG"], own["OUTCOME"]) for own in everything.rows] == [
        ("team-a", "solo", "deleted"),
        ("team-b", "late", "deleted"),
    ]
    assert everything.rows[0]["HOURS"].endswith(GPU)
    assert everything.rows[0]["ENDED"] == "1970-01-01 00:01:40Z"
    assert "the history is lost when the service restarts" in everything.err
    assert [own["GANG"] for own in one.rows] == ["late"]
    assert document.json["gangs"][0]["outcome"] == "deleted"


async def test_what_ended_is_not_known_without_the_service(door):
    """The cluster does not tell: exit code 2, and what to do."""
    said = await door.say_offline("history", "-A")

    assert said.code == 2
    assert "only the status service knows finished gangs" in said.err


@pytest.mark.parametrize(
    ("gang", "words"),
    [("high", "preempted by team/high"), (None, "preempted by a gang in another namespace")],
)
def test_the_winner_is_named_where_it_may_be(gang, words):
    """Of another namespace it has no name."""
    winner = PreemptedRow("00ff", gang and "team", gang, 7, None, 0.0)
    row = HistoryRow("11ee", "team", "low", None, 1.0, 2.0, {}, "preempted", winner, 0.0)

    assert history_command._how(row) == words
