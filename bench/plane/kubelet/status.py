"""What a kubelet writes of a pod: phase, conditions and the state of every container. Pure: values in, JSON out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.plane.client import Object

OOM = "OOMKilled"


@dataclass
class State:
    """One container as its status tells it."""

    name: str
    image: str
    now: Object = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last: Object = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    started: bool = False

    @property
    def running(self) -> bool:
        return "running" in self.now

    @property
    def code(self) -> int | None:
        """The exit code if it has ended and nothing else has begun."""
        return self.now["terminated"]["exitCode"] if "terminated" in self.now else None

    @property
    def began(self) -> bool:
        """Whether it ever ran, or at least tried."""
        return bool(self.last) or "waiting" not in self.now

    def wait(self, reason: str, message: str = "") -> None:
        """Waits from now on, for the first time or between two runs."""
        if "terminated" in self.now:
            self.last = self.now
        self.now = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        self.ready = self.started = False

    def run(self, at: str) -> None:
        if "terminated" in self.now:
            self.last = self.now
        self.restarts += bool(self.last)
        self.now = {"running": {"startedAt": at}}

    def end(self, code: int, at: str, reason: str = "", message: str = "") -> None:
        """Ended. reason: what is known better than by the code."""
        self.ready = self.started = False
        self.now = {
            "terminated": {
                "exitCode": code,
                "reason": reason or ("Error" if code else "Completed"),
                **({"message": message} if message else {}),
                "startedAt": self.now.get("running", {}).get("startedAt", at),
                "finishedAt": at,
            }
        }

    def object(self) -> Object:
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "" if "waiting" in self.now and not self.last else f"stand-in://{self.image}",
            "state": self.now,
            "lastState": self.last,
            "ready": self.ready,
            "restartCount": self.restarts,
            "started": self.started,
        }


def restarts(policy: str, code: int) -> bool:
    """Whether a container that ended so is started again."""
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def phase(policy: str, inits: Sequence[State], mains: Sequence[State], *, stopped: bool = False) -> str:
    """Of a pod.

    stopped: nothing is started any more, because the pod was deleted; its end is a failure unless all succeeded.
    """
    init_failed = any(own.code and not restarts(policy, own.code) for own in inits)
    ended = all(own.code is not None for own in mains)
    codes = [own.code for own in mains if own.code is not None]
    final = stopped or not any(restarts(policy, code) for code in codes)
    if init_failed or (stopped and not ended and not any(own.running for own in (*inits, *mains))):
        return "Failed"
    if ended and final:
        return "Failed" if any(codes) else "Succeeded"
    return "Running" if any(own.began for own in mains) else "Pending"


def status(
    pod: Object,
    inits: Sequence[State],
    mains: Sequence[State],
    *,
    now: str,
    began: str,
    ip: str = "",
    host: str,
    stopped: bool = False,
) -> Object:
    """The whole part of a pod's status that is the kubelet's. ip: empty until the pod has a place to run in."""
    chosen = phase(pod["spec"].get("restartPolicy", "Always"), inits, mains, stopped=stopped)
    said: dict[str, Any] = {
        "phase": chosen,
        "startTime": began,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "conditions": _conditions(pod, inits, mains, chosen, ip, now),
        "containerStatuses": [own.object() for own in mains],
    }
    if inits:
        said["initContainerStatuses"] = [own.object() for own in inits]
    if ip:
        said |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return said


def condition(pod: Object, kind: str) -> Object:
    """The pod's condition of this type as it was last seen, or nothing."""
    found = (own for own in pod.get("status", {}).get("conditions", ()) if own["type"] == kind)
    return next(found, {})


def _conditions(
    pod: Object, inits: Sequence[State], mains: Sequence[State], chosen: str, ip: str, now: str
) -> list[Object]:
    waiting = [own.name for own in inits if own.code != 0]
    unready = [own.name for own in mains if not own.ready]
    words = {"Succeeded": ("PodCompleted", ""), "Failed": ("PodFailed", "")}
    why_init = ("ContainersNotInitialized", f"containers with incomplete status: [{' '.join(waiting)}]")
    why = words.get(chosen, ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"))
    gates = [own["conditionType"] for own in pod["spec"].get("readinessGates", ())]
    shut = [gate for gate in gates if condition(pod, gate).get("status") != "True"]
    why_gates = ("ReadinessGatesNotReady", f'the status of pod readiness gate {" ".join(shut)} is not "True"')
    return [
        _condition(pod, "PodReadyToStartContainers", bool(ip) and chosen in {"Pending", "Running"}, ("", ""), now),
        _condition(pod, "Initialized", not waiting, words.get(chosen, why_init), now),
        _condition(pod, "ContainersReady", not unready, why, now),
        _condition(pod, "Ready", not unready and not shut, why if unready else why_gates, now),
    ]  # fmt: skip


def _condition(pod: Object, kind: str, holds: bool, why: tuple[str, str], now: str) -> Object:
    value = "True" if holds else "False"
    before = condition(pod, kind)
    moved = before.get("lastTransitionTime") if before.get("status") == value else None
    reason, message = ("", "") if holds else why
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moved or now,
    }
