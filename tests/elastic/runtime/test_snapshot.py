# ruff: noqa: NPY002 - the global source of chance is what scripts use
"""What a rehearsal leaves of what a script reaches: nothing. Plain Python, and numpy's arrays and sources of chance."""

import collections
import functools
import itertools
import queue
import random
import sys
import threading
import types

import numpy as np
import pytest

from scheduler.elastic.runtime import frameworks, runtime_errors, warmup, worker_context
from scheduler.elastic.runtime.rehearsal_snapshot import Snapshot

STEPS = 5

count = 0
best = {"loss": 9.0, "at": []}
draws = iter(range(100))


class Meter:
    """As a script has one: numbers of an object, of its class, and in slots."""

    total = 0
    made = []

    def __init__(self):
        self.values, self.last = collections.deque(maxlen=3), None

    def note(self, value):
        self.last = value
        self.values.append(value)
        Meter.total += 1
        self.made.append(value)


class Slotted:
    __slots__ = ("later", "number")

    def __init__(self):
        self.number = 0

    def step(self):
        self.number += 1
        self.later = self.number


class State:
    """As Horovod's `ObjectState`, alone."""

    def __init__(self, **values):
        self._saved_state = values
        vars(self).update(values)

    def save(self):
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    sync = save

    def _bcast_object(self, value):
        return value


class Alone:
    """The part of a worker that a rehearsal asks."""

    def __init__(self):
        self.warming = False
        self.progress = worker_context.Progress()


def rehearsed(func, state=None, *args, **words):
    """The worker of a rehearsal of `func`, which is to call `commit` after every step."""
    alone = Alone()
    warmup.run(alone, frameworks.of(state or State()), func, args, words)
    return alone


def commit():
    """Interrupts, as the commit of a rehearsal does."""
    raise runtime_errors.Interrupted


def drawn(value, number=8):
    return list(itertools.islice(value, number))


def test_what_closures_hold_is_as_it_was():
    """Counters, lists of losses, an early-stopping counter, arrays and a default argument that is changed in place."""
    losses, waited, speeds = [3.0], 0, np.zeros(4)
    seen, raw, by_name = {1}, bytearray(b"ab"), collections.OrderedDict(a=1, b=2)
    counted, alias = collections.Counter(a=1), [].append

    def train(state, kept=[]):  # noqa: B006 - scripts have it
        nonlocal waited
        waited += 1
        losses.append(2.0)
        speeds[:] += 1
        seen.add(2)
        raw.extend(b"c")
        by_name.move_to_end("a")
        counted.update("ab")
        kept.append(1)
        alias(1)
        commit()

    train.calls = 0
    rehearsed(train)
    assert (losses, waited, speeds.tolist(), seen, raw) == ([3.0], 0, [0.0] * 4, {1}, b"ab")
    assert (list(by_name), counted, train.__defaults__) == (["a", "b"], {"a": 1}, ([],))
    assert alias.__self__ == []


def test_globals_and_what_they_hold_are_as_they_were():
    """Names that the function binds, nests that it changes through another function, and names that it is the first to
    bind."""
    inner = best["at"]

    def note():
        best["loss"] = 1.0
        best["at"].append(count)

    def train(state):
        global count, fresh
        count += 1
        fresh = count
        note()
        commit()

    rehearsed(train)
    assert count == 0
    assert "fresh" not in globals()
    assert best == {"loss": 9.0, "at": []}
    assert best["at"] is inner


def test_objects_and_classes_of_the_script_are_as_they_were():
    """Their attributes, slots and class attributes; one that trains itself, by a method; and one that is lazily made."""
    meter, slotted = Meter(), Slotted()
    held = meter.values

    class Trainer:
        def __init__(self):
            self.steps = 0
            self.inner = types.SimpleNamespace(rate=0.1)

        @functools.cached_property
        def plan(self):
            return [1]

        def train(self, state):
            self.steps += 1
            self.inner.rate *= 0.5
            self.plan.append(2)
            self.extra = 1
            meter.note(4)
            slotted.step()
            commit()

    trainer = Trainer()
    rehearsed(trainer.train)
    assert (trainer.steps, trainer.inner.rate, sorted(vars(trainer))) == (0, 0.1, ["inner", "steps"])
    assert (meter.last, list(meter.values), Meter.total, Meter.made) == (None, [], 0, [])
    assert meter.values is held
    assert slotted.number == 0
    assert not hasattr(slotted, "later")


def test_a_state_and_its_aliases_are_as_they_were():
    """An object of the state that the script holds elsewhere too is the same object still, with what it had."""
    history, meter = [1, [2]], Meter()
    state = State(step=0, history=history, meter=meter)

    def train(state):
        state.step += 1
        state.history[1].append(3)
        state.meter.note(1)
        state.history = [*state.history, 4]
        state.save()
        commit()

    rehearsed(train, state)
    assert state.history is history
    assert state.meter is meter
    assert (state.step, history, meter.last) == (0, [1, [2]], None)
    assert state._saved_state == {"step": 0, "history": history, "meter": meter}


def test_modules_of_the_script_are_as_they_were(monkeypatch, tmp_path):
    """What functions of them change, and what the training function changes in them, imported late or early."""
    (tmp_path / "their_helpers.py").write_text("n = 0\nlisted = []\ndef up():\n    global n\n    n += 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    helpers = __import__("their_helpers")

    def train(state):
        import their_helpers

        helpers.up()
        their_helpers.listed.append(1)
        commit()

    rehearsed(train)
    assert (helpers.n, helpers.listed) == (0, [])
    del sys.modules["their_helpers"]


def test_sources_of_chance_are_where_they_were():
    """Python's and numpy's, global or held by the script."""
    own, generator, old = random.Random(3), np.random.default_rng(4), np.random.RandomState(5)

    def draws():
        return [own.random(), generator.random(), old.rand(), random.random(), np.random.rand()]

    def train(state):
        draws()
        commit()

    random.seed(6)
    np.random.seed(7)
    rehearsed(train)
    first = draws()
    own.seed(3)
    random.seed(6)
    np.random.seed(7)
    generator, old = np.random.default_rng(4), np.random.RandomState(5)
    assert draws() == first


def test_iterators_are_where_they_were():
    """In closures, globals, containers, attributes and arguments; two that draw from one do so in the rehearsal too."""
    source = iter(range(100))
    numbered, nested = enumerate(source), [zip(itertools.cycle("ab"), iter({3: 0, 4: 0}))]
    meter, pair = Meter(), (iter([1, 2]), itertools.islice(map(str, range(9)), 1, 8, 2))
    meter.batches = itertools.count(3)
    cycle = itertools.cycle([1, 2, 3])
    next(cycle)
    met = []

    def train(state, given, *, named):
        met.append((next(numbered), next(source), next(numbered)))
        met.extend(next(one) for one in (draws, *pair, *nested, meter.batches, cycle, given, named))
        print(met)
        commit()

    given, named = iter("xyz"), iter("uvw")
    originals = numbered, source, pair, meter.batches
    rehearsed(train, None, given, named=named)
    assert (numbered, source, pair, meter.batches) == originals
    assert (drawn(numbered, 2), drawn(source, 1)) == ([(0, 0), (1, 1)], [2])
    assert (drawn(draws, 2), drawn(nested[0])) == ([0, 1], [("a", 3), ("b", 4)])
    assert [drawn(one) for one in pair] == [[1, 2], ["1", "3", "5", "7"]]
    assert (drawn(meter.batches, 1), drawn(cycle, 4), *given, *named) == ([3], [2, 3, 1, 2], *"xyz", *"uvw")


def test_a_rehearsal_draws_what_the_training_will(capsys):
    """Copies stand where the originals do, in the same order."""
    numbered = enumerate("abc")

    def train(state):
        print(next(numbered))
        commit()

    rehearsed(train)
    assert capsys.readouterr().out == "(0, 'a')\n"


@pytest.mark.parametrize("wrap", [iter, enumerate, lambda one: [zip(one, one, strict=False)]])
def test_a_generator_is_named_and_nothing_is_rehearsed(wrap, capsys):
    """Wherever it is held: it cannot be copied, and the training would begin with its second batch."""
    batches = wrap(number for number in range(9))

    def train(state):
        next(batches)

    assert not rehearsed(train).warming
    said = capsys.readouterr().err
    assert said.startswith("gangwright: worker: no rehearsal: train.batches")
    assert said.endswith("cannot be restored. The first step is slower instead\n")
    assert drawn(batches if hasattr(batches, "__next__") else batches[0], 1) in ([0], [(0, 0)], [(0, 1)])


def test_what_changes_by_itself_is_named_and_nothing_is_rehearsed():
    """A queue that a thread of the script fills: what the rehearsal took out of it would be gone."""
    samples, ended = queue.Queue(), threading.Event()
    filling = threading.Thread(target=ended.wait, daemon=True)

    def by_queue(state):
        samples.get()

    def by_thread(state):
        filling.join(0)

    Snapshot(by_thread, None)
    filling.start()
    for train, name in ((by_queue, "by_queue.samples"), (by_thread, "by_thread.filling")):
        with pytest.raises(runtime_errors.Unmovable, match=name):
            Snapshot(train, None)
    ended.set()


def test_what_only_shares_a_name_is_not_in_the_way(monkeypatch, capsys):
    """A generator among the globals is none of the function's because it uses an attribute of that name."""
    monkeypatch.setitem(globals(), "values", (number for number in range(3)))
    meter = Meter()

    def train(state):
        meter.values.append(1)
        commit()

    rehearsed(train)
    assert capsys.readouterr().err == ""
    assert list(meter.values) == []
    assert drawn(values) == [0, 1, 2]  # noqa: F821


def test_what_the_script_does_not_reach_is_left_alone():
    """Data above the limits is neither copied nor looked at, and no library is entered."""
    many, huge = [[one] for one in range(20_000)], np.zeros(80 << 20, np.uint8)
    library = collections.UserList([1])

    def train(state):
        many.append([0])
        return huge, library, np, pytest, random

    kept = Snapshot(train, State())
    assert len(kept._seen) < 80
    train(None)
    kept.put_back(lambda _value: False)
    assert len(many) == 20_000


def test_what_a_library_keeps_of_the_state_is_rehearsed_on_a_copy(monkeypatch):
    """As far as the state can be committed at all, which copies it."""
    theirs = types.ModuleType("their_library")
    exec("class Log:\n    def __init__(self):\n        self.lines = []", vars(theirs))
    theirs.Log.__module__ = "email.their_library"
    monkeypatch.setitem(sys.modules, "email.their_library", types.ModuleType("email.their_library"))
    sys.modules["email.their_library"].__file__ = __import__("email").__file__
    log = theirs.Log()
    state = State(log=log)

    def train(state):
        state.log.lines.append(1)
        commit()

    rehearsed(train, state)
    assert state.log is log
    assert log.lines == []


def test_the_training_is_that_without_a_rehearsal():
    """Shuffled batches, dropped inputs and momentum: the weights are the same to the bit."""

    def trained(warm):
        random.seed(1)
        chance = np.random.default_rng(2)
        weights, speed, order = np.ones(6), np.zeros(6), list(range(40))
        state, batches, done = State(step=0), itertools.count(), []

        def train(state):
            while state.step < STEPS:
                if next(batches) % 3 == 0:
                    random.shuffle(order)
                mask = chance.random(6) < 0.5
                speed[:] = 0.9 * speed - 0.1 * mask * (weights - order[state.step])
                np.add(weights, speed, out=weights)
                state.step += 1
                done.append(float(weights.sum()))
                if alone.warming:
                    commit()

        alone = Alone()
        if warm:
            warmup.run(alone, frameworks.of(state), train, (), {})
        train(state)
        return weights.tolist(), done

    assert trained(warm=True) == trained(warm=False)
