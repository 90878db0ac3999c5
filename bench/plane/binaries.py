"""Where the plane's programs are, building what is missing.

Looked for in this order: the folder `KUBEBUILDER_ASSETS` (envtest's convention), our cache, PATH. What comes from
somebody else is taken only when its own `--version` names our minor release. The rest is built from `modules/` into the
cache, once: beside its place, then renamed, under a lock, so that neither a killed build nor two test sessions at once
leave half a program behind.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.plane import progress, sources, toolchain
from bench.plane.errors import BuildError
from bench.plane.sources import Source

Binaries = dict[str, Path]


def cache_root(env: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/gangwright/plane`, or the same under `~/.cache`."""
    base = env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or tempfile.gettempdir()) / ".cache"
    return Path(base) / "gangwright" / "plane"


def cache_folder(env: Mapping[str, str] = os.environ) -> Path:
    """The folder of exactly these versions: `…/<kubernetes>-<etcd>-<kwok>`."""
    versions = (source.version for source in (sources.KUBERNETES, sources.ETCD, sources.KWOK))
    return cache_root(env) / "-".join(versions)


def find(programs: Iterable[str] = sources.PROGRAMS, *, env: Mapping[str, str] = os.environ) -> Binaries:
    """Those of `programs` that are there already; starts no build."""
    places = ((program, _find_one(program, env)) for program in programs)
    return {program: place for program, place in places if place is not None}


def ensure(programs: Iterable[str] = sources.PROGRAMS, *, env: Mapping[str, str] = os.environ) -> Binaries:
    """All of `programs`, built where needed (minutes the first time). Raises BuildError, ToolchainMissingError."""
    wanted = tuple(programs)
    found = find(wanted, env=env)
    if len(found) == len(wanted):
        return found
    folder = cache_folder(env)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        found = find(wanted, env=env)  # another session may have built them while this one waited
        for source in sources.SOURCES:
            missing = [program for program in wanted if program in source.packages and program not in found]
            if missing:
                _build(source, missing, folder, toolchain.find(cache_root(env), env))
                found |= {program: folder / program for program in missing}
    return found


def _find_one(program: str, env: Mapping[str, str]) -> Path | None:
    if assets := env.get("KUBEBUILDER_ASSETS"):
        theirs = Path(assets) / program
        if _is_ours(program, theirs):
            return theirs
    built = cache_folder(env) / program
    if built.exists():
        return built
    on_path = shutil.which(program, path=env.get("PATH", ""))
    return Path(on_path) if on_path and _is_ours(program, Path(on_path)) else None


def _is_ours(program: str, place: Path) -> bool:
    """True when the stranger's program is of our minor release."""
    try:
        told = subprocess.run(
            [place, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
        return sources.same_minor(told, sources.PROGRAMS[program].version)
    except (OSError, LookupError, subprocess.TimeoutExpired):
        return False


def _build(source: Source, programs: list[str], folder: Path, go: toolchain.Go) -> None:
    beside = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
    output = beside / programs[0] if len(programs) == 1 else f"{beside}{os.sep}"
    packages = [source.packages[program] for program in programs]
    flags = ["-mod=readonly", "-trimpath", "-ldflags", source.ldflags]
    try:
        with progress.doing(f"Building {', '.join(programs)} {source.version}"):
            _run([str(go.command), "build", *flags, "-o", str(output), *packages], source.path, go.env)
        for program in programs:
            os.replace(beside / program, folder / program)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _run(command: list[str], folder: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        end = "\n".join(done.stderr.splitlines()[-30:])
        raise BuildError(f"`{' '.join(command)}` in {folder} ended with {done.returncode}:\n{end}")


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    with place.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.doing("Waiting for another build of the plane"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
