"""`python -m bench.horovod build | torch | path | lock`."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.horovod import build, build_torch
from bench.plane.errors import PlaneError

HEADS = {
    build.PACKAGES: "# Exact versions with hashes, for Python 3.11 on Linux; index addresses stay out. `python -m bench.horovod lock` makes it anew.",
    build.HOROVOD: "# Only a source distribution exists; it is built against the packages beside it.",
}


def path() -> None:
    """Says where the interpreter is, or that there is none yet."""
    print(build.find() or "not built; `python -m bench.horovod build` does it")


def make() -> None:
    """Builds the environment, unless it is there."""
    print(build.python())


def make_torch() -> None:
    """Builds the one for PyTorch, unless it is there."""
    print(build_torch.python())


def lock() -> None:
    """Pins everything anew, with hashes (needs uv, as `make lock` does)."""
    with tempfile.TemporaryDirectory() as place:
        wanted = Path(place) / "wanted.txt"
        wanted.write_text("\n".join(build.WANTED))
        command = [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--upgrade",
            "--python-version",
            "3.11",
        ]
        flags = ["--python-platform", "linux", "--generate-hashes", "--no-emit-index-url", "--no-header"]
        text = subprocess.run(
            [*command, *flags, "--no-annotate", wanted], check=True, capture_output=True, text=True
        ).stdout
    blocks = re.split(r"(?m)^(?=\S+==)", text)
    for file, head in HEADS.items():
        mine = [
            one for one in blocks if "==" in one and one.startswith("horovod==") == (file is build.HOROVOD)
        ]
        file.write_text(f"{head}\n{''.join(mine)}")


if __name__ == "__main__":
    commands = {"build": make, "torch": make_torch, "path": path, "lock": lock}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: python -m bench.horovod {'|'.join(commands)}")
    try:
        commands[sys.argv[1]]()
    except PlaneError as error:
        sys.exit(f"horovod: {error}")
