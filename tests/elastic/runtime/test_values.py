"""What the child decodes, sets, counts and compares, without any process."""

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.elastic import runtime
from scheduler.elastic.runtime import (
    horovod_environment,
    import_hook,
    interrupt,
    round_assignment,
    script_api,
    state_codec,
    worker_context,
)
from scheduler.elastic.runtime.data_position import Batch
from scheduler.elastic.runtime.runtime_errors import AnswerError
from scheduler.elastic.runtime.step_timer import Stamp
from scheduler.elastic.runtime.training_progress import STILL, Progress

FILES = sorted(Path(runtime.__file__).parent.rglob("*.py"))
ALL = {
    "round": 4,
    "rank": 1,
    "size": 3,
    "members": ["a", "b", "c"],
    "sync": True,
    "removed": False,
    "checkpoint": True,
    "restore": "/data/step-000000000007.npz",
    "batch": {"mode": "capped", "local": 21, "global": 64, "accumulate": 1},
    "lr_scale": 2,
    "ramp_steps": 640,
    "env": {"X": "1"},
}


def test_an_assignment_is_decoded():
    """Every field of the master's answer arrives."""
    made = round_assignment.decode(json.dumps(ALL).encode())
    assert (made.round, made.rank, made.size, made.members) == (4, 1, 3, ("a", "b", "c"))
    assert made.batch == Batch("capped", total=64, local=21)
    assert (made.sync, made.checkpoint, made.removed) == (True, True, False)
    assert (made.lr_scale, made.ramp_steps, made.env) == (2.0, 640, {"X": "1"})
    assert made.restore == "/data/step-000000000007.npz"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"round": "4"}, "round of the assignment is '4': must be int"),
        ({"round": True}, "round of the assignment is True"),
        ({"round": 0}, "round of the assignment is 0: must be 1 or more"),
        ({"rank": None}, "rank of the assignment is None"),
        ({"rank": 3}, "rank 3 of size 3"),
        ({"members": "abc"}, "members of the assignment is 'abc': must be list"),
        ({"batch": 7}, "batch is 7: must be an object or null"),
        (
            {"batch": {**ALL["batch"], "mode": "wild"}},
            "batch.mode is 'wild': must be one of per-worker, capped, fixed",
        ),
        ({"batch": {**ALL["batch"], "accumulate": 0}}, "accumulate must be at least 1"),
        ({"env": []}, r"env of the assignment is \[\]: must be dict"),
    ],
)
def test_a_wrong_assignment_names_the_field(change, named):
    """Field, value and what would be right are in the error."""
    with pytest.raises(AnswerError, match=named):
        round_assignment.decode(json.dumps({**ALL, **change}).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"nonsense", b"\xff"])
def test_what_is_no_object_is_refused(text):
    """An answer that is no JSON object is an AnswerError, nothing else."""
    with pytest.raises(AnswerError):
        round_assignment.decode(text)


def test_a_removal_needs_no_rank():
    """Whoever is to go gets a round and nothing to be in it."""
    made = round_assignment.decode(b'{"round": 9, "removed": true, "rank": -1, "size": 2}')
    assert (made.round, made.removed) == (9, True)


def test_alone_first_then_a_member():
    """Without an address Horovod keeps to itself; in a round it finds the agent, with its key, whatever the
    assignment adds.
    """
    alone = horovod_environment.solo({"GANGWRIGHT_POD": "w-1", "GANGWRIGHT_IFACE": "lo"})
    assert (alone["HOROVOD_SIZE"], alone["HOROVOD_ELASTIC"]) == ("1", "1")
    assert (alone["HOROVOD_HOSTNAME"], alone["HOROVOD_GLOO_IFACE"]) == ("w-1", "lo")
    assert alone["HOROVOD_GLOO_RENDEZVOUS_ADDR"] is None
    added = {"OMP_NUM_THREADS": "2", "HOROVOD_RANK": "7", "GANGWRIGHT_SHIM": "http://elsewhere:1"}
    agent = {"GANGWRIGHT_SHIM": "http://127.0.0.1:4242", "GANGWRIGHT_SHIM_KEY": "k"}
    member = horovod_environment.member(1, 3, agent, added)
    assert (member["HOROVOD_RANK"], member["HOROVOD_SIZE"], member["HOROVOD_CROSS_SIZE"]) == ("1", "3", "1")
    assert (member["HOROVOD_GLOO_RENDEZVOUS_ADDR"], member["HOROVOD_GLOO_RENDEZVOUS_PORT"]) == (
        "127.0.0.1:4242/k",
        "4242",
    )
    assert member["OMP_NUM_THREADS"] == "2"
    assert "GANGWRIGHT_SHIM" not in member


@given(st.floats(1e-5, 1.0), st.floats(1e-4, 60.0))
def test_asking_is_cheap_or_it_is_due(check, step):
    """Either the interval keeps the cost within 1 %, or it is as long as the latest answer allows."""
    steps = interrupt.interval(check, step)
    assert steps >= 1
    assert steps == 1 or steps * step <= interrupt.LATEST + 1e-9
    assert check <= interrupt.COST * steps * step * (1 + 1e-6) or (steps + 1) * step > interrupt.LATEST


@pytest.mark.parametrize(
    ("check", "step", "steps"), [(0.002, 0.025, 8), (0.002, 0.2, 1), (0.002, 0.5, 1), (1.0, 0.001, 1000)]
)
def test_the_interval_follows_the_measurement(check, step, steps):
    """2 ms of asking beside steps of 25 ms: every eighth step."""
    assert interrupt.interval(check, step) == steps


def test_all_ranks_count_alike():
    """Two paces that hear the same numbers ask at the same steps, whatever each of them measures."""
    paces = [interrupt.Pace(), interrupt.Pace()]
    asked = [[], []]
    for step in range(40):
        heard = paces[0].wish()
        for number, pace in enumerate(paces):
            pace.stepped(0.01 * (number + 1))
            if pace.due():
                asked[number].append(step)
                pace.agreed(heard, 0.0004)
    assert asked[0] == asked[1]
    assert asked[0][:2] == [0, 1]
    assert len(asked[0]) < 15


def test_a_fingerprint_is_of_shapes_and_dtypes():
    """Order, shape, dtype and the names of plain values count."""
    mine = [state_codec.shape("float32", [3, 3]), state_codec.shape("int64", [])]
    assert mine == ["float32[3,3]", "int64[]"]
    assert state_codec.digest(mine, ["step", "epoch"]) == state_codec.digest(mine, ["epoch", "step"])
    others = [(mine[::-1], ["epoch", "step"]), (mine[:1], ["epoch", "step"]), (mine, ["step"])]
    assert state_codec.digest(mine, ["epoch", "step"]) not in {state_codec.digest(*one) for one in others}
    assert state_codec.describe(mine, ["step"]) == "2 tensors (float32[3,3], int64[]) and step"


def test_a_failure_goes_back_to_the_last_commit():
    """Steps and samples that were not committed did not happen."""
    progress = Progress()
    for _ in range(3):
        progress.samples += 32
        progress.stepped(0.1, None)
    progress.saved()
    progress.samples += 32
    progress.stepped(0.1, None)
    progress.rolled_back()
    assert (progress.step, progress.samples, progress.committed) == (3, 96, 3)


def test_a_report_has_the_times_since_the_last_one():
    """Means of what was measured in between, and nothing when there was no step."""
    progress = Progress(epoch_length=64)
    progress.stepped(None, None)
    progress.stepped(0.2, 0.1)
    progress.stepped(0.4, 0.3)
    progress.samples = 96
    first, second = progress.body(), progress.body()
    assert (first["step_s"], first["compute_s"]) == (pytest.approx(0.3), pytest.approx(0.2))
    assert (first["step"], first["samples"], first["epoch"]) == (3, 96.0, 1.5)
    assert (second["step_s"], second["compute_s"]) == (None, None)


def test_marks_are_looked_up_where_nothing_else_changes(monkeypatch):
    """A script that commits once an epoch shows that it goes on by its steps' collectives; one that commits often pays
    nothing for it.
    """
    marks, stamp = iter(range(1, 100)), Stamp()
    monkeypatch.setattr(stamp, "last", lambda: float(next(marks)))
    progress = Progress(stamp=stamp)
    often = []
    for _ in range(30):
        progress.stepped(0.1, None)
        often.append(progress.body()["mark"])
    seldom = [progress.body()["mark"] for _ in range(9)]

    assert set(often) == {0.0}
    assert seldom[: STILL - 1] == [0.0] * (STILL - 1)
    assert seldom[STILL - 1 :] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_report_says_the_epoch_that_is_told():
    """What the script says goes before what its position comes to; that an epoch is known is said too, also of epoch
    0.
    """
    silent, counted, told = Progress(), Progress(epoch_length=64), Progress(epoch_length=64)
    counted.samples = told.samples = 96
    told.told["epoch"] = 0.0
    bodies = [one.body() for one in (silent, counted, told)]
    assert [one["epoch"] for one in bodies] == [0.0, 1.5, 0.0]
    assert [one["uses"] for one in bodies] == [[], ["epoch"], ["epoch"]]


def test_the_whole_is_not_lost_among_values():
    """The total comes before the script's many values, of which the last are left out."""
    progress = Progress(told={"total_samples": 5000.0})
    progress.values.update({f"class_{number}": 1.0 for number in range(100)})
    assert next(iter(progress.body()["values"].items())) == ("total_samples", 5000.0)


@pytest.mark.parametrize(
    ("call", "value", "right"),
    [
        (script_api.epoch, -1, "done is -1: must be from 0 to 1e+09"),
        (script_api.epoch, float("nan"), "done is nan: must be from 0"),
        (script_api.epoch, 2e9, "done is 2000000000.0: must be from 0"),
        (script_api.total, -1, "samples is -1: must be from 0 to 1e+15"),
        (script_api.total, float("inf"), "samples is inf: must be from 0"),
    ],
)
def test_a_whole_that_is_none_is_refused(call, value, right):
    """The error names the argument, its value and what would be right, where the script can be mended."""
    with pytest.raises(ValueError, match=re.escape(right)):
        call(value)


def test_what_is_told_early_is_not_lost(monkeypatch):
    """A total that is said where the script begins is reported once there is a worker."""
    monkeypatch.setattr(worker_context, "_worker", None)
    monkeypatch.setattr(worker_context, "early", {})
    monkeypatch.setattr(worker_context.Worker, "start", lambda _: None)
    monkeypatch.setenv("GANGWRIGHT_SHIM", "http://127.0.0.1:9")
    script_api.total(5000)
    script_api.epoch(3)
    body = worker_context.begin().progress.body()
    assert (body["values"], body["epoch"], body["uses"]) == ({"total_samples": 5000.0}, 3.0, ["epoch"])


def test_our_own_values_come_first():
    """A script that reports more than is taken loses its own last ones, not what a resize cost."""
    progress = Progress()
    progress.values.update({f"class_{number}": 1.0 for number in range(100)})
    progress.ours.update(idle_s=0.2, checkpoint_step=40.0)
    assert list(progress.body()["values"])[:3] == ["idle_s", "checkpoint_step", "class_0"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_child_may_be_of_python_3_8(file):
    """Every file parses as Python 3.8, and imports only the standard library and its own package when it is loaded."""
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    imported = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {
        name.name.split(".")[0] for node in imported if isinstance(node, ast.Import) for name in node.names
    }
    names |= {
        node.module.split(".")[0] for node in imported if isinstance(node, ast.ImportFrom) and not node.level
    }
    assert names <= sys.stdlib_module_names


def test_activation_is_cheap_and_gives_the_api(tmp_path):
    """Under any package name, with nothing but the standard library, `import gangwright` answers as for a worker
    alone.
    """
    program = f"""
import sys, types
holder = types.ModuleType("carried"); holder.__path__ = [{str(Path(runtime.__file__).parents[1])!r}]
sys.modules["carried"] = holder
import carried.runtime
carried.runtime.activate(); carried.runtime.activate()
assert "numpy" not in sys.modules and len([one for one in sys.meta_path if "carried" in type(one).__module__]) == 1
import os, gangwright
assert os.environ["HOROVOD_SIZE"] == "1"
assert (gangwright.batch(8).total, gangwright.lr_scale(), gangwright.samples()) == (8, 1.0, 0)
assert not gangwright.warming_up()
taken = []
for share in gangwright.shard(range(20), 8):
    taken.append(share.indices)
    gangwright.advance(share.total); gangwright.report(loss=1.0)
assert taken == [list(range(8)), list(range(8, 16)), list(range(16, 20))], taken
"""
    env = {"GANGWRIGHT_SHIM": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", sorted(set(import_hook.PATCHES.values())))
def test_each_patch_of_an_imported_module_exists(change):
    """The import hook names its patches, which are imported only with the module that they change."""
    module, _, name = change.partition(".")
    assert callable(getattr(importlib.import_module(f"{runtime.__name__}.{module}"), name))


def test_outside_an_agent_nothing_is_changed(tmp_path):
    """Without the agent's address the activation leaves environment and imports alone."""
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(runtime.__file__).parents[3])!r})
before = dict(os.environ), list(sys.meta_path)
from scheduler.elastic.runtime import activate
activate()
assert before == (dict(os.environ), list(sys.meta_path))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={}, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
