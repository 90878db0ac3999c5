"""Bodies of workers: read strictly, and refused in words, whatever they hold."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.elastic.agent.progress_report import PHASES
from scheduler.elastic.job.status import WorkerPhase
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Leaving
from scheduler.elastic.rendezvous.worker_messages import (
    DECODERS,
    Reason,
    Refused,
    decoded,
    encode,
)

NAMES = sorted({name for kind in DECODERS for name in kind.__struct_fields__} | {"", "$", "x.y", "`"})
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DECODERS)
@settings(deadline=None)
@given(body=st.binary(max_size=64) | ANY.map(lambda found: json.dumps(found).encode()))
@example(body=b'{"round": "x", "and then"')
@example(body=b'{"round": "x", "deep": ' + b"[" * 100_000)
@example(body=b'{"round": "x", "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
@example(body=b'{"round": 1e999}')
@example(body=b'{"round": ' + b"9" * 5000 + b"}")
@example(body=b'{"why": "\\ud800"}')
def test_whatever_comes_is_read_or_refused(kind, body):
    """There is a struct or a refusal of the body, never another error, and the text of it is short."""
    try:
        found = decoded(kind, "a", body)
    except Refused as refused:
        told = refused
        assert (told.reason in {Reason.INVALID, Reason.MALFORMED}, len(str(told)) < 600) == (True, True)
    else:
        assert decoded(kind, "a", encode(found)) == found


def test_what_is_left_out_has_a_meaning():
    """A worker that has nothing to tell tells little; fields of a later agent are passed over."""
    told = b'{"phase": "Starting", "round": 0, "later": {}}'
    assert decoded(Beat, "a", told) == Beat("a", WorkerPhase.STARTING, 0)
    assert decoded(Arrived, "a", b'{"round": 2, "why": "failure"}') == Arrived("a", 2, why="failure")
    assert decoded(Arrived, "a", b'{"round": 2, "why": "another"}') == Arrived("a", 2, why="another")


def test_who_says_it_is_not_said_in_the_body():
    """A worker cannot speak for another one."""
    assert decoded(Beat, "a", b'{"uid": "b", "phase": "Starting", "round": 0}') == Beat("a")


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        (Beat, b"{}", "phase"),
        (Beat, b'{"phase": "Training"}', "round"),
        (Arrived, b'{"round": 2}', "why"),
        (Leaving, b'{"why": "SIGTERM"}', "grace_s"),
        (Exited, b'{"code": 1}', "why"),
    ],
)
def test_a_body_that_says_nothing_is_refused(kind, body, field):
    """Nothing is guessed: the field that is missing is named."""
    with pytest.raises(Refused, match=f"{field} = none: is required"):
        decoded(kind, "a", body)


def test_the_agent_knows_the_phases_that_the_master_knows():
    """Its own copy has those words that a worker may say of itself."""
    assert set(WorkerPhase) - {WorkerPhase.GATED, WorkerPhase.LOST} == PHASES


def test_what_a_script_uses_is_a_list_of_words():
    """Words that this master does not know are read like the others; an agent that says nothing has said None."""
    told = b'{"phase": "Training", "round": 1, "uses": ["batch", "later"]}'
    assert decoded(Beat, "a", told).uses == ("batch", "later")
    assert decoded(Beat, "a", b'{"phase": "Training", "round": 1}').uses is None
    with pytest.raises(Refused, match=r"uses\[0\] = 1: "):
        decoded(Beat, "a", b'{"phase": "Training", "round": 1, "uses": [1]}')


def test_every_reason_has_a_status():
    """The wire knows no reason without one, and no status but those that agents expect."""
    assert {reason.status for reason in Reason} == {400, 401, 403, 404, 405, 409, 413, 429, 500, 503}
