"""The agent as one file: the same bytes each time, runs on a bare Python, and reaches into the training."""

import ast
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.elastic import agent
from scheduler.elastic.agent.archive import START, build
from scheduler.elastic.agent.main import isolated
from tests.elastic.agent.support.master import PATIENCE, Master
from tests.elastic.agent.support.worker import environment

ROOM = Path(agent.__file__).parents[1]
MODULES = sorted([*(ROOM / "agent").rglob("*.py"), *(ROOM / "runtime").rglob("*.py")])

BUILT_IN_KINDS = {"list", "dict", "tuple", "set", "frozenset", "type", "deque"}
LATER_METHODS = {
    "removeprefix",
    "removesuffix",
    "pairwise",
    "bit_count",
    "cache",
    "pidfd_open",
    "is_relative_to",
}
LATER_KEYWORDS = {"strict", "slots", "kw_only", "process_group"}

GUESTS = {"horovod", "tensorflow", "keras", "torch", "numpy"}
"""What the runtime may take from the image it runs in, when a function that needs it is called."""


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pack") / "agent.pyz"
    build(place)
    return place


def run(
    pack: Path, master: Master, folder: Path, *command: str, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", str(pack), "--", *command],
        env={**environment(master, folder), **more},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_same_sources_are_the_same_bytes(pack: Path, tmp_path: Path) -> None:
    """Times of files and their order on disk do not show."""
    (tmp_path / "again.pyz").touch()
    build(tmp_path / "again.pyz")

    assert (tmp_path / "again.pyz").read_bytes() == pack.read_bytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "again.pyz"]
    assert os.access(pack, os.X_OK)
    with zipfile.ZipFile(pack) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {
            "__main__.py",
            "gangwright_agent",
            "sitecustomize.py",
        }


def test_it_runs_on_a_python_without_anything(pack: Path, tmp_path: Path) -> None:
    """No site packages, no environment, another working directory: standard library and the archive suffice."""
    with Master() as master:
        done = run(pack, master, tmp_path, "sh", "-c", "echo trained; exit 4")

    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert master.calls["exit"][-1]["code"] == 4


def test_a_worker_of_torchrun_is_told_to_the_master(pack: Path, tmp_path: Path) -> None:
    """It is a process further below, and ends before its script begins; the exit report says what it is."""
    with Master() as master:
        command = ("sh", "-c", f'"{sys.executable}" -c "print(1)"; exit 5')
        done = run(pack, master, tmp_path, *command, TORCHELASTIC_RUN_ID="none")

    assert (done.returncode, done.stdout) == (5, "")
    told = master.calls["exit"][-1]
    assert (told["code"], told["foreign"], told["entered"]) == (5, "torchrun runs it", False)
    assert told["why"].startswith("the script is not elastic: torchrun runs it. Decorate ")
    assert told["why"] in done.stderr


def test_every_python_below_the_agent_enters_through_the_archive(pack: Path, tmp_path: Path) -> None:
    """Behind a shell too: ours comes first on PYTHONPATH, the image's own sitecustomize still runs, its path stays."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.own_ran = __name__\n")
    show = (
        "import json, os, sys; print(json.dumps([own_ran, 'gangwright_agent.runtime' in sys.modules,"
        " sys.modules['sitecustomize'].__file__, os.environ['PYTHONPATH'].split(os.pathsep)[1:]]))"
    )
    with Master() as master:
        done = run(
            pack, master, tmp_path, "sh", "-c", f'"{sys.executable}" -c "$1"', "sh", show, PYTHONPATH=str(own)
        )
        command = ("sh", "-c", f'"{sys.executable}" -c "$SHOW"')
        done = run(pack, master, tmp_path, *command, PYTHONPATH=str(own), SHOW=show)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["sitecustomize", True, str(own / "sitecustomize.py"), [str(own)]]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("python -I train.py", "-I"),
        ("/usr/bin/python3.11 -u -E train.py", "-E"),
        ("python3 -uS -m train", "-S"),
        ("python -W ignore -X dev -S train.py", "-S"),
        ("python -Wignore -Xdev -BS -c pass", "-S"),
        ("python --check-hash-based-pycs always -I train.py", None),
        ("python train.py -I", None),
        ("python -m train -S", None),
        ("python -cS -E", None),
        ("python -u -W E train.py -S", None),
        ("python - -I", None),
        ("python", None),
        ("bash -E -c train", None),
        ("pythonic -I", None),
    ],
)
def test_a_python_that_would_not_hear_of_us_is_known(command: str, option: str | None) -> None:
    """Options before the program count, alone or together, and neither their values nor the program's own."""
    assert isolated(command.split()) == option


def test_a_training_that_starts_without_us_is_warned_of(pack: Path, tmp_path: Path) -> None:
    """It is started all the same, for somebody may have reasons."""
    with Master() as master:
        done = run(pack, master, tmp_path, sys.executable, "-I", "-c", "print('trained')")

    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "-I bypasses the agent: this training can neither report nor join. Remove -I" in done.stderr


def test_the_training_ends_with_its_agent(pack: Path, tmp_path: Path) -> None:
    """A Python that the agent started is killed by the kernel when the agent is."""
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with Master() as master:
        worker = subprocess.Popen(
            [sys.executable, str(pack), sys.executable, "-c", script],
            env=environment(master, tmp_path),
            stdout=subprocess.PIPE,
        )
        with worker:
            pid = int(worker.stdout.readline())
            child = os.pidfd_open(pid)
            worker.kill()
            import select

            assert select.select([child], [], [], 20)[0]
            os.close(child)


def test_who_is_told_to_go_before_he_begins_never_starts_a_training(pack: Path, tmp_path: Path) -> None:
    """The kubelet says it once, and Python takes its time to start: the word waits, and the worker ends well at once."""

    def told() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)

    with Master() as master:
        done = subprocess.run(
            [sys.executable, str(pack), sys.executable, "-c", "print('trained')"],
            env=environment(master, tmp_path),
            preexec_fn=told,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )

    assert (done.returncode, done.stdout) == (0, b"")
    assert not master.calls["leave"], "who never started has nothing to leave"
    assert b"SIGTERM: leaving the training" in done.stderr


def test_signals_wait_until_the_agent_listens(tmp_path: Path) -> None:
    """From the archive's first line on: to a first process that does not listen yet the kernel would not even tell them."""
    stub = tmp_path / "gangwright_agent" / "agent"
    stub.mkdir(parents=True)
    (stub / "__init__.py").touch()
    (stub / "main.py").write_text(
        "import signal\nearly = signal.pthread_sigmask(signal.SIG_BLOCK, [])\n"
        "def main(words):\n    print(*sorted(one.name for one in early))\n    return 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", START], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout == "SIGINT SIGTERM\n"


def test_the_command_line_writes_the_archive(tmp_path: Path) -> None:
    """`gangwright agent --install PATH`, as the init container calls it."""
    from scheduler.cli import main

    place = tmp_path / "agent.pyz"
    with pytest.raises(SystemExit) as ended:
        main(["agent", "--install", str(place)])

    assert ended.value.code == 0
    assert zipfile.is_zipfile(place)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The option and the path are named, and the code is 2."""
    from scheduler.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["agent", "--install", str(tmp_path / "no" / "agent.pyz")])

    assert ended.value.code == 2
    assert "--install" in capsys.readouterr().err


def test_the_command_line_runs_the_same_agent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`gangwright agent -- …` reads the same environment, and says what is missing there."""
    from scheduler.cli import main

    monkeypatch.delenv("GANGWRIGHT_MASTER", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["agent", "--", "python", "train.py", "--epochs", "3"])

    assert ended.value.code == 2
    assert "GANGWRIGHT_MASTER = '': is required" in capsys.readouterr().err


def too_new(tree: ast.AST) -> Iterator[str]:
    """What Python 3.8 has not, wherever it is run and not only written as an annotation."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in BUILT_IN_KINDS:
            yield ast.unparse(node)
        if isinstance(node, ast.Attribute) and node.attr in LATER_METHODS:
            yield ast.unparse(node)
        if isinstance(node, ast.keyword) and node.arg in LATER_KEYWORDS:
            yield ast.unparse(node.value)


@pytest.mark.parametrize("place", MODULES, ids=lambda place: str(place.relative_to(ROOM)))
def test_every_module_stands_alone(place: Path) -> None:
    """Syntax of Python 3.8, annotations never evaluated, and imports from the standard library and this package
    alone.
    """
    tree = ast.parse(place.read_text(encoding="utf-8"), str(place), feature_version=(3, 8))
    absolute = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom) and node.level == 0
            else []
        )
    }
    guests = GUESTS if "runtime" in place.relative_to(ROOM).parts else set()
    lines = [ast.unparse(node) for node in tree.body if isinstance(node, ast.ImportFrom)]

    assert absolute <= sys.stdlib_module_names | guests
    assert list(too_new(tree)) == []
    assert len(tree.body) <= 1 or "from __future__ import annotations" in lines
