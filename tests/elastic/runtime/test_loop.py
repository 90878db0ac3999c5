"""The loop's turns, with Horovod's exceptions and a state of plain values, and an agent that says what a test has it
say.
"""

import os
import sys
import time
import types

import pytest

from scheduler.elastic.runtime import (
    checkpoint_file,
    checkpointing,
    run_loop,
    script_api,
    script_setup,
    state_codec,
    worker_context,
)
from scheduler.elastic.runtime.round_assignment import Assignment, Place, decode
from scheduler.elastic.runtime.runtime_errors import CheckpointError


class Broken(Exception):  # noqa: N818 - named as what it stands for
    """As Horovod's `HorovodInternalError`."""


class State:
    """As Horovod's `ObjectState`; `broadcast` is what the collective does with the object of this rank."""

    def __init__(self, **values):
        self._saved_state = values
        self.broadcast = lambda mine: mine
        self._set_attrs()

    def _bcast_object(self, mine):
        return self.broadcast(mine)

    def save(self):
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def _set_attrs(self):
        for name, value in self._saved_state.items():
            setattr(self, name, value)

    restore = _set_attrs

    def sync(self):
        self._saved_state = self._bcast_object(self._saved_state)
        self._set_attrs()

    def on_reset(self):
        """Nothing depends on the size."""

    sync.__module__ = "horovod.common.elastic"


class Agent:
    """Answers the barrier with `answers`, one after the other; every member shows a state that fits."""

    def __init__(self, *answers, names=("batch",)):
        self.answers, self.readies, self.told = list(answers), [], []
        self.word = {
            "step": 0,
            "samples": 0,
            "epoch_length": 0,
            "scale": 1.0,
            "plain": '{"$items": [["batch", 0]]}',
        }
        self.card = {"fingerprint": state_codec.digest([], names), "refused": {}}

    def ready(self, body):
        self.readies.append(body)
        answer = self.answers.pop(0)
        return answer() if callable(answer) else answer

    def put(self, *_):
        return True

    def get(self, *_):
        return {**self.card, "word": self.word}

    def tell(self, path, body):
        self.told.append((path, body))
        return True

    def close(self):
        self.told.append(("closed", {}))

    def last(self, path):
        return [body for one, body in self.told if one == path][-1]


LAST = Assignment(round=9, rank=-1, size=0, removed=True)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """`run(agent, state, step)`: trains by calling `step(state, worker)` for ever; gives the exception that ended
    it.
    """
    exceptions = types.ModuleType("horovod.common.exceptions")
    exceptions.HorovodInternalError = Broken
    monkeypatch.setitem(sys.modules, "horovod.common.exceptions", exceptions)
    agents = {"GANGWRIGHT_SHIM": "http://127.0.0.1:9", "GANGWRIGHT_SHIM_KEY": "k"}
    monkeypatch.setattr(os, "environ", {**agents, "GANGWRIGHT_JOB": "team/job"})
    os.environ["GANGWRIGHT_CHECKPOINT"] = str(tmp_path)

    def go(agent, state, step, begin=lambda: None):
        mine = worker_context.Worker(agent)
        monkeypatch.setattr(worker_context, "_worker", mine)
        begin()

        def train(state):
            while True:
                step(state, mine)

        with pytest.raises(BaseException) as ended:
            run_loop.run_fn(train, lambda: None)(state)
        return ended.value

    return go


def commits(until):
    """A step that is committed; after `until` of them the next round is announced."""

    def step(state, mine):
        state.batch += 1
        mine.watch.target = mine.assignment.round + (mine.progress.step + 1 >= until)
        run_loop.commit(state)

    return step


def newest(folder):
    return checkpoint_file.newest(str(folder / "team.job"))


def test_a_restore_is_rank_0s_to_decide(run, monkeypatch):
    """It alone looks for the checkpoint, and everybody takes over what it has found, or has not."""
    read = []
    monkeypatch.setattr(checkpointing.Disk, "read", lambda _, path: read.append(path))
    text = b'{"round": 1, "rank": %d, "size": 2, "sync": false, "restore": "/kept"}'
    for rank in (0, 1):
        agent = Agent(decode(text % rank), LAST)
        agent.word["step"] = 7
        run(agent, State(batch=0), commits(1))
        assert read == ["/kept"]
    assert agent.readies[1]["step"] == 7 + 1, "rank 1 took over the step of rank 0"


def test_an_agent_that_did_not_hear_the_end_is_told_again(run):
    """How the job ended is judged by it."""
    agent = Agent(Assignment(1, 0, 1), LAST)
    heard = [False, False, True]
    agent.tell = lambda path, body: agent.told.append((path, body)) or (path != "/gone" or heard.pop(0))
    run(agent, State(batch=0), commits(1))
    assert [body["why"] for path, body in agent.told if path == "/gone"] == ["removed"] * 3


def test_a_script_that_catches_every_exception_is_interrupted(run):
    """Around its commit: the rehearsal ends at the first one, and a round that is announced is gone to."""
    agent, step = Agent(Assignment(1, 0, 1), LAST), commits(4)
    taken = []

    def forgiving(state, mine):
        taken.append(mine.warming)
        try:
            step(state, mine)
        except Exception as error:
            pytest.fail(f"caught {error!r}")

    ended = run(agent, State(batch=0), forgiving)
    assert (type(ended), ended.code) == (SystemExit, 0)
    assert taken == [False] * 4


@pytest.mark.parametrize("rank", [0, 1])
def test_whoever_is_named_saves_whatever_its_rank(run, tmp_path, rank):
    """The master names one, who has the newest state: it writes it, says of which step it is, and leaves well."""
    agent = Agent(Assignment(1, rank, 2), Assignment(2, -1, 0, removed=True, checkpoint=True))
    ended = run(agent, State(batch=0), commits(4))
    assert (type(ended), ended.code) == (SystemExit, 0)
    assert newest(tmp_path).step == agent.readies[1]["step"] >= 4
    assert agent.last("/progress")["values"]["checkpoint_step"] == newest(tmp_path).step
    assert agent.last("/gone") == {"code": 0, "why": "removed"}
    assert agent.told[-1][0] == "closed"


def test_a_save_that_fails_is_no_orderly_end(run, tmp_path, monkeypatch):
    """Whoever was to save and could not ends with an error that says why, and names no step as saved."""

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    agent = Agent(Assignment(1, 0, 1), Assignment(2, -1, 0, removed=True, checkpoint=True))
    ended = run(agent, State(batch=0), commits(4))
    assert isinstance(ended, CheckpointError)
    gone = agent.last("/gone")
    assert gone["code"] == 1
    assert gone["why"].startswith("CheckpointError: the state of step 4 is not saved: the checkpoint ")
    assert gone["why"].endswith("No space left on device")
    assert "checkpoint_step" not in agent.last("/progress")["values"]
    assert newest(tmp_path) is None


def breaks_in(round_):
    """A collective that fails in that round, once its members are synchronised."""

    def begin(state, mine):
        def broadcast(value):
            if mine.assignment.round == round_:
                raise Broken
            return value

        state.broadcast = broadcast

    return begin


def test_a_state_that_could_not_be_taken_over_is_the_old_one_still(run):
    """Rank 0 dies while its state is passed on: the others have theirs of before, and say of which step it is."""
    agent = Agent(Assignment(1, 0, 1), Assignment(2, 1, 2), LAST)
    agent.word.update(step=20, plain=None)
    state, ask = State(batch=0), commits(5)

    def step(state, mine):
        if not mine.warming:
            breaks_in(2)(state, mine)
        ask(state, mine)

    run(agent, state, step)
    failed = agent.readies[2]
    assert (failed["why"], failed["round"], failed["step"], failed["committed"]) == ("failure", 2, 5, 5)
    assert state.batch == 5


def test_a_round_that_failed_on_the_way_makes_no_other_state_of_the_next_trainings(run):
    """A script's next training begins with a state that may differ from process to process. Until one round was entered
    with the same for all, the master is told so, whatever else became of the rounds.
    """
    agent, state = Agent(Assignment(2, 1, 2), Assignment(3, 1, 2), LAST), State(batch=0)
    agent.word.update(plain=None)

    def broadcast(value):
        if worker_context.current().assignment.round == 2:
            raise Broken
        return value

    def begin():
        worker_context.current().assignment = Assignment(1, 0, 2)
        state.broadcast = broadcast

    def step(state, mine):
        if not mine.warming:
            raise Broken
        run_loop.commit(state)

    run(agent, state, step, begin)

    assert [(one["why"], one["another"]) for one in agent.readies] == [
        ("another", True),
        ("failure", True),
        ("failure", False),
    ]


def test_a_half_of_another_state_is_never_a_commit(run):
    """What was saved of rank 0's state when the rest failed is forgotten."""

    class Halves(State):
        """As `TensorFlowKerasState`: its tensors first, then saved, then the plain values."""

        def __init__(self, **values):
            self.weights, self._saved_weights = 0, 0
            super().__init__(**values)

        def save(self):
            self._saved_weights = self.weights
            super().save()

        def restore(self):
            self.weights = self._saved_weights
            super().restore()

        def sync(self):
            self.weights = self._saved_weights = 20
            super().sync()

    agent = Agent(Assignment(1, 0, 1, sync=False), Assignment(2, 1, 2), LAST)
    agent.word.update(step=20, plain=None)
    state, ask = Halves(batch=0), commits(5)

    def step(state, mine):
        if not mine.warming:
            breaks_in(2)(state, mine)
        state.weights = state.batch + 1
        ask(state, mine)

    run(agent, state, step)
    assert (state.weights, state.batch, agent.readies[2]["committed"]) == (5, 5, 5)


def test_who_has_committed_nothing_says_so(run):
    """A first round that fails before its first commit leaves nothing to go on from: step 0, as a newcomer's."""
    agent = Agent(Assignment(1, 0, 1), LAST)

    def step(state, mine):
        run_loop.check(state)
        if mine.progress.step == 3:
            raise Broken

    run(agent, State(batch=0), step)
    assert [(one["step"], one["committed"]) for one in agent.readies] == [(0, 0), (0, 0)]


def test_an_announced_change_between_commits_loses_nothing(run):
    """The state is taken along as it is, plain values and all; it is the last commit, and the position says the
    same.
    """
    agent = Agent(Assignment(1, 0, 1), Assignment(2, 0, 1), LAST)
    seen = []

    def step(state, mine):
        seen.append((mine.assignment.round, state.batch))
        state.batch += 1
        mine.progress.samples += 32
        mine.watch.target = mine.assignment.round + (mine.progress.step + 1 in (7, 9))
        run_loop.check(state)

    state = State(batch=0)
    run(agent, state, step)
    assert [(one["step"], one["committed"], one["why"]) for one in agent.readies] == [
        (0, 0, "newcomer"),
        (7, 7, "announced"),
        (9, 9, "announced"),
    ]
    assert seen == [(1, batch) for batch in range(7)] + [(2, 7), (2, 8)]
    assert state._saved_state == {"batch": 9}


def test_the_position_is_told_at_the_barrier(run):
    """Samples that all took: of the state that is there, committed or gone back to."""
    agent = Agent(Assignment(1, 0, 1), Assignment(2, 0, 1), LAST)

    def step(state, mine):
        mine.progress.samples += 32
        if mine.assignment.round == 2:
            raise Broken
        mine.watch.target = mine.assignment.round + (mine.progress.step + 1 == 5)
        run_loop.commit(state)

    run(agent, State(batch=0), step)
    assert [(one["why"], one["samples"]) for one in agent.readies] == [
        ("newcomer", 0.0),
        ("announced", 160.0),
        ("failure", 160.0),
    ]


def test_a_stages_variables_end_with_the_stage(run):
    """What a later stage does not set is what it was in the pod; who the worker is no stage can say."""
    agent = Agent(
        Assignment(1, 0, 1, env={"AUGMENT": "1", "THREADS": "2", "HOROVOD_RANK": "9"}),
        Assignment(2, 0, 1, env={"THREADS": "3"}),
        Assignment(3, 0, 1),
        LAST,
    )
    os.environ["THREADS"] = "8"
    seen = {}

    def step(state, mine):
        names = ("AUGMENT", "THREADS", "HOROVOD_RANK")
        seen[mine.assignment.round] = tuple(os.environ.get(name) for name in names)
        mine.watch.target = mine.assignment.round + 1
        run_loop.commit(state)

    run(agent, State(batch=0), step)
    assert seen == {1: ("1", "2", "0"), 2: (None, "3", "0"), 3: (None, "8", "0")}


def waiting_until(true):
    """The master has nothing to say until that is true."""

    def answer():
        end = time.monotonic() + 20
        while not true() and time.monotonic() < end:
            time.sleep(0.01)
        return LAST

    return answer


@pytest.mark.parametrize("rank", [0, 1])
def test_who_waits_with_the_state_saves_it_meanwhile(run, tmp_path, monkeypatch, rank):
    """Too few are left to go on: what lives in memory alone is on disk before anything else happens to it."""
    monkeypatch.setattr(run_loop, "HELD", 0.01)
    monkeypatch.setattr(run_loop, "TURN", 0.01)
    agent = Agent(Assignment(1, rank, 2), waiting_until(lambda: newest(tmp_path)))
    assert run(agent, State(batch=0), commits(4)).code == 0
    assert newest(tmp_path).step == agent.readies[1]["committed"] >= 4
    assert agent.last("/progress")["values"]["checkpoint_step"] == newest(tmp_path).step


def test_one_checkpoint_of_a_step_is_enough(run, tmp_path, monkeypatch):
    """The next in turn sees that somebody before it has saved that step; and a newcomer has nothing to save."""
    monkeypatch.setattr(run_loop, "HELD", 0.0)
    monkeypatch.setattr(run_loop, "TURN", 0.0)
    looked = []
    monkeypatch.setattr(checkpointing.Disk, "hold", _then(checkpointing.Disk.hold, looked.append))
    agent = Agent(
        lambda: time.sleep(0.1) or Assignment(1, 0, 1),
        waiting_until(lambda: looked and not looked[0].saving),
    )
    checkpoint_file.write(str(tmp_path / "team.job"), 4, {}, "{}", {})
    assert run(agent, State(batch=0), commits(4)).code == 0
    assert len(looked) == 1
    assert newest(tmp_path).number == 1


def test_a_round_s_factor_is_approached_from_its_first_step(run):
    """A script that asks at every step is led from the factor of before to that of the round it has entered."""
    rates, commit = [], commits(4)

    def step(state, mine):
        if not mine.warming:
            rates.append(mine.lr_scale())
        commit(state, mine)

    run(Agent(Assignment(1, 0, 1, lr_scale=3.0, ramp_steps=2), LAST), State(batch=0), step)
    assert rates == [1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("calls", "uses"),
    [
        ((), []),
        ((lambda: script_api.report(loss=1.0), lambda: script_api.advance(8)), []),
        ((script_api.batch,), ["batch"]),
        ((script_api.lr_scale,), ["rate"]),
        ((lambda: script_api.epoch(2.5),), ["epoch"]),
        ((lambda: next(script_api.shard(range(100), 8)),), ["batch", "epoch"]),
    ],
)
def test_what_a_script_asks_for_is_reported(run, calls, uses):
    """By the calls that were answered with what the round has; an unmodified script makes none."""
    reports, commit = [], commits(3)

    def step(state, mine):
        for call in calls:
            call()
        reports.append((mine.warming, mine.progress.body()))
        commit(state, mine)

    run(Agent(Assignment(1, 0, 1), LAST), State(batch=0), step)
    assert [body["uses"] for warming, body in reports if not warming] == [uses] * 3


def test_a_rehearsal_asks_for_nothing(run):
    """What is called in the warm-up is answered as for a worker alone, and says nothing of the round."""
    commit = commits(2)

    def step(state, mine):
        if mine.warming:
            script_api.batch()
            script_api.lr_scale()
            script_api.epoch(7)
            script_api.total(5000)
        commit(state, mine)

    agent = Agent(Assignment(1, 0, 1), LAST)
    run(agent, State(batch=0), step)
    body = worker_context.current().progress.body()
    assert (body["uses"], body["epoch"], "total_samples" in body["values"]) == ([], 0.0, False)


def _then(method, also):
    def both(self):
        method(self)
        also(self)

    return both


def test_what_a_script_restores_itself_outlives_the_warm_up(run, tmp_path):
    """The position belongs to the state: both are those of the checkpoint when the first round begins."""
    path = tmp_path / "team.job"
    checkpoint_file.write(
        str(path), 40, {"step": 40, "samples": 1280}, *state_codec.pack({"attributes": {"batch": 7}}, None)
    )
    state, agent = State(batch=0), Agent(Assignment(1, 0, 1), LAST)
    run(agent, state, commits(43), lambda: script_api.restore(state))
    assert [(one["step"], one["samples"]) for one in agent.readies] == [(40, 1280.0), (43, 1280.0)]
    assert state.batch == 10


def test_a_restore_after_the_training_begins_no_other(run, tmp_path):
    """A script that exports what was saved best reports nothing more: it would count as one that trains, and hangs."""
    agent = Agent(Assignment(1, 0, 1), Assignment(2, -1, 0, removed=True, checkpoint=True))
    state = State(batch=0)
    run(agent, state, commits(4))
    told = len(agent.told)
    state.batch = 99

    assert script_api.restore(state)
    assert state.batch == 4
    assert worker_context.current().reporter.is_alive() is False
    assert len(agent.told) == told


def test_a_second_training_hears_and_reports_like_the_first(monkeypatch):
    """A script may train twice, as for two stages or an evaluation: rounds are heard and steps told in both."""
    agent = Agent()
    agent.announced = lambda after: time.sleep(0.01) or after
    monkeypatch.setattr(worker_context, "_worker", None)
    monkeypatch.setattr(worker_context, "Shim", lambda *_: agent)
    monkeypatch.setenv("GANGWRIGHT_SHIM", "http://127.0.0.1:9")
    first = worker_context.begin()
    first.progress.step = 40
    first.watch.entered(3)
    first.stop()

    again = worker_context.begin()
    agent.announced = lambda _after: time.sleep(0.01) or 4
    again.progress.phase = "Again"
    try:
        assert again is first
        limit = time.monotonic() + 20
        while again.watch.target != 4 or agent.last("/progress")["phase"] != "Again":
            assert time.monotonic() < limit, (again.watch.target, agent.told)
            time.sleep(0.01)
        assert agent.last("/progress")["step"] == 40
    finally:
        again.stop()


class Resetting(State):
    """Notes each reset."""

    def __init__(self, **values):
        super().__init__(**values)
        self.resets = 0

    def on_reset(self):
        self.resets += 1


@pytest.mark.parametrize(
    ("known", "joins", "alone", "resets"),
    [
        ((0, 2), False, False, 0),
        ((0, 2), True, False, 0),
        ((0, 2), True, True, 1),
        ((1, 2), False, False, 1),
        (None, False, False, 0),
        (None, True, False, 1),
    ],
)
def test_reset_callbacks_of_a_first_round(run, monkeypatch, known, joins, alone, resets):
    """None where the script set up for this round, as in stock Horovod. One that joins others runs theirs where it set up
    for no place, or alone; and one whose place is another than it was told.
    """
    monkeypatch.setattr(script_setup, "_told", known and Place(*known, joins=joins))
    monkeypatch.setattr(script_setup, "_asked", {"rank": (known[0], "train.py:3")} if known else {})
    monkeypatch.setattr(script_setup, "answered_alone", alone)
    agent, state = Agent(Assignment(1, 0, 2), LAST), Resetting(batch=0)
    agent.word["resets"] = joins
    monkeypatch.setattr(run_loop.barrier, "pass_through", lambda *_: agent.word)
    run(agent, state, commits(1))

    assert state.resets == resets
    assert agent.readies[0]["place"] == (list(known) if known else None)


@pytest.mark.parametrize(("callbacks", "stale"), [((), "train.py:3"), ((print,), "")])
def test_what_the_script_asked_for_and_is_no_more_is_told(run, monkeypatch, callbacks, stale):
    """In a later round, unless a callback takes it over."""
    monkeypatch.setattr(script_setup, "_told", Place(0, 1, joins=False))
    monkeypatch.setattr(script_setup, "_asked", {"size": (1, "train.py:3")})
    monkeypatch.setenv("GANGWRIGHT_INCARNATION", "2")
    agent, state, said = Agent(Assignment(1, 0, 1), Assignment(2, 0, 2), LAST), State(batch=0), []
    state._reset_callbacks = callbacks
    monkeypatch.setattr(run_loop.barrier, "pass_through", lambda *_: agent.word)

    def step(state, mine):
        said.append((mine.assignment.round, mine.progress.stale))
        commits(1)(state, mine)

    run(agent, state, step)
    assert said == [(1, ""), (2, stale)]
    assert agent.readies[0]["again"], "a process that was started again is not started once more"
