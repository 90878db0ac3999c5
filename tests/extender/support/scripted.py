"""An engine that answers as the test says, and remembers what it was asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.model.decision import Reason
from scheduler.model.verbs import Allowed, Answer, FilterCall, PreemptCall, PrioritizeCall, Victims
from scheduler.model.workload import Uid


def all_of(call: FilterCall) -> Answer:
    return Allowed(call.candidates, Reason.OTHER_SCHEDULER)


@dataclass
class Scripted:
    """By default everything is allowed."""

    on_filter: Callable[[FilterCall], Answer] = all_of
    on_prioritize: Callable[[PrioritizeCall], Sequence[int]] = lambda call: [5] * len(call.candidates)
    on_preempt: Callable[[PreemptCall], Mapping[str, Victims]] = lambda call: call.candidates
    on_seen: Callable[[Uid, float], bool] = lambda _uid, _timeout: True
    asked: list[Any] = field(default_factory=list)

    def filter(self, call: FilterCall) -> Answer:
        self.asked.append(call)
        return self.on_filter(call)

    def prioritize(self, call: PrioritizeCall) -> Sequence[int]:
        self.asked.append(call)
        return self.on_prioritize(call)

    def preempt(self, call: PreemptCall) -> Mapping[str, Victims]:
        self.asked.append(call)
        return self.on_preempt(call)

    async def seen(self, uid: Uid, timeout: float) -> bool:
        self.asked.append((uid, timeout))
        return self.on_seen(uid, timeout)


def extender_args(nodes: Sequence[str] | None = ("n1", "n2"), **changes: Any) -> bytes:
    """A body of filter or prioritize, as kube-scheduler sends it."""
    return msgspec.json.encode({"Pod": a_pod(), "Nodes": None, "NodeNames": nodes} | changes)


def a_pod(uid: str = "u-1", scheduler: str = "gangwright", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "train-0",
            "namespace": "team-a",
            "uid": uid,
            "creationTimestamp": "2026-11-03T10:00:00Z",
            "labels": {"gangwright.io/gang": "train"},
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            "tolerations": [{"operator": "Exists"}],
        }
        | spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
