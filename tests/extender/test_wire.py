"""The JSON of the verbs against what kube-scheduler sends and takes."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.extender import wire
from scheduler.extender.byte_cache import LONG, ByteCache
from scheduler.model.decision import TEXT, Reason
from scheduler.model.verbs import Allowed, Failed, FilterCall, PreemptCall, PrioritizeCall, Refused, Victims
from scheduler.model.workload import PodKey, Uid
from tests.extender.support.scripted import a_pod, extender_args

KEY = PodKey("team-a", "train-0")
names = st.text(st.characters(codec="utf-8"), max_size=12)
node_lists = st.lists(names, max_size=12)
reasons = st.sampled_from(Reason)


def a_call(*nodes: str) -> FilterCall:
    return FilterCall(Uid("u-1"), KEY, "gangwright", native_group=False, candidates=nodes)


def preempt_args(*, full=None, meta=None) -> bytes:
    return msgspec.json.encode({"Pod": a_pod(), "NodeNameToVictims": full, "NodeNameToMetaVictims": meta})


def test_filter_is_read():
    """The names, the uid and the scheduler's name are all that is taken from the body."""
    assert wire.decode_filter(extender_args()) == a_call("n1", "n2")


def test_prioritize_is_read():
    """The body is that of filter."""
    expected = PrioritizeCall(Uid("u-1"), KEY, "gangwright", native_group=False, candidates=("n1", "n2"))

    assert wire.decode_prioritize(extender_args()) == expected


@pytest.mark.parametrize(
    ("spec", "native"),
    [({}, False), ({"schedulingGroup": None}, False), ({"schedulingGroup": {"podGroupName": "g"}}, True)],
)
def test_kube_schedulers_own_groups_are_told_apart(spec, native):
    """A pod with spec.schedulingGroup is of a native group."""
    assert wire.decode_filter(extender_args(Pod=a_pod(**spec))).native_group is native


def test_a_missing_list_is_an_empty_one():
    """A list that is null, as Go writes an absent one, has no candidates."""
    assert wire.decode_filter(extender_args(None)).candidates == ()


def test_whole_nodes_are_refused_with_the_setting_to_change():
    """Without nodeCacheCapable there are no names; the error says what to set."""
    body = extender_args(None, Nodes={"metadata": {}, "items": [{"metadata": {"name": "n1"}}]})

    with pytest.raises(wire.WireError, match="nodeCacheCapable: true"):
        wire.decode_filter(body)


def test_candidates_are_told_once_each():
    """kube-scheduler would keep a duplicate; we do not."""
    assert wire.decode_filter(extender_args(["b", "a", "b"])).candidates == ("b", "a")


@pytest.mark.parametrize(
    "body",
    [
        preempt_args(meta={"n1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}}),
        preempt_args(
            full={"n1": {"Pods": [a_pod("a"), a_pod("b")], "NumPDBViolations": 1}},
        ),
    ],
    ids=["uids only", "whole pods"],
)
def test_preempt_is_read_in_both_forms(body):
    """Victims come as uids, or as whole pods when nodeCacheCapable is false."""
    expected = PreemptCall(
        Uid("u-1"),
        KEY,
        "gangwright",
        native_group=False,
        candidates={"n1": Victims((Uid("a"), Uid("b")), 1)},
    )

    assert wire.decode_preempt(body) == expected


@pytest.mark.parametrize("victims", [None, {"Pods": None, "NumPDBViolations": 0}, {"Pods": []}])
def test_a_node_without_victims_is_a_candidate(victims):
    """From 1.38 on a node may come with no victim at all."""
    call = wire.decode_preempt(preempt_args(meta={"n1": victims}))

    assert call.candidates == {"n1": Victims(())}


def test_no_map_is_no_candidate():
    """Both maps null is an empty question."""
    assert wire.decode_preempt(preempt_args()).candidates == {}


def test_filter_is_answered_with_every_field():
    """The golden reply: exact names, the input's order, a reason for the other one, nothing after the brace."""
    answer = Allowed(("n3", "n1"), Reason.SEATED)

    assert wire.encode_filter(a_call("n1", "n2", "n3"), answer) == (
        b'{"Nodes":null,"NodeNames":["n1","n3"],"FailedNodes":{},'
        b'"FailedAndUnresolvableNodes":{"n2":"These resources are reserved for a gang"},"Error":""}'
    )


def test_a_refusal_names_every_node():
    """All candidates with the one text; kube-scheduler is told not to preempt for it."""
    assert wire.encode_filter(a_call("n1", "n2"), Refused(Reason.QUEUED)) == (
        b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":'
        b'{"n1":"Waiting for a turn in the queue","n2":"Waiting for a turn in the queue"},"Error":""}'
    )


def test_a_failure_is_an_error():
    """No list at all, and the text that kube-scheduler shows."""
    assert wire.encode_filter(a_call("n1"), Failed(Reason.CACHE_NOT_SYNCED)) == (
        b'{"Nodes":null,"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},'
        b'"Error":"Gangwright is still reading the cluster"}'
    )


def test_scores_are_whole_numbers_in_a_bare_array():
    """One entry a candidate, in order; what is beyond the scale is cut."""
    call = PrioritizeCall(Uid("u"), KEY, "", native_group=False, candidates=("n1", "n2", "n3", "n4"))

    assert wire.encode_prioritize(call, [7, 0, 11, -1]) == (
        b'[{"Host":"n1","Score":7},{"Host":"n2","Score":0},{"Host":"n3","Score":10},{"Host":"n4","Score":0}]'
    )


def test_a_score_for_each_candidate_or_none():
    """Too few scores are our own fault, and not sent."""
    call = PrioritizeCall(Uid("u"), KEY, "", native_group=False, candidates=("n1", "n2"))

    with pytest.raises(ValueError, match="shorter"):
        wire.encode_prioritize(call, [1])


def test_preempt_is_answered_with_uids():
    """Always the form with uids only, whichever was asked in."""
    call = wire.decode_preempt(preempt_args(full={"n1": {"Pods": [a_pod("a")], "NumPDBViolations": 2}}))

    assert wire.encode_preempt(call, call.candidates) == (
        b'{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":2}}}'
    )


def test_what_kube_scheduler_takes_for_an_error_is_not_sent():
    """A node that was not asked about and one whose victims are all gone are left out; one that had none stays."""
    call = wire.decode_preempt(
        preempt_args(
            meta={"n1": {"Pods": [{"UID": "a"}]}, "n2": {"Pods": []}, "n3": {"Pods": [{"UID": "b"}]}}
        )
    )
    remaining = {
        "n1": Victims(()),
        "n2": Victims(()),
        "n3": call.candidates["n3"],
        "n9": Victims((Uid("x"),)),
    }

    reply = json.loads(wire.encode_preempt(call, remaining))

    assert set(reply["NodeNameToMetaVictims"]) == {"n2", "n3"}


@given(node_lists, node_lists, reasons)
def test_a_reply_is_a_subset_of_the_question_and_explains_the_rest(asked, answered, otherwise):
    """Every node of the reply was asked about, in that order; every other one has the constant text."""
    call = wire.decode_filter(extender_args(asked))

    reply = json.loads(wire.encode_filter(call, Allowed(tuple(answered), Reason.SEATED, otherwise)))

    kept = reply["NodeNames"]
    assert kept == [node for node in dict.fromkeys(asked) if node in answered]
    assert reply["FailedAndUnresolvableNodes"] == dict.fromkeys(set(asked) - set(kept), TEXT[otherwise])
    assert reply["FailedNodes"] == {}
    assert reply["Error"] == ""


@given(node_lists, reasons)
def test_a_refusal_is_the_same_bytes_every_time(asked, reason):
    """Whether it is encoded or remembered."""
    first, second = (
        wire.encode_filter(wire.decode_filter(extender_args(asked)), Refused(reason)) for _ in range(2)
    )

    assert first == second
    assert json.loads(first)["FailedAndUnresolvableNodes"] == dict.fromkeys(asked, TEXT[reason])


@given(node_lists)
def test_a_foreign_pod_is_echoed(asked):
    """All candidates come back, none is refused."""
    call = wire.decode_filter(extender_args(asked, Pod=a_pod(scheduler="somebody-else")))

    reply = json.loads(wire.encode_filter(call, Allowed(call.candidates, Reason.OTHER_SCHEDULER)))

    assert reply["NodeNames"] == list(dict.fromkeys(asked))
    assert reply["FailedAndUnresolvableNodes"] == {}


DECODERS = [wire.decode_filter, wire.decode_prioritize, wire.decode_preempt]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from(
    [
        "Pod",
        "NodeNames",
        "Nodes",
        "NodeNameToVictims",
        "NodeNameToMetaVictims",
        "metadata",
        "uid",
        "spec",
        "Pods",
    ]
)
lookalikes = st.recursive(
    json_values, lambda inner: st.dictionaries(fields, inner, max_size=5), max_leaves=20
)


@pytest.mark.slow
@pytest.mark.parametrize("decode", DECODERS)
@given(body=st.binary(max_size=200) | lookalikes.map(lambda value: json.dumps(value).encode()))
def test_whatever_comes_is_a_call_or_a_wire_error(decode, body):
    """Nothing else is ever raised, and the text of the error is short."""
    said = ""
    try:
        decode(body)
    except wire.WireError as error:
        said = str(error)

    assert len(said) < 400


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "body",
    [
        b'{"Pod":' * 100_000,
        b'{"Pod":{"metadata":{"uid":"u"}},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"Pod":{"metadata":{"uid":"\\ud800"}}}',
        b'{"Pod":{"metadata":{"uid":"\xed\xa0\x80"}}}',
        b'{"Pod":{"metadata":{"uid":NaN}}}',
        b'{"Pod":{"metadata":{"uid":1}}}',
        b'{"Pod":{"metadata":{"uid":""}}}',
        b'{"Pod":{"metadata":{}}}',
        b'{"Pod":null}',
        b"[]",
        b"9" * 5000,
        b'{"Pod":{"metadata":{"uid":"u"}}} {}',
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_malformed_bodies_are_wire_errors(decode, body):
    """Too deep, lone surrogates, no number, a number, nothing, null, huge, two values."""
    with pytest.raises(wire.WireError):
        decode(body)


@pytest.mark.parametrize("count", [-1, 2**63, 2**70, 1.5, "1", None])
def test_counts_that_go_would_not_take_are_wire_errors(count):
    """NumPDBViolations is a natural number of 63 bits."""
    with pytest.raises(wire.WireError):
        wire.decode_preempt(preempt_args(meta={"n1": {"Pods": [], "NumPDBViolations": count}}))


@pytest.mark.parametrize("nodes", [["a", 1], ["a", None], "a", {"a": 1}, 5, ["\ud800"]])
def test_node_names_that_are_no_list_of_texts_are_wire_errors(nodes):
    """The list is checked when it is read, though it is read apart from the rest."""
    body = b'{"Pod":{"metadata":{"uid":"u"}},"NodeNames":' + json.dumps(nodes).encode() + b"}"

    with pytest.raises(wire.WireError):
        wire.decode_filter(body)


def test_a_long_list_is_decoded_once():
    """The same bytes give the same tuple, which makes everything keyed by it cheap."""
    body = extender_args([f"node-{number}" for number in range(1000)])

    assert wire.decode_filter(body).candidates is wire.decode_filter(bytearray(body)).candidates


def test_a_shelf_keeps_what_was_used_last_within_its_budget():
    """The budget is in bytes; the least recently used value goes first, and a huge one is never kept."""
    shelf: ByteCache[str, str] = ByteCache(16 * LONG)
    for name in "abcdefghijklmnop":
        shelf.put(name, name, LONG)
    shelf.get("a")
    shelf.put("q", "q", LONG)
    shelf.put("huge", "huge", 2 * LONG + 1)
    shelf.put("small", "small", LONG - 1)

    assert shelf.get("a") == "a"
    assert shelf.get("b") is None
    assert shelf.get("huge") is None
    assert shelf.get("small") is None
    assert (len(shelf), shelf.used) == (16, 16 * LONG)


def test_what_is_remembered_is_bounded():
    """However many different lists come, the shelves of this module stay within their budget."""
    for number in range(120):
        body = extender_args([f"node-{number}-{index}-{'x' * 100}" for index in range(1000)])
        wire.encode_filter(wire.decode_filter(body), Refused(Reason.INSUFFICIENT_RESOURCES))

    assert 0 < wire._LISTS.used <= wire.KEPT
    assert 0 < wire._REFUSALS.used <= wire.KEPT
