"""The status service asked by the command line: at its URL, and through the API server in its Pod."""

import asyncio
import struct

import pytest
from aiohttp import WSMsgType, web

from scheduler.cli import history_command, status_client
from scheduler.engine.explanation import Found
from scheduler.errors import GangwrightError
from scheduler.model.decision import TEXT, Reason
from scheduler.model.events import LostSight, PodGone, SawAgain
from scheduler.status.accounting import HistoryRow
from scheduler.status.operator_api import Drained, Moved, OperatorError, Trial, cannot_tell
from scheduler.status.schemas import PreemptedRow
from tests.cli.support.manifests import a_job
from tests.cli.support.speaking import GPU, Cluster
from tests.kube.support.api_server import Refuse
from tests.kube.support.kubeconfig import kubeconfig
from tests.status.support.reviewing import ADMIN, BOB, everybody
from tests.status.support.scene import a_scene
from tests.status.support.served import served

KEEPER = "token-of-keeper"
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


async def test_the_service_answers_list(door, service):
    """With a URL the service's own gangs are shown, in the same columns."""
    said = await door.say("list", "-A", "--server", service.url)

    assert said.code == 0, said.err
    assert {own["GANG"]: own["STATE"] for own in said.rows}["train"] in {"bound", "running"}
    assert door.calls == []


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


@pytest.mark.parametrize(
    ("acting", "events", "told"),
    [
        (False, [], "does not act"),
        (True, [LostSight()], "does not see the cluster"),
        (True, [LostSight(), SawAgain()], ""),
    ],
)
async def test_a_service_that_does_not_act_is_told(door, acting, events, told):
    """Whoever asks a replica that looks on, or one that has lost sight, is told beside the answer that nothing is
    decided there.
    """
    world = a_scene(acting=acting)
    world.engine.ledger.acting = acting
    for event in events:
        world.engine.observe([event], world.now)

    async with served(world.engine, everybody(), operator=OperatorService(), endless=True) as service:
        explained = await door.say("explain", "team-b/huge", "--server", service.url)
        listed = await door.say("list", "-A", "--server", service.url)

    assert (explained.code, listed.code) == (0, 0), explained.err
    for said in (explained, listed):
        assert told in said.err if told else said.err == ""


@pytest.mark.parametrize("words", [("list", "-A"), ("queue",), ("explain", "team-b/huge")])
async def test_who_answered_says_whether_he_acts(door, service, monkeypatch, words):
    """Over the same connection: behind a Service the next one may be another replica's, and say so of itself."""
    opened, was = [], status_client._opened

    def counted(*said):
        opened.append(said)
        return was(*said)

    monkeypatch.setattr(status_client, "_opened", counted)
    said = await door.say(*words, "--server", service.url)

    assert said.code == 0, said.err
    assert len(opened) == 1


@pytest.mark.parametrize("words", [("list", "-A"), ("explain", "team-b/huge"), ("queue", "-o", "json")])
async def test_who_cannot_say_whether_he_acts_is_believed(door, service, monkeypatch, words):
    """An older service says it in other words, and a busy one not at all: its answer is shown all the same."""
    was = status_client._call

    async def half(session, method, path, *rest, **more):
        if path == "/v1/cluster":
            raise GangwrightError("not this version of the status API")
        return await was(session, method, path, *rest, **more)

    monkeypatch.setattr(status_client, "_call", half)
    said = await door.say(*words, "--server", service.url)

    assert (said.code, said.err) == (0, "")
    assert "huge" in said.out


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
    assert "opens no WebSocket with v4.channel.k8s.io" in said.err
    assert "run `kubectl port-forward`" in said.err


async def test_no_pod_runs(door):
    """Without a Pod there is nobody to ask, and what else can be done is said."""
    said = await door.say("list", "--server", "pod")

    assert (said.code, "no Pod of Gangwright runs" in said.err) == (2, True)


async def test_nobody_listens_at_the_url(door):
    """A service that does not answer is told from a cluster that does not: exit code 2."""
    said = await door.say("list", "--server", "http://127.0.0.1:1")

    assert said.code == 2
    assert "is the port-forward up?" in said.err
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
    ("reason", "answer"), [(Reason.NO_ROOM, "waits"), (Reason.CONFLICT, "refused")], ids=str
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
    said = Trial(Reason.UNMODELLED, cannot_tell([field]))
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
    service.operator.simulate = lambda pods: asyncio.sleep(0, asked.extend(pods) or Trial(Reason.NO_ROOM, ""))
    job = a_job("thought", gang="thought", spec={"volumes": [{"name": "data", **disk}]})

    await door.say("simulate", "-f", write(job), "-n", "team-a", "--server", service.url)

    assert len(asked) == 2
    assert all(pod.unmodelled for pod in asked)


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
    assert (said.code, row["ANSWER"], row["REASON"]) == (1, "waits", "NoRoom")
    assert row["MESSAGE"].startswith(
        "a gang of this name is there already and waiting, place 1 in the queue: "
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

    assert "ask again, or with --wait" in asked.err
    assert waited.err.count(f"1 on it: moves away from {node}") == 1
    assert waited.out == f"node {node}: nothing of ours is left\n"


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
    said = await door.say("drain", node, "--wait")

    assert (said.code, said.out) == (0, f"node {node}: nothing of ours is left\n"), said
    assert said.err.count("asked again") == 2


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

    assert [(own["NAMESPACE"], own["GANG"], own["HOW IT ENDED"]) for own in everything.rows] == [
        ("team-a", "solo", "deleted"),
        ("team-b", "late", "deleted"),
    ]
    assert everything.rows[0]["HOURS"].endswith(GPU)
    assert everything.rows[0]["ENDED"] == "1970-01-01 00:01:40Z"
    assert "kept in the service's memory, and lost when it restarts" in everything.err
    assert [own["GANG"] for own in one.rows] == ["late"]
    assert document.json["gangs"][0]["outcome"] == "deleted"


async def test_what_ended_is_not_known_without_the_service(door):
    """The cluster does not tell: exit code 2, and what to do."""
    said = await door.say("history", "-A")

    assert said.code == 2
    assert "only the status service remembers gangs that ended" in said.err


@pytest.mark.parametrize(
    ("gang", "words"),
    [("high", "preempted by team/high"), (None, "preempted by a gang of another namespace")],
)
def test_the_winner_is_named_where_it_may_be(gang, words):
    """Of another namespace it has no name."""
    winner = PreemptedRow("00ff", gang and "team", gang, 7, None, 0.0)
    row = HistoryRow("11ee", "team", "low", None, 1.0, 2.0, {}, "preempted", winner, 0.0)

    assert history_command._how(row) == words
