"""The same for PyTorch, where Debian has it: the system's Python with `python3-torch` (a CPU build), and Horovod built
against that.

PyPI's wheels of PyTorch for Linux need gigabytes of CUDA, so there the framework comes as Debian's packages, which root
may install; Horovod and what its build wants come by the hashes of the lock files beside this one. Without them the
tests of PyTorch are skipped.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.horovod import build
from bench.plane import progress
from bench.plane.errors import BuildError

SYSTEM: Final = "/usr/bin/python3"
TORCH: Final = "python3-torch"
DEBIAN: Final = (
    TORCH,
    "libtorch-dev",
    "pybind11-dev",
    "python3-dev",
    "python3-venv",
    "python3-numpy",
    "g++",
    "make",
)
"""PyTorch, its headers, and what else the build includes."""

FRAMEWORKS: Final = {"tensorflow-cpu", "numpy", "horovod", "scikit-learn"}
TOOLS: Final = (*sorted({re.split("[<=]", one)[0] for one in build.WANTED} - FRAMEWORKS), "pycparser")
"""What Horovod's build and run want of the packages that the lock file names; pycparser is for cffi."""

SWITCHES: Final = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    **build.GLOO,
}
CHECK: Final = "import horovod.torch as hvd; hvd.init(); assert hvd.size() == 1 and hvd.gloo_built()"
MISSING: Final = f"no PyTorch with Horovod: on Debian, apt-get install {' '.join(DEBIAN)}, then `python -m bench.horovod torch`"


def folder(version: str, env: Mapping[str, str] = os.environ) -> Path:
    """Where the environment for this version of Debian's package is or will be."""
    pinned = hashlib.sha256(build.PACKAGES.read_bytes() + build.HOROVOD.read_bytes()).hexdigest()[:12]
    return build.folder(env).with_name(f"torch{version.replace('~', '-')}-horovod0.28.1-{pinned}")


def find(env: Mapping[str, str] = os.environ) -> Path | None:
    """The interpreter, when the environment is there; builds nothing."""
    version = _installed()
    place = folder(version, env) / "bin" / "python" if version else None
    return place if place and place.exists() else None


def python(env: Mapping[str, str] = os.environ) -> Path:
    """The interpreter of the environment, built first where needed. Raises BuildError saying what is missing."""
    if found := find(env):
        return found
    _debian()
    version = _installed()
    if not version:
        raise BuildError(MISSING)
    target = folder(version, env)
    target.parent.mkdir(parents=True, exist_ok=True)
    with build._locked(target.parent / ".lock"):
        if not target.exists():
            _build(target)
    return target / "bin" / "python"


def _build(target: Path) -> None:
    beside = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=target.parent))
    program = beside / "bin" / "python"
    install = [program, "-m", "pip", "install", *build.QUIET, "--require-hashes", "--no-deps"]
    env = {
        **build._clean(),
        **SWITCHES,
        "PATH": f"{beside / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    tools = beside / "tools.lock"
    try:
        with progress.doing("Building Horovod 0.28.1 for PyTorch"):
            build._run([SYSTEM, "-m", "venv", "--system-site-packages", beside], env)
            tools.write_text(chosen(build.PACKAGES.read_text(), TOOLS))
            build._run([*install, "--only-binary", ":all:", "-r", tools], env)
            build._run([*install, "--no-build-isolation", "-r", build.HOROVOD], env)
            build._run([program, "-c", CHECK], env)
        os.replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def chosen(text: str, names: tuple[str, ...]) -> str:
    """The entries of a lock file that have these names, with their hashes."""
    blocks = re.split(r"(?m)^(?=\S+==)", text)
    return "".join(block for block in blocks if block.split("==")[0] in names)


def _installed() -> str:
    """The version of Debian's PyTorch on this machine; nothing where there is none."""
    try:
        done = subprocess.run(
            ["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Version}", TORCH],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    status, _, version = done.stdout.partition(" ")
    return version if status == "installed" else ""


def _debian() -> None:
    """As root on a Debian its packages are installed; those that are there stay as they are."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BuildError(MISSING)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with progress.doing("Installing Debian's PyTorch for the elastic tests"):
        build._run(["apt-get", "update", "-qq"], quiet)
        build._run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", *DEBIAN], quiet)
