"""The elastic master on the plane, as an administrator runs it: a program, under its own account, known by its
ports.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from bench.plane.certificates import Identity, service_account
from bench.plane.control_plane import Plane
from bench.plane.installation import NAMESPACE, ROOT, SETTINGS, _kept
from bench.plane.ports import HOST, answers
from bench.plane.processes import Program
from bench.plane.scrape import Metrics

MANIFESTS = ROOT / "manifests" / "elastic"
ELASTIC = service_account(NAMESPACE, "gangwright-elastic")

QUICK = {"elastic.sizingEvery": "500ms", "elastic.statusEvery": "500ms", "elastic.hangLimit": "20s"}
"""Nobody waits five seconds to see whether there is room, or a minute for a training that hangs."""

IMPATIENT = {"elastic.startLimit": "12s", "elastic.troubleLimit": "3s"}
"""For stories in which nobody ever trains."""


class Master:
    """`gangwright elastic`, for as long as the `with` block runs. Synchronous, like Plane and Installation.

    set_: single settings over those of the settings file. identity: under which it runs. through: URL of a proxy before
    the API server.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        set_: Mapping[str, str] | None = None,
        identity: Identity = ELASTIC,
        through: str | None = None,
        name: str = "gangwright-elastic",
    ) -> None:
        self.plane = plane
        self.name = name
        self._identity, self._through = identity, through
        self._kept = [_kept() for _ in range(2)]
        self._rendezvous, self._probes = (int(kept.getsockname()[1]) for kept in self._kept)
        self._set = {**self._own_settings(), **QUICK, **(set_ or {})}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def program(self) -> Program:
        return self.plane.programs[self.name]

    def start(self) -> Self:
        """Comes up and acts. Raises NotReadyError with the end of its log."""
        words = [word for name, value in self._set.items() for word in ("--set", f"{name}={value}")]
        self.plane.programs[self.name] = program = Program(
            self.name,
            [sys.executable, "-m", "scheduler", "elastic", "--settings", SETTINGS, *words],
            log=self.plane.folder / f"{self.name}.log",
            ready=self.ready,
            env={**os.environ, "NO_COLOR": "1"},
        )
        try:
            program.start().until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        if self.name in self.plane.programs:
            self.plane.end(self.name)
        for kept in self._kept:
            kept.close()

    def kill(self) -> None:
        """SIGKILL, at whatever line it is."""
        self.program.kill()

    def restart(self, within: float = 60.0) -> None:
        """Starts it again on the same ports, after `kill` or stopping it first, and waits until it acts."""
        self.program.restart(within)

    @property
    def readyz(self) -> str:
        """Where kubelet asks whether it is ready."""
        return f"http://{HOST}:{self._probes}/readyz"

    def ready(self) -> bool:
        return answers(self.readyz)

    def metrics(self) -> Metrics:
        """What /metrics says now."""
        return Metrics.read(f"http://{HOST}:{self._probes}/metrics")

    def _own_settings(self) -> dict[str, str]:
        return {
            "api.kubeconfig": str(self._kubeconfig()),
            "elastic.identity": self.name,
            "rendezvous.host": HOST,
            "rendezvous.port": str(self._rendezvous),
            "rendezvous.names": f"[{HOST}]",
            "probes.host": HOST,
            "probes.port": str(self._probes),
            "workers.image": "gangwright",
            "workers.interface": "lo",
            "log.format": "json",
        }

    def _kubeconfig(self) -> Path:
        place = self.plane.kubeconfig(self._identity)
        if self._through is None:
            return place
        document = yaml.safe_load(place.read_text(encoding="utf-8"))
        for each in document["clusters"]:
            each["cluster"]["server"] = self._through
        other = self.plane.folder / f"{self.name}.kubeconfig"
        other.write_text(yaml.safe_dump(document), encoding="utf-8")
        return other
