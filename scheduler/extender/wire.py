"""The JSON of kube-scheduler's extender calls, as calls and answers; pure.

Lives here: the field names of `k8s.io/kube-scheduler/extender/v1`, and how kube-scheduler interprets each reply. Never
here: a judgment about a node.

The envelope's Go types have no JSON tags, so its keys are the Go field names, and absent lists are `null`. Only the
identity of the pod is read: msgspec skips the rest without building it.

Why every rejected node has a reason: a node in no map of the reply also counts as rejected, but without a reason. Why
all of them are in FailedAndUnresolvableNodes: kube-scheduler asks only about nodes on which the pod fits next to the
running pods. So deleting pods from them would not help, and a node in FailedNodes invites kube-scheduler to do that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from scheduler.errors import GangwrightError, shortened
from scheduler.extender.byte_cache import ByteCache
from scheduler.model.decision import TEXT, Reason
from scheduler.model.verbs import (
    MAX_SCORE,
    Allowed,
    Answer,
    Failed,
    FilterCall,
    PreemptCall,
    PrioritizeCall,
    Victims,
)
from scheduler.model.workload import PodKey, Uid

KEPT: Final = 8 * 2**20
"""Bytes of decoded node lists that are kept, and also of encoded rejections. kube-scheduler retries a rejected pod with
the same list, and its sampling rotates the list, so few are in use at a time. At 5,000 nodes one takes 0.2 and
0.3 MB."""

NAME: Final = 256
"""Maximum bytes of a node name, with quotes and comma."""

TOO_MANY: Final = "kube-scheduler sent far more nodes than the cluster has"

UNBOUNDED: Final = 2**31
"""Candidates of a call if the size of the cluster does not matter."""

_NULL: Final = b"null"

_T = TypeVar("_T")


class WireError(GangwrightError):
    """A body does not have the form that kube-scheduler sends. The text names the part and the fix."""


class _Name(Struct, frozen=True):
    uid: Annotated[str, Meta(min_length=1)]
    name: str = ""
    namespace: str = ""


class _Spec(Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""
    scheduling_group: Raw = Raw(_NULL)


class _Pod(Struct, frozen=True):
    metadata: _Name
    spec: _Spec = _Spec()


class _Args(Struct, frozen=True, rename="pascal"):
    pod: _Pod
    node_names: Raw = Raw(_NULL)
    nodes: Raw = Raw(_NULL)


class _MetaPod(Struct, frozen=True):
    uid: Annotated[str, Meta(min_length=1)] = msgspec.field(name="UID")


class _FullPod(Struct, frozen=True):
    metadata: _Name

    @property
    def uid(self) -> str:
        return self.metadata.uid


_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _MetaVictims(Struct, frozen=True):
    pods: list[_MetaPod] | None = msgspec.field(name="Pods", default=None)
    violations: _Count = msgspec.field(name="NumPDBViolations", default=0)


class _FullVictims(Struct, frozen=True):
    pods: list[_FullPod] | None = msgspec.field(name="Pods", default=None)
    violations: _Count = msgspec.field(name="NumPDBViolations", default=0)


class _PreemptionArgs(Struct, frozen=True, rename="pascal"):
    pod: _Pod
    node_name_to_victims: dict[str, _FullVictims | None] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims | None] | None = None


_ARGS: Final = msgspec.json.Decoder(_Args)
_PREEMPTION: Final = msgspec.json.Decoder(_PreemptionArgs)
_NAMES: Final = msgspec.json.Decoder(tuple[str, ...] | None)
_ENCODE: Final = msgspec.json.Encoder().encode
_LISTS: Final[ByteCache[bytes, tuple[str, ...]]] = ByteCache(KEPT)
_REFUSALS: Final[ByteCache[tuple[tuple[str, ...], Reason], bytes]] = ByteCache(KEPT)


def decode_filter(body: bytes, most: int = UNBOUNDED) -> FilterCall:
    """The call of `filter`, with at most `most` candidates. Raises WireError."""
    args = _read(_ARGS, body)
    return FilterCall(*_who(args.pod), _candidates(args, most))


def decode_prioritize(body: bytes, most: int = UNBOUNDED) -> PrioritizeCall:
    """The call of `prioritize`, with at most `most` candidates. Raises WireError."""
    args = _read(_ARGS, body)
    return PrioritizeCall(*_who(args.pod), _candidates(args, most))


def decode_preempt(body: bytes, most: int = UNBOUNDED) -> PreemptCall:
    """The call of `preempt`, with uids only or with whole pods, and at most `most` candidates.

    Raises WireError.
    """
    args = _read(_PREEMPTION, body)
    given: Mapping[str, _MetaVictims | _FullVictims | None] = (
        args.node_name_to_meta_victims or args.node_name_to_victims or {}
    )
    if len(given) > most:
        raise WireError(TOO_MANY)
    return PreemptCall(*_who(args.pod), {node: _victims(found) for node, found in given.items()})


def encode_filter(call: FilterCall, answer: Answer) -> bytes:
    """The reply to `filter`: a subset of the candidates in their order, and a reason for every other one."""
    match answer:
        case Allowed(nodes=nodes, otherwise=otherwise):
            return _allowed(call.candidates, nodes, otherwise)
        case Failed(reason=reason):
            return encode_error(TEXT[reason])
        case _:
            return _refused(call.candidates, answer.reason)


def encode_prioritize(call: PrioritizeCall, scores: Sequence[int]) -> bytes:
    """The reply to `prioritize`: a bare array. `scores` holds one integer 0 … 10 per candidate, in order.

    Integers, because kube-scheduler drops the entire reply if one score is not.
    """
    pairs = zip(call.candidates, scores, strict=True)
    return _ENCODE([{"Host": node, "Score": min(max(int(score), 0), MAX_SCORE)} for node, score in pairs])


def encode_preempt(call: PreemptCall, remaining: Mapping[str, Victims]) -> bytes:
    """The reply to `preempt`: the candidates that remain, always with uids only.

    Omits nodes that kube-scheduler would treat as an error that fails the call: a node that is not in the call, and a
    node whose victims were all removed from the list.
    """
    kept = {
        node: {"Pods": [{"UID": uid} for uid in victims.uids], "NumPDBViolations": victims.pdb_violations}
        for node, victims in remaining.items()
        if node in call.candidates and (victims.uids or not call.candidates[node].uids)
    }
    return _ENCODE({"NodeNameToMetaVictims": kept})


def encode_error(text: str) -> bytes:
    """The reply to `filter` when it fails, with the reason.

    kube-scheduler shows the text to the user and retries with its own backoff. For `prioritize` it is not an array, so
    kube-scheduler ignores it.
    """
    return _filter_result(None, {}, text)


def encode_veto(text: str) -> bytes:
    """The reply to `preempt` when it fails: no candidate. kube-scheduler ignores the text."""
    return _ENCODE({"NodeNameToMetaVictims": {}, "Error": text})


def _read(decoder: "msgspec.json.Decoder[_T]", body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except RecursionError:
        raise WireError("the body is nested too deeply for a pod") from None
    except ValueError as error:  # broken JSON, wrong types, and bytes that are not UTF-8
        raise WireError(f"the body is not a valid extender call: {shortened(str(error))}") from None


def _who(pod: _Pod) -> tuple[Uid, PodKey, str, bool]:
    name, spec = pod.metadata, pod.spec
    native = bytes(spec.scheduling_group) not in {b"", _NULL}
    return Uid(name.uid), PodKey(name.namespace, name.name), spec.scheduler_name, native


def _candidates(args: _Args, most: int) -> tuple[str, ...]:
    raw = bytes(args.node_names)
    if raw == _NULL and bytes(args.nodes) != _NULL:
        raise WireError("kube-scheduler sent whole nodes; set nodeCacheCapable: true on its extender")
    if len(raw) > NAME * (most + 1):
        raise WireError(TOO_MANY)
    names = _LISTS.get(raw)
    if names is None:
        names = tuple(dict.fromkeys(_read(_NAMES, raw) or ()))
        _LISTS.put(raw, names, len(raw))
    if len(names) > most:
        raise WireError(TOO_MANY)
    return names


def _victims(found: _MetaVictims | _FullVictims | None) -> Victims:
    if found is None:
        return Victims(())
    return Victims(tuple(Uid(pod.uid) for pod in found.pods or ()), found.violations)


def _allowed(candidates: tuple[str, ...], nodes: Iterable[str], otherwise: Reason) -> bytes:
    if nodes is candidates:
        return _filter_result(candidates, {})
    refused = dict.fromkeys(candidates, TEXT[otherwise])
    names = [node for node in dict.fromkeys(nodes) if refused.pop(node, None) is not None]
    if len(names) > 1:
        kept = frozenset(names)
        names = [node for node in candidates if node in kept]
    return _filter_result(names, refused)


def _refused(candidates: tuple[str, ...], reason: Reason) -> bytes:
    known = _REFUSALS.get((candidates, reason))
    if known is not None:
        return known
    reply = _filter_result([], dict.fromkeys(candidates, TEXT[reason]))
    _REFUSALS.put((candidates, reason), reply, len(reply))
    return reply


def _filter_result(names: Sequence[str] | None, refused: Mapping[str, str], error: str = "") -> bytes:
    lists = {"Nodes": None, "NodeNames": names, "FailedNodes": {}, "FailedAndUnresolvableNodes": refused}
    return _ENCODE({**lists, "Error": error})
