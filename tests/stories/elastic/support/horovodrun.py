"""A script under stock `horovodrun`, from its first line to its end: what ours is held against."""

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.horovod import build

PATIENCE = 240.0
"""Seconds that a training of seconds may take on a busy machine."""


def train(
    python: Path,
    size: int,
    command: Sequence[object],
    folder: Path,
    env: Mapping[str, str],
    within: float = PATIENCE,
) -> None:
    """Trains with `size` processes of this machine, on its loopback. Elastic, with a fixed size.

    Raises AssertionError with the end of what was said when it does not end well; no process of it is left then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pids, ask = folder / "pids", folder / "hosts.sh"
    ask.write_text(f"#!/bin/sh\necho localhost:{size}\n")
    ask.chmod(0o700)
    inside = f"echo $$ >>{shlex.quote(str(pids))} && exec {shlex.join(map(str, [python, *command]))}"
    words = [python, "-m", "horovod.runner.launch", "--gloo", "--network-interfaces", "lo", "-np", size]
    words += ["--min-np", size, "--max-np", size, "--host-discovery-script", ask, "sh", "-c", inside]
    log = folder / "horovodrun.log"
    with log.open("w") as file:
        running = subprocess.Popen(
            [str(word) for word in words],
            env={**build._clean(), **env, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            code = running.wait(within)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            running.kill()
            running.wait()
            for pid in pids.read_text().split() if pids.exists() else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
    assert code == 0, f"horovodrun ended with {code}:\n{log.read_text(errors='replace')[-3000:]}"
