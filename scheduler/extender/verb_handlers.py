"""The extender endpoints: decode, ask the engine, encode.

Lives here: three short functions, and the only wait of an endpoint. Never here: HTTP, or JSON keys. Nothing awaits
between decode and encode, so on one event loop every answer is atomic without a lock. The exception is a pod that the
watch has not delivered yet: the endpoint waits for it *before* it asks the engine again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from scheduler.extender import wire
from scheduler.model.decision import Reason
from scheduler.model.verbs import Allowed, Answer, Failed, FilterCall, PreemptCall, PrioritizeCall, Victims
from scheduler.model.workload import Uid

Result: TypeAlias = Literal["allowed", "refused", "error"]
"""The outcome of a call, in one word."""

SEEN_WITHIN: Final = 0.25
"""Seconds that a pod may be late in Gangwright's watch. One API server feeds both watches, so they differ by
milliseconds. kube-scheduler is blocked during the wait."""


class Verbs(Protocol):
    """The calls that the engine answers. All except `seen` are one step that never waits."""

    def filter(self, call: FilterCall) -> Answer:
        """Which of the candidates may hold this pod."""

    def prioritize(self, call: PrioritizeCall) -> Sequence[int]:
        """One integer 0 … 10 per candidate, in their order."""

    def preempt(self, call: PreemptCall) -> Mapping[str, Victims]:
        """The candidates that remain."""

    async def seen(self, uid: Uid, timeout: float) -> bool:  # noqa: ASYNC109 - waiting is its meaning
        """Wait at most `timeout` seconds until the watch has delivered this pod. Returns whether it has."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to kube-scheduler, with the values for the log and the counters."""

    body: bytes
    result: Result
    reason: str
    """A Reason, or "" if the endpoint has none."""
    pod: str = ""
    candidates: int = 0
    answered: int = 0
    """Candidates that remain."""


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
    """The score of each candidate. Raises WireError."""
    call = wire.decode_prioritize(body, most)
    encoded = wire.encode_prioritize(call, verbs.prioritize(call))
    count = len(call.candidates)
    return Reply(encoded, "allowed", Reason.SCORED, str(call.key), count, count)


async def answer_preempt(verbs: Verbs, body: bytes, most: int = wire.UNBOUNDED) -> Reply:
    """The nodes whose victims may be preempted. Raises WireError."""
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
    """One endpoint: its answer, and its reply when it fails."""

    answer: Callable[[Verbs, bytes, int], Awaitable[Reply]]
    failed: Callable[..., Reply]


VERBS: Final[Mapping[str, Verb]] = {
    "filter": Verb(answer_filter, failed_filter),
    "prioritize": Verb(answer_prioritize, failed_filter),
    "preempt": Verb(answer_preempt, failed_preempt),
}
"""By the last part of the path, which is also the name in `extenders:` of kube-scheduler's configuration."""


def _settled(answer: Answer) -> Answer:
    """A pod that is still unknown after the wait is an error. kube-scheduler then retries with its own backoff."""
    return Failed(answer.reason) if answer.reason is Reason.POD_NOT_CACHED else answer


def _result(answer: Answer) -> Result:
    if isinstance(answer, Failed):
        return "error"
    return "allowed" if isinstance(answer, Allowed) and answer.nodes else "refused"
