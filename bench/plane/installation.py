"""Gangwright as it stands in a cluster, on the plane: manifests applied, the extender running, a kube-scheduler asking
it.

Lives here: what a cluster's administrator does, done once for the stories, the demo and the load bench. Never here:
anything of `scheduler`; the program is started by its command line and known by its ports and metrics alone.

Both programs run under the accounts that manifests/ gives them, so a right that is missing there is missing here.
"""

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from bench.plane.certificates import Identity, service_account
from bench.plane.control_plane import Plane
from bench.plane.errors import CommandError, DescriptionError, NeverCameError
from bench.plane.ports import HOST, answers
from bench.plane.processes import Program
from bench.plane.scrape import Metrics

ROOT = Path(__file__).parents[2]
OVERLAY = ROOT / "manifests" / "overlays" / "default"
SCHEDULER_CONFIG = ROOT / "extender_config" / "kube-scheduler.yaml"
SETTINGS = ROOT / "extender_config" / "settings.yaml"

NAMESPACE = "gangwright-system"
GANGWRIGHT = service_account(NAMESPACE, "gangwright")
"""The account of the Pod: what kube-scheduler runs under."""
EXTENDER = service_account(NAMESPACE, "gangwright-extender")
"""The account that has the extender's rights alone."""

SCHEDULER_NAME = "gangwright"
API_SERVICE = "v1.status.gangwright.io"
API_PATH = "/apis/status.gangwright.io"
GATE = "gangwright.io/planned"

ALONE = {"leaderElection": {"leaderElect": False}}
"""What is laid over the configuration of a kube-scheduler that needs no lease: it works from the first moment."""


class Installation:
    """Gangwright on a plane, for as long as the `with` block runs.

        with Plane(controllers=True) as plane, Installation(plane) as gangwright:
            ...

    manifests: kustomize folder to apply first; None when it is applied already (a second replica).
    config, changes: of the kube-scheduler, see `configuration.filled`.
    settings: file for `gangwright serve`; `set_` lays single settings over it, `{"gangs.timeout": "5s"}`.
    lease: follow a real Lease, as two replicas do (about five seconds until anybody acts); else always act.
    name: of the replica: its programs are `NAME` and `NAME-kube-scheduler` in `plane.programs`.
    hostname: of the replica, by which it knows whether its own kube-scheduler leads; needs `lease`, and root.
    through: URL of a proxy before the API server, for the extender alone.
    identity: under which the extender runs.
    aggregated: be a part of the Kubernetes API, at `API_PATH`, while it runs. One Installation of a plane may be.
    scheduler: start the kube-scheduler too.

    Synchronous, like Plane: inside an event loop call it through `asyncio.to_thread`.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        manifests: Path | None = OVERLAY,
        config: Path | Mapping[str, Any] = SCHEDULER_CONFIG,
        changes: Mapping[str, Any] | None = None,
        settings: Path = SETTINGS,
        set_: Mapping[str, str] | None = None,
        lease: bool = False,
        name: str = "gangwright",
        hostname: str = "",
        through: str | None = None,
        identity: Identity = EXTENDER,
        aggregated: bool = False,
        scheduler: bool = True,
    ) -> None:
        if name in plane.programs:
            raise DescriptionError(f"name: {name!r} runs already")
        self.plane = plane
        self.name = name
        self._manifests, self._config, self._changes = manifests, config, dict(changes or {})
        self._lease, self._hostname, self._scheduler = lease, hostname, scheduler
        self._kept = [_kept() for _ in range(4)]
        ports = (int(kept.getsockname()[1]) for kept in self._kept)
        self._verbs_port, self._probes_port, self._status_port, self._api_port = ports
        self._aggregated = aggregated
        self._settings = settings
        self._set = {**self._own_settings(), **(set_ or {})}
        self._laid, self._tuned = settings, dict[str, Any]()
        self._identity, self._through = identity, through

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def verbs(self) -> str:
        """Where kube-scheduler asks."""
        return f"http://{HOST}:{self._verbs_port}"

    @property
    def probes(self) -> str:
        """Where /livez, /readyz and /metrics are."""
        return f"http://{HOST}:{self._probes_port}"

    @property
    def status(self) -> str:
        """Where people ask."""
        return f"http://{HOST}:{self._status_port}"

    @property
    def extender(self) -> Program:
        return self.plane.programs[self.name]

    @property
    def kube_scheduler(self) -> Program:
        return self.plane.programs[f"{self.name}-kube-scheduler"]

    @property
    def kube_scheduler_url(self) -> str:
        """Where its kube-scheduler answers, as its command line says; for the setting `probes.kubeScheduler`."""
        return serves_at(self.kube_scheduler)

    def start(self) -> Self:
        """Comes up. Raises CommandError, NotReadyError (with the end of the log), NeverCameError."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops both programs, kube-scheduler first; the manifests stay, without the APIService."""
        if self._aggregated and self.plane.apiserver.alive:
            self.plane.kubectl("delete", "apiservice", API_SERVICE, "--ignore-not-found")
        for name in (f"{self.name}-kube-scheduler", self.name):
            if name in self.plane.programs:
                self.plane.end(name)
        for kept in self._kept:
            kept.close()

    def kill(self) -> None:
        """SIGKILL to the extender, at whatever line it is."""
        self.extender.kill()

    def restart(self, within: float = 30.0) -> None:
        """Starts the extender again (after `kill`, or stopping it first) on the same ports, and waits for /readyz."""
        self.extender.restart(within)

    def retune(self, settings: Mapping[str, Any] | None = None, within: float = 30.0) -> Path:
        """Starts the extender again with these settings, on the same ports, unless it has them and runs.

        settings: values by dotted name, over those of its file, in a copy of it; none: as at first. Gives the copy,
        which may be written once more while the extender runs.
        """
        place = self.plane.folder / f"{self.name}.settings.yaml"
        if self._tuned != (settings or {}) or not self.extender.alive:
            self.lay(place, settings or {})
            self._laid = place
            self.extender.stop()
            self._add_extender().start().until_ready(within)
        return place

    def lay(self, place: Path, settings: Mapping[str, Any]) -> None:
        """Writes the settings file to `place`, with these values over it, all at once as a mounted ConfigMap
        changes.
        """
        self._tuned = dict(settings)
        document = yaml.safe_load(self._settings.read_text(encoding="utf-8"))
        for name, value in settings.items():
            section, _, setting = name.partition(".")
            document[section] = {**document[section], setting: value}
        fresh = place.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(document), encoding="utf-8")
        fresh.replace(place)

    def ready(self) -> bool:
        return answers(f"{self.probes}/readyz")

    def readiness(self) -> dict[str, str]:
        """What /readyz says does not hold now, by the name of the check."""
        try:
            with _direct.open(f"{self.probes}/readyz", timeout=5) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as refused:
            told = json.load(refused)
        return {check["name"]: check["text"] for check in told["checks"] if not check["ok"]}

    def metrics(self) -> Metrics:
        """What /metrics says now."""
        return Metrics.read(f"{self.probes}/metrics")

    def log(self) -> Iterator[dict[str, Any]]:
        """The extender's log so far, line by line as it was written; what is not JSON is left out."""
        for line in self.extender.log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def _own_settings(self) -> dict[str, str]:
        own = {
            "verbs.port": str(self._verbs_port),
            "probes.host": HOST,
            "probes.port": str(self._probes_port),
            "status.port": str(self._status_port),
            "aggregation.serve": str(self._aggregated).lower(),
            "aggregation.host": HOST,
            "aggregation.port": str(self._api_port),
            "lease.follow": str(self._lease).lower(),
            "log.format": "json",
        }
        return own | ({"lease.hostname": self._hostname} if self._hostname else {})

    def _start(self) -> None:
        """One program starts beside the other, and beside the policies' coming into force; all are waited for."""
        applied = None if self._manifests is None else (self._manifests, apply(self.plane, self._manifests))
        if self._aggregated:
            self._register()
        started = [self._add_extender().start()]
        if applied is not None:
            until_in_force(self.plane, *applied)
        if self._scheduler:
            started.append(self._start_scheduler())
        for program in started:
            program.until_ready()
        if self._aggregated:
            condition = "--for=condition=Available"
            self.plane.kubectl("wait", condition, "--timeout=90s", f"apiservice/{API_SERVICE}")

    def _register(self) -> None:
        """Makes the API server pass requests on to the extender on this machine.

        Nothing routes a Service's address here, so the Service is another name of this machine.
        """
        service = {"name": "gangwright-api", "namespace": NAMESPACE}
        self.plane.kubectl("-n", NAMESPACE, "delete", "service", service["name"], "--ignore-not-found")
        documents = [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": service,
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": API_SERVICE},
                "spec": {
                    "group": "status.gangwright.io",
                    "version": "v1",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "service": {**service, "port": self._api_port},
                },
            },
        ]
        self.plane.apply(documents)

    def _start_scheduler(self) -> Program:
        return self.plane.start_scheduler(
            f"{self.name}-kube-scheduler",
            self._config,
            extender_url=self.verbs,
            changes=({} if self._lease else ALONE) | self._changes,
            identity=GANGWRIGHT,
            hostname=self._hostname,
            wait=False,
        )

    def _add_extender(self) -> Program:
        flags = {name: value for name, value in self._set.items() if name not in self._tuned}
        chosen = {"api.kubeconfig": str(self._kubeconfig()), **flags}
        words = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
        program = Program(
            self.name,
            [sys.executable, "-m", "scheduler", "serve", "--settings", self._laid, *words],
            log=self.plane.folder / f"{self.name}.log",
            ready=self.ready,
            env={**os.environ, "NO_COLOR": "1"},
        )
        self.plane.programs[self.name] = program
        return program

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


def serves_at(kube_scheduler: Program) -> str:
    """Its URL, as its command line says."""
    words = dict(word.partition("=")[::2] for word in kube_scheduler.command)
    return f"https://{HOST}:{words['--secure-port']}"


def install(plane: Plane, manifests: Path = OVERLAY, *, within: float = 30.0) -> None:
    """Applies manifests/ and waits until its policies count, a moment after they are written.

    Raises CommandError, NeverCameError.
    """
    until_in_force(plane, manifests, apply(plane, manifests), within=within)


def apply(plane: Plane, manifests: Path) -> bool:
    """Applies manifests/; True when new pods of ours will get a gate. Raises CommandError."""
    return "mutatingadmissionpolicy.admissionregistration" in plane.apply_manifests(manifests)


def until_in_force(plane: Plane, manifests: Path, gated: bool, *, within: float = 30.0) -> None:
    """Waits until the policies that were applied count. Raises NeverCameError."""
    deadline = time.monotonic() + within
    while not (_forgery_refused(plane) and _gated(plane) == gated):
        if time.monotonic() > deadline:
            raise NeverCameError(f"the policies of {manifests} were not in force after {within:g} s")
        time.sleep(0.05)


def _forgery_refused(plane: Plane) -> bool:
    try:
        _created(plane, {"gangwright.io/seat": "forged"})
    except CommandError as error:
        return "written by Gangwright alone" in str(error)
    return False


def _gated(plane: Plane) -> bool | None:
    """None while no pod can be made at all: the namespace has no service account yet."""
    try:
        return GATE in _created(plane, {})
    except CommandError:
        return None


def _created(plane: Plane, annotations: Mapping[str, str]) -> str:
    """What the API server would make of a pod of ours."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "default", "annotations": dict(annotations)},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [{"name": "main", "image": "none"}]},
    }
    return plane.kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=yaml.safe_dump(pod))


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _kept() -> socket.socket:
    """A port that stays ours while the extender is down.

    asyncio opens its port with SO_REUSEADDR, and Linux lets two such sockets share one as long as only one listens;
    nobody else is given it meanwhile.
    """
    kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((HOST, 0))
    return kept
