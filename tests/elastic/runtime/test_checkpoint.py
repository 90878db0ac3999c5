"""A state on disk: whole or not there, without pickle, and back as it was."""

import json
import os
import sys
import types

import numpy as np
import pytest

from scheduler.elastic.runtime import checkpoint_file, checkpointing, state_codec
from scheduler.elastic.runtime.frameworks import Plain
from scheduler.elastic.runtime.frameworks.torch import Torch
from scheduler.elastic.runtime.runtime_errors import CheckpointError
from scheduler.elastic.runtime.training_progress import Progress


def as_array(leaf):
    return leaf if isinstance(leaf, np.ndarray) else None


STATE = {
    "variables": [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int64)],
    "attributes": {
        "step": 12,
        "rate": 0.5,
        "done": False,
        "names": ["a", None],
        3: (1, 2),
        "best": np.float32(0.25),
    },
}


def saved(folder, step, state=STATE):
    text, arrays = state_codec.pack(state, as_array)
    return checkpoint_file.write(str(folder), step, {"step": step, "samples": 40}, text, arrays)


def test_what_is_written_is_read(tmp_path):
    """Arrays bit by bit, plain values with their types, keys that are numbers, tuples as tuples."""
    head, text, arrays = checkpoint_file.read(saved(tmp_path, 12))
    found = state_codec.unpack(text, arrays)
    assert head == {"step": 12, "samples": 40}
    for one, other in zip(found["variables"], STATE["variables"], strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    assert found["attributes"] == {**STATE["attributes"], "best": 0.25}
    assert isinstance(found["attributes"][3], tuple)


def test_the_newest_counts_and_old_ones_go(tmp_path):
    """Two files are kept; a folder means its newest; what is unfinished or foreign is not looked at."""
    (tmp_path / ".unfinished-x.npz").write_bytes(b"half")
    (tmp_path / "step-notes.txt").write_text("mine")
    for step in (5, 30, 200, 1000):
        saved(tmp_path, step)
    assert sorted(one.name for one in tmp_path.glob("0*")) == [
        "000003-step-000000000200.npz",
        "000004-step-000000001000.npz",
    ]
    assert checkpoint_file.read(str(tmp_path))[0]["step"] == 1000
    assert (tmp_path / "step-notes.txt").exists()


def test_what_was_written_last_is_the_newest_whatever_its_step(tmp_path):
    """Steps go back when a file is lost: the new file stays, the one written longest ago goes."""
    for step in (5000, 6000):
        saved(tmp_path, step)
    path = saved(tmp_path, 10)
    assert str(checkpoint_file.newest(str(tmp_path)).path) == path
    assert checkpoint_file.newest(str(tmp_path)).step == 10
    assert [one.step for one in checkpoint_file._listed(str(tmp_path))] == [6000, 10]


@pytest.mark.parametrize("left", [b"", b"torn"], ids=["empty", "torn"])
def test_a_spoilt_file_is_passed_over_with_a_word(tmp_path, capsys, left):
    """The one before it is taken, and which could not be read is said."""
    saved(tmp_path, 10)
    path = saved(tmp_path, 20)
    with open(path, "wb") as file:
        file.write(left)
    assert checkpoint_file.read(str(tmp_path))[0]["step"] == 10
    assert f"the checkpoint {path} cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("place", [0, 6, 8, 10, 30])
def test_a_file_that_is_spoilt_anywhere_in_its_directory_is_passed_over(tmp_path, capsys, place):
    """Zip's own words for what it cannot read are many; whichever it says, the file before is taken."""
    saved(tmp_path, 10)
    path = saved(tmp_path, 20)
    with open(path, "r+b") as file:
        content = file.read()
        file.seek(content.index(b"PK\x01\x02") + place)
        file.write(b"\xff")
    head, _, _ = checkpoint_file.read(str(tmp_path))
    assert head["step"] == 20 or "Using the previous one" in capsys.readouterr().err


def test_when_every_file_is_spoilt_nothing_is_begun_anew_in_silence(tmp_path):
    """What was saved must not be overwritten by a training that begins again as if there were nothing."""
    for step in (10, 20):
        with open(saved(tmp_path, step), "wb") as file:
            file.write(b"torn")
    with pytest.raises(CheckpointError, match=r"step-000000000010\.npz cannot be read"):
        checkpoint_file.read(str(tmp_path))


class Counter:
    """A framework whose state is one number."""

    def __init__(self, count=0):
        self.count = count

    def export(self):
        return {"count": self.count}

    def load(self, tree):
        self.count = tree["count"]

    def as_array(self, _leaf):
        return None


def on_disk(count=0, committed=0):
    """A disk, its framework and its progress, as a process of the job has them."""
    framework, progress = Counter(count), Progress()
    progress.moved(committed, 32 * committed)
    return checkpointing.Disk(framework, progress), framework, progress


@pytest.mark.parametrize("told", ["GANGWRIGHT_JOB_UID", "GANGWRIGHT_JOB"])
def test_another_jobs_files_are_never_taken(tmp_path, monkeypatch, told):
    """A job made again, or another one beside it, has a folder of its own in the same folder."""
    monkeypatch.setenv("GANGWRIGHT_CHECKPOINT", str(tmp_path))
    monkeypatch.setenv("GANGWRIGHT_JOB", "team/job")
    monkeypatch.setenv(told, "team/old")
    on_disk(count=7, committed=5000)[0].write()
    monkeypatch.setenv(told, "team/new")
    mine, framework, progress = on_disk()
    assert mine.read(str(tmp_path)) is False
    assert (framework.count, progress.step) == (0, 0)
    on_disk(count=3, committed=10)[0].write()
    assert mine.read(str(tmp_path)) is True
    assert (framework.count, progress.committed, progress.samples) == (3, 10, 320)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["team.new", "team.old"]


def test_the_folder_of_a_run_stays_inside(tmp_path):
    """Whatever the uid is, its folder is a plain name below the job's."""
    for name in ("..", "../../etc", ".hidden", "a/b", "5b1f-8c"):
        folder = checkpoint_file.run_folder(str(tmp_path), {"GANGWRIGHT_JOB_UID": name})
        assert os.path.dirname(os.path.abspath(folder)) == str(tmp_path), name


def test_a_restore_before_the_first_checkpoint_begins_from_the_start(tmp_path, monkeypatch, capsys):
    """The gang was lost before it saved: that is said, and is no error."""
    monkeypatch.setenv("GANGWRIGHT_JOB", "team/job")
    mine, framework, progress = on_disk()
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert mine.read(str(folder)) is False
        assert (
            f"no checkpoint in {folder}/team.job. The training starts from the beginning"
            in capsys.readouterr().err
        )
    assert (framework.count, progress.step) == (0, 0)


def test_a_writer_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    """No space on the device: an error that names the file, and the checkpoint before is still the newest."""
    saved(tmp_path, 1)

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        CheckpointError, match=r"000002-step-000000000002\.npz cannot be written.*No space left"
    ):
        saved(tmp_path, 2)
    assert [one.name for one in tmp_path.iterdir()] == ["000001-step-000000000001.npz"]


def test_a_file_is_on_the_disk_with_its_name_before_it_is_told_of(tmp_path, monkeypatch):
    """First the content, then the folder that has the name: a node that loses power afterwards has both."""
    settled = []
    monkeypatch.setattr(os, "fsync", lambda handle: settled.append(os.path.isdir(f"/proc/self/fd/{handle}")))
    saved(tmp_path, 1)
    assert settled == [False, True]


def test_a_volume_that_cannot_settle_a_folder_keeps_checkpoints_all_the_same(tmp_path, monkeypatch):
    """Some network file systems refuse; the file is there."""
    settle = os.fsync

    def refuse(handle):
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(22, "Invalid argument")
        settle(handle)

    monkeypatch.setattr(os, "fsync", refuse)
    saved(tmp_path, 1)
    assert checkpoint_file.newest(str(tmp_path)).step == 1


def test_what_a_writer_that_died_has_left_is_removed(tmp_path):
    """It would fill the disk, loss by loss; one that may still be written stays."""
    saved(tmp_path, 1)
    left, written = (tmp_path / f".unfinished-{name}.npz" for name in ("left", "written"))
    for place in (left, written):
        place.write_bytes(b"half of a state")
    long_ago = left.stat().st_mtime - 2 * checkpoint_file.ABANDONED
    os.utime(left, (long_ago, long_ago))
    saved(tmp_path, 2)

    assert not left.exists()
    assert written.exists()
    assert checkpoint_file.newest(str(tmp_path)).step == 2


def test_an_object_is_refused_by_name():
    """What only a pickle could hold is named when the checkpoint is made, not when it is needed."""
    with pytest.raises(CheckpointError, match=r"attributes\.sampler: its type is object"):
        state_codec.pack({"attributes": {"sampler": object()}}, as_array)


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "bc"]),
        np.array([b"ab"]),
        np.array(["2026-01-02"], dtype="datetime64[D]"),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.datetime64("2026-01-02"),
        np.timedelta64(3, "s"),
        np.complex64(1 + 2j),
        np.longdouble(1) / 3,
    ],
    ids=lambda value: value.dtype.name,
)
def test_values_of_every_type_of_numpys_come_back(tmp_path, value):
    """Texts, dates, records and complex numbers too, scalars as scalars."""
    text, arrays = state_codec.pack({"value": value}, Plain(None).as_array)
    _, text, arrays = checkpoint_file.read(checkpoint_file.write(str(tmp_path), 1, {"step": 1}, text, arrays))
    found = state_codec.unpack(text, arrays)["value"]
    assert type(found) is type(value)
    assert found.dtype == value.dtype
    assert np.array_equal(found, value)


@pytest.mark.parametrize(
    "value", [np.array([1, "x"], dtype=object), np.array([b"ab"], dtype="V2")], ids=["objects", "unknown"]
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, value):
    """Objects and types that nobody here knows end the writing, not the reading, which is too late."""
    with pytest.raises(CheckpointError, match=r"checkpoint cannot hold|type .* is unknown"):
        saved(tmp_path, 1, {"value": value})
    assert list(tmp_path.iterdir()) == []


def test_tensors_among_plain_values_of_pytorch_come_back_as_tensors(monkeypatch):
    """Wherever a script has put them, with their type; what is no tensor stays what it is."""

    class Tensor:
        def __init__(self, array):
            self.array, self.dtype, self.device = array, f"torch.{array.dtype}", "cpu"

        def detach(self):
            return self

        def cpu(self):
            return self

        def numpy(self):
            return self.array

        def to(self, dtype=None, device=None):
            return Tensor(self.array.astype(dtype)) if dtype else self

    torch = types.ModuleType("torch")
    torch.Tensor, torch.from_numpy, torch.float32, torch.bfloat16 = Tensor, Tensor, np.float32, object()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "horovod", types.ModuleType("horovod"))
    monkeypatch.setitem(sys.modules, "horovod.torch", types.ModuleType("horovod.torch"))
    state = types.SimpleNamespace(save=lambda: None, _handlers={})
    mean = Tensor(np.arange(3, dtype=np.float32))
    state._saved_state = {"epoch": 2, "seen": [{"mean": mean}, (mean, "text", None)]}
    framework = Torch(state)

    framework.load(state_codec.unpack(*state_codec.pack(framework.export(), framework.as_array)))

    first, second = state.seen
    assert (state.epoch, second[1:]) == (2, ("text", None))
    for one in (first["mean"], second[0]):
        assert (one.dtype, list(one.array)) == ("torch.float32", [0.0, 1.0, 2.0])


def test_a_tensor_that_numpy_cannot_take_is_refused_by_name():
    """A framework says so with a TypeError (a sparse tensor, an eight-bit float); the training goes on."""

    def as_numpy(_leaf):
        raise TypeError("Got unsupported ScalarType Float8_e4m3fn")

    with pytest.raises(CheckpointError, match=r"cannot hold .*model\.weight: .*Float8"):
        state_codec.pack({"model": {"weight": object()}}, as_numpy)


def test_a_state_that_no_file_can_hold_is_told_and_does_not_end_the_training(tmp_path, monkeypatch, capsys):
    """After so many seconds of training a file is due: that it cannot be made costs no worker, until one is asked
    for.
    """
    monkeypatch.setenv("GANGWRIGHT_CHECKPOINT", str(tmp_path))
    monkeypatch.setenv("GANGWRIGHT_CHECKPOINT_EVERY", "1e-12")
    mine, framework, _ = on_disk(committed=10)
    framework.count = object()
    mine.perhaps(0)

    assert "count: its type is object" in capsys.readouterr().err
    with pytest.raises(
        CheckpointError, match=r"the state of step 10 is not saved: .*count: its type is object"
    ):
        mine.write()


@pytest.mark.parametrize(
    "content", [b"", b"no archive", json.dumps({"a": 1}).encode()], ids=["empty", "text", "json"]
)
def test_a_file_that_is_no_checkpoint_is_named(tmp_path, content):
    """The error names the file."""
    place = tmp_path / "step-000000000001.npz"
    place.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"step-000000000001\.npz cannot be read"):
        checkpoint_file.read(str(place))


def test_a_pickle_is_not_opened(tmp_path):
    """A file with a pickled object inside is refused, and nothing in it runs."""
    touched = tmp_path / "touched"

    class Mine:
        def __reduce__(self):
            return touched.write_text, ("here",)

    place = tmp_path / "step-000000000001.npz"
    told = np.frombuffer(b'{"types": {}, "tree": "0"}', np.uint8)
    np.savez(place, told=told, a0=np.array([Mine()], dtype=object))
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoint_file.read(str(place))
    assert not touched.exists()


def test_an_empty_folder_has_none(tmp_path):
    """A folder without a checkpoint, or none at all; what is no folder is an error that names it."""
    assert checkpoint_file.read(str(tmp_path)) is None
    assert checkpoint_file.newest(str(tmp_path / "nowhere")) is None
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=f"{tmp_path}/file cannot be read"):
        checkpoint_file.newest(str(tmp_path / "file"))
