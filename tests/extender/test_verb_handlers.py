"""The verbs between bytes and the engine."""

import json

import pytest

from scheduler.extender import verb_handlers
from scheduler.extender.wire import WireError
from scheduler.model.decision import TEXT, Reason
from scheduler.model.verbs import Allowed, Failed, FilterCall, Refused, Victims
from scheduler.model.workload import PodKey, Uid
from tests.extender.support.scripted import Scripted, a_pod, extender_args
from tests.extender.test_wire import preempt_args

THE_CALL = FilterCall(
    Uid("u-1"), PodKey("team-a", "train-0"), "gangwright", native_group=False, candidates=("n1", "n2")
)


async def test_filter_asks_the_engine_once():
    """The decoded call goes in, the encoded answer comes out, with what the log says of it."""
    verbs = Scripted(on_filter=lambda _: Allowed(("n2",), Reason.SEATED))

    reply = await verb_handlers.answer_filter(verbs, extender_args())

    assert verbs.asked == [THE_CALL]
    assert json.loads(reply.body)["NodeNames"] == ["n2"]
    assert (reply.result, reply.reason, reply.pod) == ("allowed", "Seated", "team-a/train-0")
    assert (reply.candidates, reply.answered) == (2, 1)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (Refused(Reason.QUEUED), "refused"),
        (Allowed((), Reason.SEATED), "refused"),
        (Failed(Reason.CACHE_NOT_SYNCED), "error"),
    ],
)
async def test_results_are_three_words(answer, result):
    """No node is refused, no answer is an error."""
    reply = await verb_handlers.answer_filter(Scripted(on_filter=lambda _: answer), extender_args())

    assert reply.result == result


@pytest.mark.parametrize("first", [Failed(Reason.POD_NOT_CACHED), Refused(Reason.POD_NOT_CACHED)])
async def test_a_pod_that_the_watch_has_not_delivered_is_waited_for_once(first):
    """The engine is asked, the watch waited for, and the engine asked again."""
    answers = iter([first, Allowed(("n1",), Reason.SEATED)])
    verbs = Scripted(on_filter=lambda _: next(answers))

    reply = await verb_handlers.answer_filter(verbs, extender_args())

    assert verbs.asked == [THE_CALL, (Uid("u-1"), verb_handlers.SEEN_WITHIN), THE_CALL]
    assert reply.result == "allowed"


async def test_a_pod_that_stays_unknown_is_an_error():
    """kube-scheduler then asks again by its own clock; a refusal would wait for an event."""
    verbs = Scripted(on_filter=lambda _: Refused(Reason.POD_NOT_CACHED), on_seen=lambda *_: False)

    reply = await verb_handlers.answer_filter(verbs, extender_args())

    assert json.loads(reply.body)["Error"] == TEXT[Reason.POD_NOT_CACHED]
    assert (reply.result, reply.reason) == ("error", "PodNotCached")
    assert len(verbs.asked) == 3


async def test_prioritize_scores_every_candidate():
    """In the order of the question."""
    verbs = Scripted(on_prioritize=lambda _: [3, 9])

    reply = await verb_handlers.answer_prioritize(verbs, extender_args())

    assert json.loads(reply.body) == [{"Host": "n1", "Score": 3}, {"Host": "n2", "Score": 9}]
    assert (reply.result, reply.reason) == ("allowed", "Scored")


@pytest.mark.parametrize(("kept", "result"), [({}, "refused"), ({"n1": Victims((Uid("a"),))}, "allowed")])
async def test_preempt_says_who_remains(kept, result):
    """No candidate is the veto."""
    body = preempt_args(full={"n1": {"Pods": [a_pod("a")], "NumPDBViolations": 0}})

    reply = await verb_handlers.answer_preempt(Scripted(on_preempt=lambda _: kept), body)

    assert set(json.loads(reply.body)["NodeNameToMetaVictims"]) == set(kept)
    assert reply.result == result


@pytest.mark.parametrize("verb", verb_handlers.VERBS.values(), ids=verb_handlers.VERBS)
async def test_a_broken_body_reaches_no_engine(verb):
    """Every verb raises WireError, and can say so in its own form."""
    verbs = Scripted()

    with pytest.raises(WireError):
        await verb.answer(verbs, b"{")

    assert verbs.asked == []
    assert json.loads(verb.failed("why").body)["Error"] == "why"
    assert verb.failed("why").result == "error"
