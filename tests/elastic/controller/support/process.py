"""`gangwright elastic` as a process of its own, against the real API server."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Self

from bench.plane.processes import Program


class Process:
    """Started by `start`; `kill` is SIGKILL, `stop` is SIGTERM. Synchronous, like Plane."""

    def __init__(self, name: str, kubeconfig: Path, folder: Path, **settings: Any) -> None:
        chosen = {
            "api.kubeconfig": str(kubeconfig),
            "probes.host": "127.0.0.1",
            "probes.port": "0",
            "rendezvous.host": "127.0.0.1",
            "rendezvous.port": "0",
            "rendezvous.names": "[127.0.0.1]",
            "elastic.identity": name,
            "elastic.statusEvery": "200ms",
            "elastic.sizingEvery": "500ms",
            "log.format": "json",
            **settings,
        }
        words = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
        self.log = folder / f"{name}.log"
        self._program = Program(
            name,
            [sys.executable, "-m", "scheduler", "elastic", *words],
            log=self.log,
            ready=lambda: bool(self.places),
            env={**os.environ, "GANGWRIGHT_SERVER": ""},
        )

    @property
    def places(self) -> dict[str, str]:
        """Rendezvous and probes, by name; empty before it acts."""
        for line in self._lines():
            found = json.loads(line) if line.startswith('{"probes"') else {}
            if "rendezvous" in found:
                return {str(name): str(url) for name, url in found.items()}
        return {}

    def _lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []

    def begin(self) -> Self:
        """Starts it, without waiting: another one may act."""
        self.log.unlink(missing_ok=True)
        self._program.start()
        return self

    def start(self) -> Self:
        self.begin()
        self._program.until_ready()
        return self

    def kill(self) -> None:
        self._program.kill()

    def stop(self) -> None:
        self._program.stop()

    @property
    def alive(self) -> bool:
        return self._program.alive
