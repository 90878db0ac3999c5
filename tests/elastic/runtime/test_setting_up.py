"""What a script hears of others while it sets up, from Horovod's Python layer over a native half that is alone."""

import sys
import types

import pytest

from scheduler.elastic.runtime import script_setup, worker_context
from scheduler.elastic.runtime.round_assignment import Assignment, Place
from scheduler.elastic.runtime.runtime_errors import SetupCollective


def alone():
    """Modules as Horovod's are: methods over a native half at rank 0 of 1, and operations of its library."""

    class Basics:
        rank = cross_rank = local_rank = lambda self: 0
        size = cross_size = local_size = lambda self: 1

    class ProcessSet:
        def __init__(self, process_set_id):
            self.process_set_id = process_set_id

        rank, size = (lambda self: 0), (lambda self: 1)

    library = types.SimpleNamespace(horovod_allreduce=lambda: "reduced", horovod_size=lambda: 1)
    operations = types.SimpleNamespace(MPI_LIB=library, is_initialized=lambda: True)
    operations.shutdown = operations.init = lambda: None
    return types.SimpleNamespace(HorovodBasics=Basics, ProcessSet=ProcessSet, operations=operations)


@pytest.fixture
def horovod(monkeypatch):
    """Of a process that is to be rank 1 of 2, changed as the hook changes it."""
    made = alone()
    script_setup.patch_basics(made)
    script_setup.patch_process_sets(made)
    monkeypatch.setattr(script_setup, "_operations", None)
    monkeypatch.setattr(script_setup, "answered_alone", False)
    script_setup.patch_operations(made.operations)
    monkeypatch.setattr(worker_context, "_worker", None)
    monkeypatch.setattr(script_setup, "_asked", {})
    monkeypatch.setattr(script_setup, "_told", Place(1, 2, joins=True))
    return made


def called(module, code, **names):
    """What `code` gives as code of this module of Horovod's."""
    space = {"__name__": module, **names}
    exec(code, space)
    return space["found"]


def test_a_script_hears_what_it_will_be(horovod):
    """Rank, size and the same across hosts; inside its pod it is alone."""
    basics = horovod.HorovodBasics()

    assert (basics.rank(), basics.size()) == (1, 2)
    assert (basics.cross_rank(), basics.cross_size()) == (1, 2)
    assert (basics.local_rank(), basics.local_size()) == (0, 1)
    assert (horovod.ProcessSet(0).rank(), horovod.ProcessSet(0).size()) == (1, 2)
    assert (horovod.ProcessSet(3).rank(), horovod.ProcessSet(3).size()) == (0, 1), "a set of the script's own"


def test_modules_of_horovod_hear_what_is_true(horovod):
    """They branch on it around collectives of their own. The one that divides data hears what the script does."""
    basics = horovod.HorovodBasics()
    ask = "def __init__(): return basics.rank(), basics.size()\nfound = __init__()"

    assert called("horovod.torch.optimizer", ask, basics=basics) == (0, 1)
    assert called("horovod_of_ours", ask, basics=basics) == (1, 2)
    assert script_setup.asked()
    script_setup._asked.clear()
    assert called("horovod.torch.elastic.sampler", ask, basics=basics) == (1, 2)
    assert script_setup.asked() is None, "it is dealt again in each round"


def test_the_first_line_that_asked_is_kept(horovod):
    """With the values that it was told, so that those that are not true any more can be named."""
    basics = horovod.HorovodBasics()
    size = basics.size()
    again = basics.size()

    line = test_the_first_line_that_asked_is_kept.__code__.co_firstlineno + 3
    assert (size, again) == (2, 2)
    assert script_setup.differs(1, 3) == f"{__file__}:{line}"
    assert script_setup.differs(0, 2) == "", "it did not ask for the rank"


def test_a_round_is_what_a_script_hears_of_it(horovod, monkeypatch):
    """From then on nothing is expected; in a rehearsal alone it is the round before. What is asked in a set-up that has
    met others is kept as well.
    """
    mine = worker_context.Worker(None)
    mine.assignment = Assignment(3, 4, 5)
    monkeypatch.setattr(worker_context, "_worker", mine)

    assert (horovod.HorovodBasics().rank(), horovod.HorovodBasics().size()) == (4, 5)
    assert script_setup.differs(4, 6)
    script_setup._asked.clear()
    mine.progress.setup = False
    assert horovod.HorovodBasics().size() == 5
    assert script_setup.asked() is None, "it asks again in each round"


def test_what_a_graph_keeps_is_noted(horovod, monkeypatch):
    """Also in the training function, or its rehearsal. The line is the script's, not that of the library it asked through."""
    mine = worker_context.Worker(None)
    mine.progress.setup = False
    monkeypatch.setattr(worker_context, "_worker", mine)
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace(executing_eagerly=lambda: False))
    space = {"__name__": "tensorflow.python.autograph", "basics": horovod.HorovodBasics()}
    exec("def traced(): return basics.size()", space)

    assert space["traced"]() == 2
    assert script_setup.differs(1, 3).startswith(__file__)


def calls(horovod, name):
    """A call of this function of Horovod's by the script."""
    space = {"__name__": "horovod.torch.functions", "library": horovod.operations.MPI_LIB}
    exec(f"def {name}(): return library.horovod_allreduce()", space)
    return space[name]()


@pytest.mark.parametrize("name", ["allreduce", "broadcast_object", "allgather_object", "broadcast_"])
def test_a_newcomer_goes_by_no_answer_of_its_own(horovod, name):
    """It joins a training that goes on: no other worker is there to answer, so the line is named that would go by it."""
    with pytest.raises(SetupCollective, match=rf"test_setting_up.py:\d+ calls {name} while it sets up"):
        calls(horovod, name)


@pytest.mark.parametrize("name", ["broadcast_parameters", "broadcast_optimizer_state", "step", "_hook"])
def test_what_the_synchronization_replaces_goes_on_alone(horovod, name):
    """Parameters and gradients: the state of the others is taken over afterwards."""
    assert calls(horovod, name) == "reduced"
    assert script_setup.answered_alone


@pytest.mark.parametrize("quiet", ["a worker alone", "in its training", "not initialized"])
def test_other_collectives_are_left_alone(horovod, monkeypatch, quiet):
    """One worker is the whole gang; a training has its rounds; what is not initialized says so itself."""
    if quiet == "a worker alone":
        monkeypatch.setattr(script_setup, "_told", Place(0, 1, joins=False))
    elif quiet == "in its training":
        mine = worker_context.Worker(None)
        mine.progress.setup = False
        monkeypatch.setattr(worker_context, "_worker", mine)
    else:
        horovod.operations.is_initialized = lambda: False

    assert calls(horovod, "allreduce") == "reduced"
    assert not script_setup.answered_alone


class Agent:
    """Gives these rounds, one after the other."""

    def __init__(self, *rounds):
        self.rounds, self.readies = list(rounds), []

    def ready(self, body):
        self.readies.append(dict(body))
        return self.rounds.pop(0)


def test_a_gang_meets_at_its_first_collective(horovod, monkeypatch):
    """Horovod is initialized again as a member. In a round that is overtaken it waits for the next one."""
    monkeypatch.setenv("GANGWRIGHT_SHIM", "http://127.0.0.1:9")
    monkeypatch.setenv("GANGWRIGHT_SHIM_KEY", "k")
    for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"):
        monkeypatch.setenv(f"HOROVOD_{name}", "0")
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "")
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", "")
    monkeypatch.setattr(script_setup, "_told", Place(1, 2, joins=False))
    agent = Agent(Assignment(1, 1, 2), Assignment(2, 1, 2))
    mine = worker_context.Worker(agent)
    monkeypatch.setattr(worker_context, "_worker", mine)
    passes, done = iter([True, False]), []

    def door(*_):
        if next(passes):
            raise script_setup.barrier.Overtaken

    monkeypatch.setattr(script_setup.barrier, "pass_through", door)
    horovod.operations.shutdown = lambda: done.append("shutdown")
    horovod.operations.init = lambda: done.append(script_setup.os.environ["HOROVOD_SIZE"])

    assert calls(horovod, "broadcast_object") == calls(horovod, "allreduce") == "reduced"
    assert [(one["round"], one["setup"], one["place"]) for one in agent.readies] == [
        (0, True, [1, 2]),
        (1, True, [1, 2]),
    ]
    assert done == ["shutdown", "2"]
    assert mine.progress.setup, "its training has not begun"
