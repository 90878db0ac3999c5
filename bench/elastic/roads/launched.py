"""What the roads of `horovodrun` share: a folder for the workers' output, and the launcher as a child of ours."""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.elastic.following import Output
from bench.elastic.roads.ours import SCRIPT
from bench.elastic.stage import QUIET
from bench.plane.processes import Program


class Launched:
    """`horovodrun`, for as long as the `with` block runs; afterwards no worker of it is left.

    python: the interpreter that has Horovod. worker: shell word that names a worker. words: of the script. env: of the
    workers, beside ours.
    """

    def __init__(
        self,
        python: Path,
        folder: Path,
        launch: Sequence[object],
        worker: str,
        words: Sequence[object],
        env: Mapping[str, str] = QUIET,
    ) -> None:
        self.folder = folder
        self.output = Output(lambda: sorted(folder.glob("worker-*/main-*.log")))
        self._run = len(list(folder.glob("horovodrun-*.log")))
        place = f"{folder}/worker-{worker}"
        script = " ".join(map(str, [python, SCRIPT, *words]))
        inside = (
            f"mkdir -p {place} && echo $$ >>{folder}/pids && exec {script} >{place}/main-{self._run}.log 2>&1"
        )
        command = [
            python,
            "-m",
            "horovod.runner.launch",
            "--gloo",
            "--network-interfaces",
            "lo",
            *launch,
            "sh",
            "-c",
            inside,
        ]
        self._program = Program(
            "horovodrun",
            [str(word) for word in command],
            log=folder / f"horovodrun-{self._run}.log",
            ready=lambda: True,
            env={**os.environ, **env, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    @property
    def alive(self) -> bool:
        return self._program.alive

    def log(self) -> str:
        return self._program.log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> Self:
        self._program.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.stop()
        pids = self.folder / "pids"
        for pid in pids.read_text().split() if pids.exists() else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        pids.unlink(missing_ok=True)
