"""Builds the environment: beside its place, then renamed, under a lock, so that nobody ever sees half of one.

It lies in `~/.cache/gangwright/horovod/<versions>/`, where <versions> names TensorFlow, Horovod and everything else
that is pinned (a hash of the lock files). Horovod exists as a source distribution only, imports the framework while it
is built, and needs setuptools below 70, CMake below 4 and a C++ compiler: the first two come as wheels, the compiler
from the system. Since the folder is renamed after the installation, programs in its `bin` other than `python` do not
start; use `python -m`, as in `python -m horovod.runner.launch`.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.plane import progress
from bench.plane.errors import BuildError

HERE = Path(__file__).parent
PACKAGES, HOROVOD = HERE / "packages.lock", HERE / "horovod.lock"
WANTED = (
    "tensorflow-cpu==2.15.1",
    "numpy==1.26.4",
    "horovod==0.28.1",
    "setuptools<70",
    "cmake<4",
    "wheel",
    "packaging",
    "cloudpickle",
    "psutil",
    "pyyaml",
    "cffi",
    "scikit-learn",
)
"""What the lock files pin: TensorFlow and Horovod, what Horovod's build and run want, and scikit-learn for its
digits.
"""

GLOO = {"HOROVOD_WITH_GLOO": "1", "HOROVOD_WITHOUT_MPI": "1"}
SWITCHES = {"HOROVOD_WITH_TENSORFLOW": "1", **GLOO}
QUIET = ["--quiet", "--disable-pip-version-check", "--no-input"]
CHECK = "import horovod.tensorflow as hvd; hvd.init(); assert hvd.size() == 1 and hvd.gloo_built()"


def folder(env: Mapping[str, str] = os.environ) -> Path:
    """Where the environment of exactly these versions is or will be."""
    base = env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or tempfile.gettempdir()) / ".cache"
    pinned = hashlib.sha256(PACKAGES.read_bytes() + HOROVOD.read_bytes()).hexdigest()[:12]
    return Path(base) / "gangwright" / "horovod" / f"tensorflow2.15.1-horovod0.28.1-{pinned}"


def find(env: Mapping[str, str] = os.environ) -> Path | None:
    """The interpreter, when the environment is there; builds nothing."""
    place = folder(env) / "bin" / "python"
    return place if place.exists() else None


def python(env: Mapping[str, str] = os.environ) -> Path:
    """The interpreter of the environment, built first where needed. Raises BuildError saying what is missing."""
    if found := find(env):
        return found
    target = folder(env)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / ".lock"):
        if find(env) is None:
            _build(target)
    return target / "bin" / "python"


def _build(target: Path) -> None:
    base = _interpreter()
    _compiler()
    beside = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=target.parent))
    program = beside / "bin" / "python"
    install = [program, "-m", "pip", "install", *QUIET, "--require-hashes", "--no-deps"]
    env = {**_clean(), **SWITCHES, "PATH": f"{beside / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    try:
        with progress.doing("Installing TensorFlow 2.15.1 for the elastic tests"):
            _run([base, "-m", "venv", beside], env)
            _run([*install, "--only-binary", ":all:", "-r", PACKAGES], env)
        with progress.doing("Building Horovod 0.28.1"):
            _run([*install, "--no-build-isolation", "-r", HOROVOD], env)
            _run([program, "-c", CHECK], env)
        os.replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _interpreter() -> str:
    """A Python 3.11: the newest that TensorFlow 2.15 has wheels for, and the one the lock is for."""
    for place in (sys._base_executable, shutil.which("python3.11"), shutil.which("python3")):
        if place and _is_3_11(place):
            return place
    raise BuildError(
        "TensorFlow 2.15.1 needs Python 3.11 with its module venv, and none was found: install python3.11 and python3.11-venv"
    )


def _is_3_11(place: str) -> bool:
    check = "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))"
    try:
        return (
            subprocess.run([place, "-c", check], capture_output=True, timeout=20, check=False).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _compiler() -> None:
    """Makes sure of g++ and make; as root on a Debian they are installed."""
    missing = [name for name in ("g++", "make") if shutil.which(name) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BuildError(
            f"Horovod is built from source, which needs {' and '.join(missing)}: on Debian and Ubuntu, "
            f"apt-get install {' '.join(missing)}"
        )
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with progress.doing(f"Installing {' and '.join(missing)}"):
        _run(["apt-get", "update", "-qq"], quiet)
        _run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing], quiet)


def _clean() -> dict[str, str]:
    """The environment without what would lead Python, pip or Horovod's build elsewhere."""
    mine = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_REQUIRE_VIRTUALENV")
    return {
        key: value for key, value in os.environ.items() if key not in mine and not key.startswith("HOROVOD_")
    }


def _run(command: list[object], env: Mapping[str, str]) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, env=dict(env), capture_output=True, text=True, check=False, cwd=tempfile.gettempdir()
    )
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise BuildError(f"`{' '.join(words)}` ended with {done.returncode}:\n{end}")


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    with place.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.doing("Waiting for another build of Horovod"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
