"""Decoding: whatever a stranger sends is a value or a Malformed, never a crash."""

import json
from contextlib import suppress
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import errors
from scheduler.kube.changes import (
    Key,
    Lines,
    Malformed,
    Meta,
    Seen,
    read_event,
    read_meta,
    read_object,
    read_page,
)
from tests.kube.support.follower import Pod, pods

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ANYTHING = st.binary() | JSON.map(lambda value: json.dumps(value).encode())


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"").strip())),
    cuts=st.lists(st.integers(0, 2000)),
)
def test_lines_do_not_depend_on_chunks(lines: list[bytes], cuts: list[int]) -> None:
    """However a stream is cut, the same lines come out; an unfinished one never does."""
    stream = b"".join(line + b"\n" for line in lines) + b"unfinished"
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    cutter = Lines()
    cut = [line for a, b in pairwise(edges) for line in cutter.feed(stream[a:b])]
    assert cut == [line for line in lines if line]


@given(body=ANYTHING)
def test_any_bytes_are_a_page_or_garbled(body: bytes) -> None:
    """A page decodes, or raises Garbled with the call in its text."""
    with suppress(errors.Garbled):
        assert read_page("GET /api/v1/pods", body).metadata is not None


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"metadata": {}, "items": 5}', b"\xff"])
def test_what_is_no_page_is_garbled(body: bytes) -> None:
    """The error names the call, and what was expected."""
    with pytest.raises(errors.Garbled, match=r"^GET /api/v1/pods: not a page of a list"):
        read_page("GET /api/v1/pods", body)


@given(line=ANYTHING)
def test_any_bytes_are_an_event_or_malformed(line: bytes) -> None:
    """A line decodes, or is told as Malformed in a short text."""
    event = read_event(line)
    assert not isinstance(event, Malformed) or len(event.message) <= errors.TEXT_LIMIT


@given(value=JSON)
def test_any_object_is_seen_or_malformed(value) -> None:
    """An object decodes into the caller's type, or is told as Malformed with its key."""
    raw = msgspec.Raw(json.dumps({"metadata": {"name": "n", "uid": "u"}, "spec": value}).encode())
    meta = read_meta(raw)
    assert isinstance(meta, Meta)
    told = read_object(pods(), meta, raw)
    assert isinstance(told, Seen | Malformed)
    assert (told.key, told.uid) == (Key("", "n"), "u")


@pytest.mark.parametrize(
    "raw", [b"5", b"{}", b'{"metadata": null}', b'{"metadata": {"name": {}}}', b"[" * 10_000]
)
def test_a_bad_head_is_malformed(raw: bytes) -> None:
    """Without readable metadata there is no key, only a message."""
    told = read_meta(msgspec.Raw(raw))
    assert isinstance(told, Malformed)
    assert told.key is None
    assert told.message


def test_undeclared_fields_are_skipped() -> None:
    """What the caller's type does not declare is not built, and not looked at."""
    body = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "7", "managedFields": [{}]}, "status": 5}
    raw = msgspec.Raw(json.dumps(body).encode())
    told = read_object(pods(), Meta("n", "", "u", "7"), raw)
    assert isinstance(told, Seen)
    assert isinstance(told.object, Pod)
    assert told.object.metadata.version == 7


def test_selectors_go_only_when_set() -> None:
    """An empty selector is not sent."""
    assert pods().selectors == {}
    assert pods(field_selector="a=b").selectors == {"fieldSelector": "a=b"}
