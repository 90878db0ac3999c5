"""The loopback server: what Horovod's client and our boot hear, who is let in, and what is refused."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scheduler.elastic.agent.agent_settings import Address
from scheduler.elastic.agent.heartbeat import Announcements
from scheduler.elastic.agent.http_client import Connections
from scheduler.elastic.agent.kv_proxy import Store
from scheduler.elastic.agent.local_api import LocalAPI
from scheduler.elastic.agent.local_server import Shim
from scheduler.elastic.agent.master_client import Master as Client
from scheduler.elastic.agent.retry import Outage, Patience
from scheduler.elastic.agent.training_run import TrainingRun
from scheduler.elastic.runtime.round_assignment import Assignment
from tests.elastic.agent.support.master import PATIENCE, Master
from tests.elastic.agent.support.worker import call

BATCH = {"mode": "fixed", "local": 8, "global": 16, "accumulate": 1}


class Side:
    """A shim in this process, before a master on loopback."""

    def __init__(self, folder: Path, gloo_timeout: float = 60.0) -> None:
        (folder / "token").write_text("token-1")
        self.master = Master()
        self.master.__enter__()
        self.child: TrainingRun | None = TrainingRun(1)
        self.announcements = Announcements()
        self.stop = threading.Event()
        address = Address("127.0.0.1", self.master._port, secure=False)
        self.connections = Connections(address, "")
        client = Client(self.connections, str(folder / "token"))
        patience = Patience(Outage(lambda _: None), self.stop)
        doors = LocalAPI(client, patience, self.announcements, lambda _: None)
        self.shim = Shim(doors, Store(client, patience, gloo_timeout), lambda: self.child)
        self.shim.start()

    def close(self) -> None:
        self.stop.set()
        self.announcements.close()
        self.shim.close()
        self.connections.close()
        self.master.__exit__(None)

    def joins(self, number: int = 1, rank: int = 0, size: int = 2) -> None:
        self.master.assign(number, rank, size)
        self.child.assign(Assignment(number, rank, size))

    def asks(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        return call(self.shim.port, method, path, body, self.child.key, **headers)

    def horovod(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """As Horovod 0.28.1 sends it: no header of ours, the key in the path, the port of the address behind it."""
        return call(self.shim.port, method, f"/{self.child.key}:{self.shim.port}{path}", body)

    def raw(self, content: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.shim.port), PATIENCE) as peer:
            peer.sendall(content)
            peer.shutdown(socket.SHUT_WR)
            told = b""
            while chunk := peer.recv(65536):
                told += chunk
            return told


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    one = Side(tmp_path)
    yield one
    one.close()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Side]:
    """Of a Horovod that waits one second for its peers."""
    one = Side(tmp_path, gloo_timeout=1.0)
    yield one
    one.close()


def test_values_go_to_the_round_and_come_back(side: Side) -> None:
    """PUT and GET reach the master under the current round; each peer's value is fetched once."""
    side.joins(3)
    side.master.values[3, "global", "1"] = b"peer"

    assert side.horovod("PUT", "/global/0", b"\x00\xffmine") == (200, b"")
    assert side.horovod("GET", "/global/1") == (200, b"peer")
    assert side.horovod("GET", "/global/1") == (200, b"peer")

    assert side.master.values[3, "global", "0"] == b"\x00\xffmine"
    assert len(side.master.calls["kv GET"]) == 1


def test_a_get_waits_for_the_value(side: Side) -> None:
    """Horovod asks once instead of a hundred times a second."""
    side.joins()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(side.horovod, "GET", "/global/1")
        side.master.until(lambda: side.master.calls["kv GET"])
        assert not waiting.done()
        assert side.horovod("PUT", "/global/1", b"late") == (200, b"")
        assert waiting.result(PATIENCE) == (200, b"late")
    assert len(side.master.calls["kv GET"]) == 1


def test_values_of_the_members_behind_come_along(side: Side) -> None:
    """Horovod asks for one member after the other, and each twice: the master is asked once for those that are there,
    and again for who came later.
    """
    side.joins()
    side.master.values.update({(1, "global", str(rank)): b"peer %d" % rank for rank in (1, 2, 4)})

    asked = [side.horovod("GET", f"/global/{rank}") for rank in (1, 1, 2, 2, 4)]
    side.master.values[1, "global", "3"] = b"peer 3"
    late = side.horovod("GET", "/global/3")

    assert [*asked, late] == [(200, b"peer %d" % rank) for rank in (1, 1, 2, 2, 4, 3)]
    assert len(side.master.calls["kv GET"]) == 2


@pytest.mark.parametrize("scope", ["local_job-1", "cross_0", "cross_0_process_set_hash_1e9d"])
def test_what_nobody_else_can_read_stays_here(side: Side, scope: str) -> None:
    """A worker is alone on its host, and with its local rank: what it lays down there reaches it, and nobody else."""
    side.joins()

    assert side.horovod("PUT", f"/{scope}/rank_0", b"job-1") == (200, b"")
    assert side.horovod("GET", f"/{scope}/rank_0") == (200, b"job-1")
    assert side.horovod("GET", f"/{scope}/rank_1")[0] == 404
    assert side.master.calls == {}


def test_a_value_that_does_not_come_is_a_404_in_time(hasty: Side) -> None:
    """Horovod looks at its own time-out only between two requests; half of it is the longest answer."""
    hasty.joins()

    assert hasty.horovod("GET", "/global/1")[0] == 404


def test_values_of_another_round_are_not_seen(side: Side) -> None:
    """Names are used again in every round; a late value or DELETE of the round before does no harm."""
    side.joins(1)
    side.horovod("PUT", "/global/0", b"old")
    side.joins(2)

    assert side.horovod("DELETE", "/global/0") == (200, b"")
    assert side.horovod("PUT", "/global/0", b"new") == (200, b"")
    assert side.horovod("GET", "/global/0") == (200, b"new")
    assert side.master.values[1, "global", "0"] == b"old"


@pytest.mark.parametrize("over", [(409, "RoundOver"), (403, "NoMember")])
def test_a_round_that_is_over_ends_horovods_try(side: Side, over: tuple[int, str]) -> None:
    """Neither 200 nor 404, which is all that Horovod would go on after."""
    side.joins(1)
    side.master.announce(2)
    side.master.over = over

    assert side.horovod("PUT", "/global/0", b"x")[0] == 410
    assert side.horovod("GET", "/global/1")[0] == 410


@pytest.mark.parametrize("over", [(409, "RoundAhead"), (403, "NoWorker"), (503, "Standby"), (401, "NoToken")])
def test_a_master_that_does_not_know_us_yet_is_waited_for(side: Side, over: tuple[int, str]) -> None:
    """A master that restarts has not read everything at once; Horovod is not ended for that."""
    side.joins(1)
    side.master.over = over
    side.master.announce(2)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(side.horovod, "PUT", "/global/0", b"kept")
        side.master.until(lambda: side.master.calls["kv PUT"])
        side.joins(1)
        assert waiting.result(PATIENCE) == (200, b"")


def test_an_outage_is_bridged(side: Side) -> None:
    """A PUT during the master's restart is answered when it is back."""
    side.joins()
    side.master.away()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(side.horovod, "PUT", "/global/0", b"kept")
        side.master.back()
        assert waiting.result(PATIENCE) == (200, b"")
    assert side.master.values[1, "global", "0"] == b"kept"


@pytest.mark.slow
def test_an_outage_that_lasts_ends_horovods_try(hasty: Side) -> None:
    """A GET says `not yet`; after Horovod's own time-out its PUT is refused, so it aborts, and is started again."""
    hasty.joins()
    hasty.master.away()

    assert hasty.horovod("GET", "/global/1")[0] == 404
    assert hasty.horovod("PUT", "/global/0", b"x")[0] == 503


def test_the_place_is_always_told(side: Side) -> None:
    """Six numbers, whatever host is asked for: alone before the first round, -1 when removed; never empty, never
    404.
    """
    assert side.horovod("GET", "/rank_and_size/job-0:0") == (200, b"0,1,0,1,0,1")
    side.joins(1, rank=1, size=3)
    assert side.horovod("GET", "/rank_and_size/job-0:0") == (200, b"1,3,0,1,0,1")
    side.child.assign(Assignment(2, -1, 0, removed=True))
    assert side.horovod("GET", "/rank_and_size/somebody:0") == (200, b"-1,-1,-1,-1,-1,-1")
    assert side.master.calls == {}


def test_alone_the_store_is_local(side: Side) -> None:
    """Before the first round nothing of Horovod's reaches the master."""
    assert side.horovod("PUT", "/global/0", b"me") == (200, b"")
    assert side.horovod("GET", "/global/0") == (200, b"me")
    assert side.horovod("GET", "/global/1")[0] == 404
    assert side.master.calls == {}


CHANNELS = [
    ("POST", "/ready"),
    ("GET", "/announced?round=0"),
    ("GET", "/place"),
    ("POST", "/progress"),
    ("POST", "/gone"),
    ("PUT", "/global/0"),
    ("GET", "/global/0"),
    ("GET", "/global/1"),
    ("DELETE", "/global/0"),
    ("GET", "/rank_and_size/job-0:0"),
]
"""Whatever a child may ask: of its agent, and through it of the round."""


@pytest.mark.parametrize("key", [None, "", "x" * 32, "\xff"])
@pytest.mark.parametrize("used", [False, True])
def test_the_childs_calls_need_its_key(side: Side, key: str | None, *, used: bool) -> None:
    """A missing or forged key changes nothing and is told nothing, before Horovod has come with the right one and
    after.
    """
    side.joins()
    side.master.values[1, "global", "1"] = b"peer"
    if used:
        assert side.horovod("GET", "/rank_and_size/job-0:0")[0] == 200

    for method, path in CHANNELS:
        assert call(side.shim.port, method, path, b"{}", key) == (401, b""), (method, path)

    assert side.child.gone is None
    assert side.master.calls == {}


@pytest.mark.parametrize("used", [False, True])
def test_a_wrong_key_in_the_path_opens_nothing(side: Side, *, used: bool) -> None:
    """Neither a forged one nor the one of the process before; our own calls have no such door, even for the right
    key.
    """
    side.joins()
    former, side.child = side.child, TrainingRun(2)
    side.joins()
    if used:
        assert side.horovod("GET", "/rank_and_size/job-0:0")[0] == 200

    for method, path in CHANNELS:
        value = path.count("/") == 2
        for key in ("x" * 32, former.key, "" if value else side.child.key):
            status, told = call(side.shim.port, method, f"/{key}:{side.shim.port}{path}", b"{}")
            assert (status in {400, 401}, told) == (True, b""), (method, path)

    assert side.child.gone is None
    assert side.master.calls == {}
    assert side.horovod("PUT", "/global/0", b"mine") == (200, b"")
    assert side.asks("GET", "/global/0") == (200, b"mine")


@pytest.mark.parametrize(
    "path",
    [
        "/", "//", "/global", "/global/", "/global/0/", "/a/b/c", "/../0", "/global/..", "/.global/0", "/global/%2e%2e",
        "/global/0?wait=1", "/global/0#x", "/glo%00bal/0", "/glo bal/0", "http://127.0.0.1/global/0", "/v1/rounds/1/kv/a/b",
        "/" + "a" * 600 + "/0", "/globäl/0", "/global/0;x",
    ],
)  # fmt: skip
def test_hostile_paths_reach_nothing(side: Side, path: str) -> None:
    """Nothing encoded, relative, absolute, or longer than a name goes any further."""
    side.joins()
    head = f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx".encode()

    status = int(side.raw(head).split()[1])

    assert 400 <= status < 500
    assert side.master.calls == {}
    assert side.horovod("PUT", "/global/0", b"fine") == (200, b"")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /progress HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", 413),
        (b"POST /progress HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
        (b"POST /progress HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 411),
        (b"POST /progress HTTP/1.1\r\nContent-Length: many\r\n\r\n", 411),
        (b"POST /progress HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 411),
        (b"PATCH /progress HTTP/1.1\r\n\r\n", 501),
        (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /x HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(200)) + b"\r\n", 431),
    ],
)
def test_requests_that_are_none_are_refused(side: Side, head: bytes, status: int) -> None:
    """Refused without being read to their end, without repeating any of it, and the connection is closed."""
    told = side.raw(head)

    assert int(told.split()[1]) == status
    assert told.count(b"HTTP/1.1 ") == 1
    assert side.horovod("GET", "/rank_and_size/a:0")[0] == 200


def test_what_is_no_http_is_not_answered(side: Side) -> None:
    """The connection is closed, and the next one is served."""
    assert side.raw(b"nonsense\r\n\r\n") == b""
    assert side.horovod("GET", "/rank_and_size/a:0")[0] == 200


def test_too_large_a_value_goes_no_further(side: Side) -> None:
    """64 KiB are let through; one byte more is refused here."""
    side.joins()

    assert side.horovod("PUT", "/global/0", b"x" * 65536) == (200, b"")
    assert side.horovod("PUT", "/global/1", b"x" * 65537)[0] == 413
    assert set(side.master.values) == {(1, "global", "0")}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/progress", b"[]"),
        ("/progress", b"\x80\x04\x95pickle"),
        ("/progress", b'{"step": -1}'),
        ("/progress", b"[" * 100000),
        ("/ready", b"not json"),
        ("/gone", b"null"),
    ],
)
def test_bodies_that_make_no_sense_are_refused(side: Side, path: str, body: bytes) -> None:
    """400, and nothing is believed or passed on."""
    assert side.asks("POST", path, body)[0] == 400
    assert side.master.calls == {}
    assert side.child.beat()["step"] == 0


@pytest.mark.parametrize("query", ["round=-1", "round=x", "round=1e3", "round=" + "9" * 40, "round=٣"])
def test_a_round_is_a_number(side: Side, query: str) -> None:
    """Anything else is refused at once, instead of being waited for."""
    from urllib.parse import quote

    assert side.asks("GET", f"/announced?{quote(query, safe='=')}")[0] == 400


def test_the_barrier_is_passed_through(side: Side) -> None:
    """What the child says reaches the master as it is; the whole assignment comes back, and is the agent's too."""
    arrival = {"round": 0, "step": 4, "committed": 4, "why": "newcomer", "fingerprint": "abc"}
    assert side.asks("POST", "/ready", json.dumps(arrival).encode()) == (204, b"")
    side.master.assign(5, 1, 2, env={"MORE": "1"}, batch=BATCH)

    status, body = side.asks("POST", "/ready", json.dumps(arrival).encode())

    assert (status, json.loads(body)) == (200, side.master.assignment)
    assert side.master.calls["ready"][-1] == arrival
    assert side.child.round == 5
    assert side.announcements.newest == 5


def test_an_assignment_that_makes_no_sense_is_told_to_the_child(side: Side) -> None:
    """It ends with the name of the field; the agent takes no place from it."""
    side.master.assign(5, 2, 2)

    status, body = side.asks("POST", "/ready", b'{"round": 0}')

    assert (status, body) == (400, b"rank 2 of size 2: the rank must be from 0 to size - 1")
    assert side.child.assignment is None


def test_who_went_and_stands_at_the_barrier_again_is_not_gone(side: Side) -> None:
    """A script that trains a second time is watched as in the first, and its end is not explained by the first's."""
    side.asks("POST", "/gone", b'{"code": 0, "why": "the training function returned"}')
    assert side.child.gone == "the training function returned"
    side.asks("POST", "/ready", b'{"round": 4, "why": "newcomer"}')
    assert side.child.gone is None


def test_what_a_child_says_of_its_training_is_told_of_its_end(side: Side) -> None:
    """With each beat and with its end: whether it began as a worker, and whether its training function returned. One that
    the job does without has not returned.
    """

    def told() -> tuple[bool, bool, bool]:
        end = side.child.end()
        return end["entered"], end["returned"], side.child.beat()["returned"]

    side.child.entered = False
    assert told() == (False, False, False)
    side.child.take({"step": 3})
    assert told() == (True, False, False)
    side.asks("POST", "/gone", b'{"code": 1, "why": "SystemExit: 0"}')
    assert told() == (True, False, False)
    side.asks("POST", "/gone", b'{"code": 0, "why": "the training function returned"}')
    assert told() == (True, True, True)
    side.child.assign(Assignment(9, -1, 0, removed=True))
    assert told() == (True, False, False)


def test_a_child_hears_its_place_when_the_master_says_it(side: Side) -> None:
    """It waits for that. A beat of the process before it says nothing of this one."""
    place = {"rank": 1, "size": 2, "joins": False}
    side.child.heard(0, {"rank": 0, "size": 1, "joins": False}, 0)
    assert side.child.place is None
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(side.asks, "GET", "/place")
        side.child.heard(side.child.number, place, 0)
        status, told = waiting.result()
    side.child.heard(side.child.number, None, 0)

    assert (status, json.loads(told)) == (200, place)
    assert side.child.place == place, "it is in a round, and nothing is expected any more"


def test_a_script_that_sets_up_has_not_entered_a_training(side: Side) -> None:
    """It may report, and meet others, before that; its end is that of a script without a training."""
    side.child.take({"step": 0, "setup": True})
    side.master.assign(1)
    side.asks("POST", "/ready", b'{"round": 0, "why": "newcomer", "setup": true}')
    assert not side.child.end()["entered"]
    side.child.take({"step": 0, "setup": False, "stale": "train.py:12"})

    assert side.child.end()["entered"]
    assert side.child.beat()["stale"] == "train.py:12"


def test_a_script_of_another_kind_is_told_of_its_end(side: Side) -> None:
    """Until an elastic training begins: beside that a tool of another kind may run, which is refused."""
    torchrun = b'{"code": 1, "why": "the script is not elastic", "foreign": "torchrun runs it"}'
    side.child.entered = False
    assert side.child.end()["foreign"] is None
    assert side.asks("POST", "/gone", torchrun)[0] == 200
    assert (side.child.end()["foreign"], side.child.gone) == ("torchrun runs it", "the script is not elastic")
    side.child.take({"step": 3})
    assert side.asks("POST", "/gone", torchrun)[0] == 409
    assert (side.child.end()["foreign"], side.child.gone) == (None, None)


def test_the_last_steps_are_told_at_the_barrier(side: Side) -> None:
    """How long the steps since the last beat took goes with the arrival, and with the next beat all the same."""
    side.child.take({"step": 3, "step_s": 0.2})
    side.child.beat()
    for step, seconds in ((4, 0.5), (5, 0.7)):
        side.child.take({"step": step, "step_s": seconds})
    side.asks("POST", "/ready", b'{"round": 4, "why": "announced"}')

    told = side.master.calls["ready"][-1]
    assert told == {"round": 4, "why": "announced", "step_s": pytest.approx(0.6)}
    assert side.child.beat()["step_s"] == pytest.approx(0.6)


def test_a_listener_hears_of_a_new_round(side: Side) -> None:
    """It waits until the newest round is above its own, and is told at once when it is already."""
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(side.asks, "GET", "/announced?round=2")
        side.announcements.saw(2)
        side.announcements.saw(3)
        assert waiting.result(PATIENCE) == (200, b'{"round": 3}')
    assert side.asks("GET", "/announced?round=0") == (200, b'{"round": 3}')


def test_a_dead_child_gets_no_place(side: Side) -> None:
    """An assignment that arrives for a child that ended is not taken for the next child's."""
    first = side.child
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(side.asks, "POST", "/ready", b'{"round": 0}')
        side.master.until(lambda: side.master.calls["ready"])
        first.ended, side.child = True, TrainingRun(2)
        side.master.assign(1)
        assert waiting.result(PATIENCE)[0] == 204
    assert (first.round, side.child.round) == (0, 0)


def test_many_at_once_are_served(side: Side) -> None:
    """64 connections in one moment: nobody waits for a repeated SYN, nobody is turned away."""
    side.joins()
    together = threading.Barrier(64)

    def ask(number: int) -> Any:
        together.wait(PATIENCE)
        side.horovod("PUT", f"/global/{number}", b"%d" % number)
        return side.horovod("GET", f"/global/{63 - number}")

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(ask, range(64)))

    assert answers == [(200, b"%d" % (63 - number)) for number in range(64)]


def test_only_loopback_listens(side: Side) -> None:
    """No other address of this machine has the port open."""
    inode_lines = Path(f"/proc/{os.getpid()}/net/tcp").read_text().splitlines()[1:]
    addresses = {
        line.split()[1] for line in inode_lines if line.split()[1].endswith(f":{side.shim.port:04X}")
    }

    assert {address.partition(":")[0] for address in addresses} == {"0100007F"}
