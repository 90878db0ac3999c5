"""A headless Chromium for the tests of the page: found on the machine, or fetched from Debian into the user's cache.

    python -m tests.status.support.chromium      fetch it, where there is none; needs apt-get, not root

Lives here: which programs will do, and how Debian's packages become one without being installed. Never here: a test.
Why unpacked and not installed: tests change nothing of the machine that they run on.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
PACKAGE = "chromium-headless-shell"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangwright" / "chromium"
MISSING = (
    "no Chromium: install chromium or chromium-headless-shell, set GANGWRIGHT_CHROMIUM to a program, or, on Debian, run "
    "python -m tests.status.support.chromium"
)


@dataclass(frozen=True)
class Chromium:
    """A program, and what its environment needs."""

    program: str
    environ: Mapping[str, str] = field(default_factory=dict)


def find() -> Chromium | None:
    """The program that $GANGWRIGHT_CHROMIUM names, else one on PATH, else the one in the cache."""
    named = os.environ.get("GANGWRIGHT_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found:
        return Chromium(found)
    program = CACHE / "usr" / "lib" / "chromium" / PACKAGE
    if not program.exists():
        return None
    folders = [str(place) for place in (CACHE / "usr" / "lib").glob("*-linux-gnu*")]
    folders += [str(place) for place in (CACHE / "usr" / "lib").glob("*-linux-gnu*/pulseaudio")]
    return Chromium(str(program), {"LD_LIBRARY_PATH": os.pathsep.join(folders)})


def fetch() -> None:
    """Unpack Debian's package, and what it needs that the machine lacks, into the cache. Raises CalledProcessError."""
    planned = _run("apt-get", "install", "--simulate", "--no-install-recommends", PACKAGE)
    names = re.findall(r"^Inst (\S+)", planned, re.MULTILINE)
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
        _run("apt-get", "download", *names, cwd=folder)
        for package in sorted(Path(folder).glob("*.deb")):
            _run("dpkg-deb", "--extract", str(package), f"{folder}/root")
        shutil.rmtree(CACHE, ignore_errors=True)
        Path(folder, "root").rename(CACHE)


def _run(*words: str, cwd: str | None = None) -> str:
    return subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C"},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout


def main() -> int:
    if find() is None:
        try:
            fetch()
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", "") or error
            print(f"Chromium was not fetched: {said}", file=sys.stderr)
            return 1
    found = find()
    print(found.program if found else MISSING)
    return 0


if __name__ == "__main__":
    sys.exit(main())
