"""One request, tried until it is answered for good; and the status, which is written whatever happens to it."""

import asyncio

import pytest

from scheduler import errors
from scheduler.elastic.controller import requests
from scheduler.elastic.controller.decode import Job, Meta
from scheduler.elastic.controller.pod_control import STARTS
from scheduler.elastic.controller.pod_template import Owner
from scheduler.elastic.controller.request_retry import RequestRetry
from scheduler.elastic.controller.status_writer import StatusWriter
from scheduler.elastic.reconciler import Timeouts
from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.settings import ElasticMaster
from tests.elastic.controller.support.house import JOBS
from tests.kube.support.api_server import Refuse
from tests.kube.support.follower import until
from tests.kube.support.kubeconfig import kubeconfig


@pytest.fixture
async def client(api, tmp_path):
    async with Client(await find_access(kubeconfig(tmp_path, api.url))) as made:
        yield made


@pytest.fixture
def trying(client):
    return RequestRetry(client, asyncio.Semaphore(2), least=1.0, most=8.0)


@pytest.fixture
def owner(api):
    made = api.make(JOBS, "team", "train", spec={})
    return Owner("team", "train", made["metadata"]["uid"])


def test_the_tries_for_a_pod_end_before_another_is_asked_for():
    """However long chance makes the waits: that it is refused is told before the pod is taken for not made."""
    least, most = ElasticMaster().retry, ElasticMaster().retry_limit
    longest = [min(most, least * 2.0**number + least) for number in range(STARTS - 1)]

    assert sum(longest) < Timeouts().unseen


async def test_what_passes_is_tried_again(api, trying, owner, pauses):
    """Until it is done; the waits grow."""
    api.refusals.extend([Refuse(500), Refuse(503), Refuse(429)])

    assert await trying.until_answered("event", requests.tell(owner, "Normal", "R", "m", 0.0)) is None
    assert len(pauses) == 3
    assert len(api.objects[requests.EVENTS]) == 1


@pytest.mark.parametrize(
    ("code", "kind"), [(403, errors.Forbidden), (409, errors.Conflict), (422, errors.Invalid)]
)
async def test_what_would_not_change_is_told(api, trying, owner, pauses, code, kind):
    """Once is enough."""
    api.refusals.append(Refuse(code))

    found = await trying.until_answered("start", requests.tell(owner, "Normal", "R", "m", 0.0))

    assert isinstance(found, kind)
    assert pauses == []


async def test_it_is_given_up(api, trying, owner, pauses):
    """After so many tries the last answer is told."""
    api.refusals.extend(Refuse(500) for _ in range(9))

    found = await trying.until_answered("event", requests.tell(owner, "Normal", "R", "m", 0.0), tries=3)

    assert isinstance(found, errors.ServerError)
    assert len(pauses) == 2


async def test_what_the_api_server_asks_for_counts_up_to_a_limit(api, client, owner, retries):
    """Where it is longer than the wait that it would be else."""
    trying = RequestRetry(client, asyncio.Semaphore(2), least=0.01, most=0.05)
    api.refusals.append(Refuse(429, headers={"Retry-After": "5"}))

    assert await trying.until_answered("event", requests.tell(owner, "Normal", "R", "m", 0.0)) is None
    assert [own.wait_for for own in retries] == [0.05]


async def test_every_answer_is_counted_in_one_word(api, client, owner, pauses):
    """By what the request was for, every try by itself."""
    counted = []
    trying = RequestRetry(
        client, asyncio.Semaphore(2), least=1.0, most=8.0, counted=lambda *what: counted.append(what)
    )
    api.refusals.extend([Refuse(500), Refuse(409)])

    await trying.until_answered("start", requests.tell(owner, "Normal", "R", "m", 0.0))

    assert counted == [("start", "unavailable"), ("start", "conflict")]


class Status:
    """A writer at work, and what it told."""

    def __init__(self, owner, trying):
        self.stood, self.overtaken = [], 0
        self.writing = StatusWriter(owner, trying, stands=self.stood.append, overtaken=self._overtaken)
        self.task = asyncio.create_task(self.writing.run())

    def _overtaken(self):
        self.overtaken += 1


@pytest.fixture
async def status(owner, trying):
    made = Status(owner, trying)
    yield made
    made.task.cancel()
    await asyncio.wait([made.task])


def stored(api):
    return api.objects[JOBS]["team", "train"].get("status")


async def test_what_was_wanted_stands(api, status):
    """Fields that are no longer wanted go; who waits is told its round."""
    status.writing.want({"round": 1, "values": {"loss": 0.5, "old": 1.0}}, round_=1)
    await until(lambda: status.stood == [1])
    status.writing.want({"round": 1, "values": {"loss": 0.25}})
    await until(lambda: stored(api) == {"round": 1, "values": {"loss": 0.25}})

    assert status.stood == [1]


async def test_a_status_waits_as_long_as_the_api_server_asks(api, status, retries):
    """The API server asks for it when many jobs write at once."""
    api.refusals.append(Refuse(429, headers={"Retry-After": "4"}))
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: retries)
    assert [own.wait_for for own in retries] == [4.0]


async def test_only_differences_are_sent(api, status, owner):
    """And nothing where there is none."""
    status.writing.want({"round": 1, "phase": "Queued"}, round_=1)
    await until(lambda: status.stood == [1])
    status.writing.want({"round": 1, "phase": "Running"}, round_=2)
    await until(lambda: status.stood == [1, 2])
    writes = len(api.writes)
    status.writing.want({"round": 1, "phase": "Running"}, round_=3)
    await until(lambda: status.stood == [1, 2, 3])

    assert len(api.writes) == writes
    assert api.writes[-1][2]["status"] == {"phase": "Running"}


async def test_the_newest_counts(api, status):
    """What was replaced before it was written is not written; who waits is told of the newest."""
    api.refusals.extend(Refuse(500) for _ in range(100_000))
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: status.writing.fault is not None)
    status.writing.want({"round": 2}, round_=2)
    api.refusals.clear()
    await until(lambda: status.stood)

    assert status.stood == [2]
    assert stored(api) == {"round": 2}


async def test_figures_do_not_take_the_place_of_a_round(api, status):
    """A status for which nobody waits is dropped while one is awaited."""
    api.refusals.append(Refuse(500))
    status.writing.want({"round": 1}, round_=1)
    status.writing.want({"round": 0, "phase": "Queued"})
    await until(lambda: status.stood == [1])

    assert stored(api) == {"round": 1}


async def test_a_conflict_is_resolved(api, status):
    """Somebody wrote meanwhile: what he wrote elsewhere stays, the status is ours."""
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: status.stood == [1])
    api.change(JOBS, "team", "train", spec={"workers": 3})
    status.writing.want({"round": 2}, round_=2)
    await until(lambda: status.stood == [1, 2])

    assert stored(api) == {"round": 2}
    assert api.objects[JOBS]["team", "train"]["spec"] == {"workers": 3}


async def test_a_later_round_of_another_master(api, status):
    """Nothing of ours is written over it."""
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: status.stood == [1])
    api.change(JOBS, "team", "train", status={"round": 7})
    status.writing.want({"round": 2}, round_=2)
    await until(lambda: status.overtaken == 1)

    assert stored(api) == {"round": 7}
    assert status.stood == [1]


@pytest.mark.parametrize("watched", [False, True])
async def test_a_round_of_another_master_by_the_same_number(api, status, owner, watched):
    """Two masters decided a round each: whose stands first counts, and the other believes nothing any more."""
    status.writing.want({"round": 1, "assignment": {"ring": ["a"]}}, round_=1)
    await until(lambda: status.stood == [1])
    other = {"round": 2, "assignment": {"ring": ["theirs"]}}
    seen = api.change(JOBS, "team", "train", status=other)
    if watched:
        version = seen["metadata"]["resourceVersion"]
        status.writing.seen(Job(Meta("train", "team", owner.uid, version), status=other))
    status.writing.want({"round": 2, "assignment": {"ring": ["ours"]}}, round_=2)
    await until(lambda: status.overtaken == 1)

    assert stored(api) == other
    assert status.stood == [1]


async def test_what_had_overtaken_us_may_be_no_more(api, status, owner):
    """An etcd that was restored counts from an earlier version on: what stands is believed anew, whatever was seen."""
    theirs = {"round": 7, "assignment": {"ring": ["theirs"]}}
    status.writing.seen(Job(Meta("train", "team", owner.uid, "999999"), status=theirs))
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: status.overtaken == 1)
    version = api.objects[JOBS]["team", "train"]["metadata"]["resourceVersion"]
    status.writing.believe(Job(Meta("train", "team", owner.uid, version)))
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: status.stood == [1] or status.overtaken > 1)

    assert (status.stood, status.overtaken) == ([1], 1)


async def test_what_we_wrote_ourselves_is_no_other_masters(api, status):
    """The answer was lost: the round that stands by then is our own, and figures are written beside it."""
    status.writing.want({"round": 1, "assignment": {"ring": ["a"]}}, round_=1)
    await until(lambda: status.stood == [1])
    api.lost["PATCH", JOBS] = 1
    status.writing.want({"round": 2, "assignment": {"ring": ["b"]}}, round_=2)
    await until(lambda: status.stood == [1, 2])
    status.writing.want({"round": 2, "assignment": {"ring": ["b"]}, "phase": "Running"}, round_=2)
    await until(lambda: status.stood == [1, 2, 2])

    assert status.overtaken == 0


async def test_an_older_version_changes_nothing(api, status, owner):
    """A watch may be behind what an answer told."""
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: status.stood == [1])
    status.writing.seen(Job(Meta("train", "team", owner.uid, "1"), status={"round": 0}))
    status.writing.want({"round": 1, "phase": "Running"}, round_=1)
    await until(lambda: status.stood == [1, 1])

    assert [own[2]["status"] for own in api.writes[-1:]] == [{"phase": "Running"}]


async def test_another_job_of_the_same_name(api, status):
    """It is not written to."""
    api.delete("train", JOBS)
    api.make(JOBS, "team", "train", spec={})
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: isinstance(status.writing.fault, errors.NotFound))

    assert stored(api) is None
    assert status.stood == []


async def test_what_is_no_job(api, status):
    """Bytes of a stranger are a fault, and it is tried again."""
    api.objects[JOBS]["team", "train"]["metadata"]["generation"] = "x"
    status.writing.want({"round": 1}, round_=1)
    await until(lambda: isinstance(status.writing.fault, errors.Garbled))

    api.objects[JOBS]["team", "train"]["metadata"]["generation"] = 1
    await until(lambda: status.stood == [1])
