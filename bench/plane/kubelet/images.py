"""What an image is to the stand-in: no files, but the words it brings along.

A container sees the machine's own files, so an "image" can only say where on this machine its programs are.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """entrypoint: where the pod gives no command. path: folders before the system's PATH. env: further variables."""

    path: Sequence[str | Path] = ()
    entrypoint: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    """Where the command runs if the pod says nothing."""

    def environment(self) -> dict[str, str]:
        return {
            "PATH": ":".join([*map(str, self.path), SYSTEM_PATH]),
            "HOME": "/root",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.env,
        }


PLAIN = Image()
"""The machine's own programs: sh, sleep, cat."""

OURS = Image(path=[Path(sys.executable).parent], env={"PYTHONPATH": str(ROOT)})
"""The virtual environment that the tests run in, with `gangwright` on its PATH, and the code of this checkout: the
environment may be shared with others, and knows one of them.
"""
