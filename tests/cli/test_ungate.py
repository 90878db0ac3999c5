"""`gangwright ungate` against an API server in trouble: everybody who can be let go is, and the others are named."""

import asyncio
import json
from collections import Counter, defaultdict, deque

import pytest
import stamina

from scheduler import errors
from scheduler.cli import ungate as room
from scheduler.kube import listing
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from tests.cli.test_cli import gangwright
from tests.kube.support.api_server import PODS, ApiServer, Refuse, status_body
from tests.kube.support.kubeconfig import kubeconfig

TEAM = "/api/v1/namespaces/team/pods"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
GATED = {"schedulingGates": [{"name": "gangwright.io/planned"}]}


class Cluster(ApiServer):
    """An API server whose PATCHes and pages can be made to fail one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.troubles = defaultdict(deque)
        """By pod: what its next PATCHes are answered with."""
        self.expiries = 0
        """So many lists expire after their first page."""
        self.at_once = Counter()
        self.full = asyncio.Event()
        self.full.set()

    async def _object(self, call):
        name = call.path.rpartition("/")[2]
        self.at_once["now"] += 1
        self.at_once["most"] = max(self.at_once["most"], self.at_once["now"])
        if self.at_once["now"] == room.AT_ONCE:
            self.full.set()
        try:
            async with asyncio.timeout(20):
                await self.full.wait()
            return await (
                self._refused(self.troubles[name].popleft()) if self.troubles[name] else super()._object(call)
            )
        finally:
            self.at_once["now"] -= 1

    def _list(self, call):
        if self.expiries and "continue" in call.query:
            self.expiries -= 1
            self.compact()
        return super()._list(call)

    def holds(self, *names, namespaced=True):
        """Pods of `team` that wait at our gate, in the list of their namespace or of the whole cluster."""
        for name in names:
            self.put(name, TEAM, spec=GATED)
            if not namespaced:
                self.put(name, PODS, spec=GATED)

    def patched(self):
        """How often the gate of each pod was asked to go."""
        return Counter(call.path.rpartition("/")[2] for call in self.calls if call.method == "PATCH")


@pytest.fixture(autouse=True)
def _no_waiting():
    """Retries follow at once, four tries in all."""
    stamina.set_testing(True, attempts=4)
    yield
    stamina.set_testing(False)


@pytest.fixture
async def api():
    async with Cluster() as server:
        yield server


@pytest.fixture
async def client(api, tmp_path):
    async with Client(await find_access(kubeconfig(tmp_path, api.url))) as made:
        yield made


async def let_go(client, namespace="team"):
    return await room.let_go(client, await room.gated(client, namespace))


async def test_one_refusal_stops_nobody_else(api, client):
    """Every other pod is let go; the refused one is named with its reason."""
    api.holds("p1", "p2", "p3")
    api.troubles["p2"].append(Refuse(403))

    count, failures = await let_go(client)

    assert count == 2
    assert list(failures) == ["team/p2"]
    assert isinstance(failures["team/p2"], errors.Forbidden)
    assert set(api.patched()) == {"p1", "p2", "p3"}


async def test_what_may_pass_is_tried_again(api, client):
    """Trouble of the API server, in the list or in a PATCH, costs another try and no pod."""
    api.holds("p1")
    api.refusals.append(Refuse(503))
    api.troubles["p1"] += [Refuse(503), Refuse(429)]

    assert await let_go(client) == (1, {})
    assert api.patched() == {"p1": 3}


async def test_what_does_not_pass_is_a_failure(api, client):
    """After the last try the pod counts as not let go."""
    api.holds("p1")
    api.troubles["p1"] += [Refuse(500)] * 9

    count, failures = await let_go(client)

    assert (count, list(failures)) == (0, ["team/p1"])
    assert isinstance(failures["team/p1"], errors.ServerError)


async def test_who_is_gone_is_no_failure(api, client):
    """A pod that ended meanwhile, or whose name is another pod's by now, needs no ungating."""
    api.holds("p1", "p2", "p3")
    api.troubles["p1"].append(Refuse(404))
    api.troubles["p2"].append(Refuse(422, body=status_body(422, "metadata.uid: field is immutable")))
    api.troubles["p3"].append(Refuse(422, body=status_body(422, "spec: Forbidden")))

    count, failures = await let_go(client)

    assert (count, list(failures)) == (0, ["team/p3"])


async def test_many_are_let_go_at_once(api, client):
    """Sixteen PATCHes are under way together, and never more."""
    api.holds(*(f"p{number:02}" for number in range(3 * room.AT_ONCE)))
    api.full.clear()

    assert await let_go(client) == (3 * room.AT_ONCE, {})
    assert api.at_once["most"] == room.AT_ONCE == 16


async def test_a_list_that_expires_is_begun_again(api, client, monkeypatch):
    """Every pod is found once, though a page's token grew too old on the way."""
    monkeypatch.setattr(listing, "PAGE", 2)
    api.holds(*(f"p{number}" for number in range(5)), namespaced=False)
    api.expiries = 2

    assert await let_go(client, "") == (5, {})
    assert api.patched() == {f"p{number}": 1 for number in range(5)}
    assert api.expiries == 0


async def test_a_list_that_always_expires_is_an_error(api, client, monkeypatch):
    """Nothing is let go that was not listed whole, and nobody lists for ever."""
    monkeypatch.setattr(listing, "PAGE", 1)
    api.holds("p1", "p2")
    api.expiries = 99

    with pytest.raises(errors.Gone):
        await let_go(client)

    assert api.patched() == {}


async def test_only_our_gate_is_taken_from_that_very_pod(api, client):
    """The PATCH names the pod's uid and deletes one gate of the list; a pod without our gate is not touched."""
    api.holds("p1")
    api.put("other", TEAM, spec={"schedulingGates": [{"name": "example.com/other"}]})
    await let_go(client)

    (call,) = [call for call in api.calls if call.method == "PATCH"]

    assert json.loads(call.body) == {
        "metadata": {"uid": "uid-1"},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": "gangwright.io/planned"}]},
    }


@pytest.mark.slow
async def test_the_command_names_who_still_waits(api, tmp_path):
    """Exit code 1, the names on standard error, the number that were let go on standard output."""
    api.holds("p1", "p2")
    api.troubles["p2"].append(Refuse(403))
    words = ["ungate", "-n", "team", "--kubeconfig", kubeconfig(tmp_path, api.url)]

    named = await asyncio.to_thread(gangwright, *words, "--dry-run")
    done = await asyncio.to_thread(gangwright, *words)

    assert (named.returncode, named.stdout.splitlines()) == (
        0,
        ["team/p1", "team/p2", "2 pods would be ungated"],
    )
    assert (done.returncode, done.stdout.splitlines()) == (1, ["team/p1", "1 pods ungated"])
    assert "team/p2: PATCH" in done.stderr
    assert "1 pods could not be ungated" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_job_that_is_still_suspended_is_named(api, tmp_path):
    """What Gangwright suspended for others would stay so without it; what its user suspended is his."""
    ours, his = (
        {"gangwright.io/paused": "2026-01-01T00:00:00+00:00"},
        {"gangwright.io/stay-suspended": "true"},
    )
    for name, notes, suspended in (
        ("ours", ours, True),
        ("resumed", ours, False),
        ("his", {}, True),
        ("stays", ours | his, True),
    ):
        api.put(name, JOBS, spec={"suspend": suspended})["metadata"]["annotations"] = notes
    api.objects[TEAM] = {}
    words = ["ungate", "-n", "team", "--kubeconfig", kubeconfig(tmp_path, api.url)]

    for more in ([], ["--dry-run"]):
        done = await asyncio.to_thread(gangwright, *words, *more)
        assert done.returncode == 0
        (named,) = [line for line in done.stderr.splitlines() if "suspended" in line]
        assert named.startswith("job team/ours is suspended for another gang")
        assert named.endswith("gangwright resume team/ours")


async def test_jobs_that_may_not_be_looked_at_cost_no_pod_its_name(api, tmp_path):
    """Whoever has the rights on pods alone is told which pods were let go, and that he must look after Jobs himself."""
    api.holds("p1", "p2")
    api.troubles["p2"].append(Refuse(403))
    api.barred[JOBS] = Refuse(403)
    words = ["ungate", "-n", "team", "--kubeconfig", kubeconfig(tmp_path, api.url)]

    done = await asyncio.to_thread(gangwright, *words)

    assert "1 pods ungated" in done.stdout
    assert "team/p2: " in done.stderr
    assert "Jobs could not be listed" in done.stderr
    assert done.returncode == 1


async def test_nobody_waits(api, client):
    """An empty list, which the API may write as null, is nobody."""
    api.objects[TEAM] = {}

    assert await let_go(client) == (0, {})


async def test_an_answer_that_is_no_list_is_named(api, client):
    """What stands between us and the API server may answer anything; it is an error of ours by name."""
    api.refusals.extend(Refuse(200, body=b"<html>") for _ in range(4))

    with pytest.raises(errors.Garbled, match="GET /api/v1/pods"):
        await room.gated(client)


@pytest.mark.parametrize("gates", ["none", [1], {"name": "gangwright.io/planned"}])
async def test_a_pod_that_cannot_be_read_is_told(api, client, gates):
    """Whether it has our gate is not known, so nobody is told that all were let go."""
    api.holds("p1")
    api.put("p2", TEAM, spec={"schedulingGates": gates})

    with pytest.raises(errors.Garbled, match=r"team/p2: .*schedulingGates"):
        await let_go(client)


async def test_a_second_try_is_told_to_a_person(api, tmp_path):
    """In a line that he can read, and not as a program's JSON."""
    from tests.cli.support.speaking import say

    api.holds("p1")
    api.refusals.append(Refuse(503))

    said = await asyncio.to_thread(say, "ungate", "-n", "team", KUBECONFIG=kubeconfig(tmp_path, api.url))

    assert said.code == 0
    assert "retrying" in said.err
    assert "{" not in said.err
