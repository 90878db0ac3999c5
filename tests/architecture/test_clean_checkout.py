"""From a clean checkout: which Python is taken, and what is said where something is missing."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Machine:
    """A machine that has only what a test puts on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.checkout = folder / "checkout"
        (self.checkout / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "run", self.checkout / ".ci" / "run")
        for name in ("Makefile", "pyproject.toml", "requirements-dev.lock"):
            shutil.copy(ROOT / name, self.checkout / name)
        self.has_real("bash", "sh", "dirname")

    def has_real(self, *names: str) -> None:
        for name in names:
            place = shutil.which(name)
            assert place is not None, name
            (self.bin / name).symlink_to(place)

    def has(self, name: str, script: str) -> None:
        place = self.bin / name
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(place.stat().st_mode | stat.S_IXUSR)

    def runs(self, *command: str) -> subprocess.CompletedProcess[str]:
        program = shutil.which(command[0], path=str(self.bin))
        assert program is not None
        return subprocess.run(
            [program, *command[1:]],
            cwd=self.checkout,
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def chosen(machine: Machine, *words: str) -> str:
    return machine.runs("make", "--eval", "chosen: ; @echo $(PYTHON)", "chosen", *words).stdout.strip()


def test_what_is_compiled_once_is_kept(machine: Machine) -> None:
    """Recipes let Python write its bytecode, though the environment forbids it as many images do."""
    machine.has_real("make", "env")
    seen = 'seen: ; @echo "$${PYTHONDONTWRITEBYTECODE-not there}"'
    said = machine.runs("env", "PYTHONDONTWRITEBYTECODE=1", "make", "--eval", seen, "seen")
    assert said.stdout.strip() == "not there", said.stderr


def test_the_first_python_that_can_make_an_environment_is_taken(machine: Machine) -> None:
    """A newer Python without venv, or an older one, is passed over; who names one gets that one."""
    machine.has_real("make")
    machine.has("python3.13", "exit 1")
    machine.has("python3.12", "exit 0")
    machine.has("python3", "exit 0")

    assert chosen(machine) == str(machine.bin / "python3.12")
    assert chosen(machine, "PYTHON=/mine") == "/mine"


@pytest.mark.parametrize("named", [[], ["PYTHON=python3"]])
def test_no_python_that_fits_is_told_in_our_words(machine: Machine, named: list[str]) -> None:
    """What is needed, what was looked at, and the Debian package that helps."""
    machine.has_real("make")
    machine.has("python3", "exit 1")

    done = machine.runs("make", ".venv/.ready", *named)

    assert done.returncode != 0
    assert "Python 3.11 or newer" in done.stderr
    assert "apt-get install python3-venv" in done.stderr
    assert ("python3 is not one" if named else "none of python3.13") in done.stderr


def test_who_is_not_root_is_told_what_is_missing(machine: Machine) -> None:
    """Packages by name instead of a refusal of apt, which is not called at all."""
    machine.has("id", "echo 1000")
    machine.has("apt-get", "echo apt was called >&2; exit 100")

    done = machine.runs("bash", ".ci/run")

    assert done.returncode == 1
    assert "Missing: make python3 python3-venv" in done.stderr
    assert "apt was called" not in done.stderr


def test_root_installs_what_is_missing_and_nothing_else(machine: Machine) -> None:
    """Only what is not there, with the certificates that downloads need; then the tests run."""
    machine.has("id", "echo 0")
    machine.has("make", 'echo "made $*"')
    machine.has("apt-get", 'echo "apt $*"')

    said = machine.runs("bash", ".ci/run").stdout.splitlines()

    assert said[0] == "installing: python3 python3-venv ca-certificates"
    assert [line.split()[:2] for line in said[1:]] == [
        ["apt", "update"],
        ["apt", "install"],
        ["made", "test"],
    ]


def test_a_machine_that_has_everything_installs_nothing(machine: Machine) -> None:
    """Neither root nor apt nor git is needed then."""
    machine.has("make", 'echo "made $*"')
    machine.has("python3.12", "exit 0")

    done = machine.runs("bash", ".ci/run")

    assert (done.returncode, done.stdout) == (0, "made test\n")
