"""The verbs: decode, ask the engine, encode.

Lives here: three short functions, and the one wait that a verb may have. Never here: HTTP, or JSON's keys.
Between decode and encode nothing awaits, so on one event loop every answer is atomic without a lock; the
exception is a pod that our watch has not delivered yet, which is waited for *before* it is asked about again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from scheduler.extender import wire
from scheduler.model.decision import Reason
from scheduler.model.verbs import Allowed, Answer, Failed, FilterCall, PreemptCall, PrioritizeCall, Victims
from scheduler.model.workload import Uid

Result: TypeAlias = Literal["allowed", "refused", "error"]
"""What became of a call, in one word."""

SEEN_WITHIN: Final = 0.25
"""Seconds that a pod may be behind in our watch. Both watches are fed by one API server and differ by
milliseconds; kube-scheduler stands still while we wait."""


class Verbs(Protocol):
    """What the engine answers. Everything but `seen` is one step that never waits."""

    def filter(self, call: FilterCall) -> Answer:
        """Which of the candidates may hold this pod."""

    def prioritize(self, call: PrioritizeCall) -> Sequence[int]:
        """One whole number 0 … 10 a candidate, in their order."""

    def preempt(self, call: PreemptCall) -> Mapping[str, Victims]:
        """The candidates that remain."""

    async def seen(self, uid: Uid, timeout: float) -> bool:  # noqa: ASYNC109 - waiting is its meaning
        """Wait until the watch has delivered this pod, at most `timeout` seconds; whether it has."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back to kube-scheduler, and what the log and the counters say of it."""

    body: bytes
    result: Result
    reason: str
    """A Reason, or "" where the verb has none."""
    pod: str = ""
    candidates: int = 0
    answered: int = 0
    """Candidates that are left."""


async def answer_filter(verbs: Verbs, body: bytes, most: int = wire.UNBOUNDED) -> Reply:
    """Which candidates may hold the pod. Raises WireError."""
    call = wire.decode_filter(body, most)
    answer = verbs.filter(call)
    if answer.reason is Reason.POD_NOT_CACHED:
        await verbs.seen(call.uid, SEEN_WITHIN)
        answer = _settled(verbs.filter(call))
    left = len(answer.nodes) if isinstance(answer, Allowed) else 0
    encoded = wire.encode_filter(call, answer)
    return Reply(encoded, _result(answer), answer.reason, str(call.key), len(call.candidates), left)


async def answer_prioritize(verbs: Verbs, body: bytes, most: int = wire.UNBOUNDED) -> Reply:
    """How good each candidate is. Raises WireError."""
    call = wire.decode_prioritize(body, most)
    encoded = wire.encode_prioritize(call, verbs.prioritize(call))
    count = len(call.candidates)
    return Reply(encoded, "allowed", Reason.SCORED, str(call.key), count, count)


async def answer_preempt(verbs: Verbs, body: bytes, most: int = wire.UNBOUNDED) -> Reply:
    """Which nodes' victims may be taken. Raises WireError."""
    call = wire.decode_preempt(body, most)
    remaining = verbs.preempt(call)
    encoded = wire.encode_preempt(call, remaining)
    result: Result = "allowed" if remaining else "refused"
    return Reply(encoded, result, "", str(call.key), len(call.candidates), len(remaining))


def failed_filter(text: str, reason: str = "") -> Reply:
    """No answer, with the text that kube-scheduler shows."""
    return Reply(wire.encode_error(text), "error", reason)


def failed_preempt(text: str, reason: str = "") -> Reply:
    """No answer: no pod is preempted."""
    return Reply(wire.encode_veto(text), "error", reason)


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: how it is answered, and how it says that it cannot be."""

    answer: Callable[[Verbs, bytes, int], Awaitable[Reply]]
    failed: Callable[..., Reply]


VERBS: Final[Mapping[str, Verb]] = {
    "filter": Verb(answer_filter, failed_filter),
    "prioritize": Verb(answer_prioritize, failed_filter),
    "preempt": Verb(answer_preempt, failed_preempt),
}
"""By the last part of the path. The word is the verb's name in `extenders:` of kube-scheduler's configuration."""


def _settled(answer: Answer) -> Answer:
    """A pod that is still unknown after the wait is an error: kube-scheduler then asks again by its own clock."""
    return Failed(answer.reason) if answer.reason is Reason.POD_NOT_CACHED else answer


def _result(answer: Answer) -> Result:
    if isinstance(answer, Failed):
        return "error"
    return "allowed" if isinstance(answer, Allowed) and answer.nodes else "refused"
