"""Calls to the agent, against a small server on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scheduler.elastic.runtime import agent_client, interrupt
from scheduler.elastic.runtime.agent_client import Shim
from scheduler.elastic.runtime.round_assignment import Place
from scheduler.elastic.runtime.runtime_errors import AnswerError, RoundOver
from scheduler.elastic.runtime.training_progress import INTERVAL, NEW, SETTLED, Progress, Reporter

ASSIGNMENT = {"round": 2, "rank": 0, "size": 1}


class Agent:
    """Answers from a list, in order, which may be made when they are due; the last one for ever. A connection is kept
    for so many answers as `keeps` says.
    """

    def __init__(self, *answers, keeps=0):
        self.answers, self.asked, self.connections = list(answers), [], []
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1" if keeps else "HTTP/1.0"

            def setup(self):
                super().setup()
                self.answered = 0
                agent.connections.append(self)

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                agent.asked.append((self.command, self.path, self.headers["Authorization"], body))
                status, content = agent.answers.pop(0) if len(agent.answers) > 1 else agent.answers[0]
                content = content() if callable(content) else content
                body = b"" if status == 204 else json.dumps(content).encode()
                self.send_response(status)
                if keeps and status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.answered += 1
                self.close_connection = self.answered >= keeps

            do_GET = do_POST = do_PUT = answer  # noqa: N815 - http.server's names

            def log_message(self, *_):
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # who does not wait for the answer is no news
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self):
        self.thread.start()
        self.shim = Shim(f"http://127.0.0.1:{self.server.server_address[1]}", "secret")
        return self, self.shim

    def __exit__(self, *_):
        self.shim.close()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(agent_client, "FIRST_PAUSE", 0.001)


def test_the_barrier_is_asked_until_there_is_an_assignment():
    """204 means ask again, 502 and 429 mean later; the key is in every call."""
    with Agent((204, None), (502, {}), (429, {}), (200, ASSIGNMENT)) as (agent, mine):
        assert mine.ready({"round": 1}).round == 2
    assert [one[:3] for one in agent.asked] == [("POST", "/ready", "Bearer secret")] * 4


def test_a_place_is_asked_for_until_it_is_known():
    """204 means ask again, 502 later."""
    place = {"rank": 1, "size": 2, "joins": True}
    with Agent((204, None), (502, {}), (200, place)) as (agent, mine):
        assert mine.place() == Place(1, 2, joins=True)
    assert [one[:2] for one in agent.asked] == [("GET", "/place")] * 3


@pytest.mark.parametrize(
    ("wrong", "named"), [({"rank": 2, "size": 2, "joins": True}, "rank 2 of size 2"), ({"rank": 0}, "size")]
)
def test_a_place_that_makes_no_sense_is_an_error(wrong, named):
    """It names what is wrong."""
    with Agent((200, wrong)) as (_, mine), pytest.raises(AnswerError, match=named):
        mine.place()


def test_a_refusal_is_an_error():
    """400 is not asked again: the words of the agent are passed on."""
    with (
        Agent((400, {"error": {"message": "round is negative"}})) as (_, mine),
        pytest.raises(AnswerError, match="negative"),
    ):
        mine.ready({"round": -1})


def test_an_answer_that_makes_no_sense_is_an_error():
    """200 with something else than an assignment."""
    with Agent((200, {"round": "two"})) as (_, mine), pytest.raises(AnswerError, match="'two'"):
        mine.ready({"round": 1})


def test_nobody_there_is_no_error_for_what_is_merely_told():
    """Told, or not: nothing is raised."""
    with Agent((200, {})) as (_, mine):
        assert mine.tell("/progress", {"step": 1})
    assert not mine.tell("/progress", {"step": 2})
    assert mine.announced(3) == 3
    assert not mine.put("doorstep", "1", {})
    assert mine.get("doorstep", "go") is None


def test_what_is_told_goes_over_one_connection():
    """A new one for each report would cost the agent a thread each."""
    with Agent((204, None), (200, {}), (400, {}), (204, None), keeps=4) as (agent, mine):
        assert [mine.tell("/progress", {"step": step}) for step in range(4)] == [True, True, False, True]
    assert len(agent.connections) == 1


def test_who_tell_at_once_have_a_connection_each():
    """Both are kept until all is closed; what is told then opens anew."""
    both = threading.Barrier(2)

    def meet():
        both.wait(10)

    with Agent((200, meet), (200, meet), (204, None), keeps=9) as (agent, mine):
        tellers = [threading.Thread(target=mine.tell, args=("/progress", {})) for _ in range(2)]
        for teller in tellers:
            teller.start()
        for teller in tellers:
            teller.join(10)
        assert mine.tell("/progress", {})
        assert mine.tell("/progress", {})
        assert len(agent.connections) == 2
        mine.close()
        assert mine.tell("/progress", {})
        assert len(agent.connections) == 3


def test_a_connection_that_was_closed_meanwhile_costs_no_report():
    """The agent closes what is idle, or without a word after an answer."""
    with Agent((204, None), keeps=2) as (agent, mine):
        assert all(mine.tell("/progress", {"step": step}) for step in range(6))
    assert [json.loads(one[3])["step"] for one in agent.asked] == [*range(6)]
    assert len(agent.connections) == 3


def test_an_agent_that_does_not_answer_is_not_told_twice(monkeypatch):
    """Silence is no closed connection: the report is late enough."""
    monkeypatch.setattr(agent_client, "BRIEF", 1.0)
    silence = threading.Event()

    with Agent((204, None), (200, lambda: silence.wait(5)), keeps=9) as (agent, mine):
        assert mine.tell("/progress", {"step": 1})
        assert not mine.tell("/progress", {"step": 2})
        assert len(agent.asked) == 2
        silence.set()


def test_a_key_that_is_not_there_is_none():
    """404, and content that is no object, are both nothing yet."""
    with Agent((404, {}), (200, [1]), (200, {"refused": {}})) as (_, mine):
        assert [mine.get("doorstep", "go") for _ in range(3)] == [None, None, {"refused": {}}]


def test_a_round_that_is_over_is_an_error():
    """410: neither a value that comes later nor one that gets through later."""
    with Agent((410, {})) as (_, mine):
        with pytest.raises(RoundOver):
            mine.get("doorstep", "go")
        with pytest.raises(RoundOver):
            mine.put("doorstep", "1", {})


def test_the_watch_keeps_the_highest_round():
    """An older answer after a newer one changes nothing, and a round that was entered is no news."""

    class Told:
        answers = iter([3, 7, 5])

        def announced(self, _round):
            found = next(self.answers, None)
            if found is None:
                mine.stop()
                return 0
            return found

    mine = interrupt.Watch(Told())
    mine.run()
    assert mine.target == 7
    mine.entered(9)
    assert mine.target == 9


def test_the_last_report_is_sent_at_the_end():
    """What the main thread counted until it stopped is told, whether or not the thread ever ran."""
    with Agent((200, {})) as (agent, mine):
        progress = Progress(step=3, committed=2, values={"loss": 0.5})
        Reporter(mine, progress).stop()
    sent = json.loads(agent.asked[-1][3])
    assert (sent["step"], sent["committed"], sent["values"], sent["phase"]) == (
        3,
        2,
        {"loss": 0.5},
        "WarmingUp",
    )


def test_reports_are_frequent_while_a_round_is_new():
    """Sizes are compared by the first steps of a round; later every report is taken from the training, and another round
    is new again.
    """
    progress = Progress(phase="Training", round=1)
    reporter = Reporter(None, progress)
    first = [reporter.pause() for _ in range(NEW + 2)]
    progress.round = 2

    assert first == [INTERVAL] * NEW + [SETTLED] * 2
    assert reporter.pause() == INTERVAL


def test_reports_are_frequent_while_nobody_trains():
    """However long the warm-up, or the way into the round: the first steps are still to come."""
    reporter = Reporter(None, Progress(round=1, phase="WarmingUp"))

    assert {reporter.pause() for _ in range(2 * NEW)} == {INTERVAL}
