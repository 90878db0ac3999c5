"""A snapshot's document: what was written is read again, and nothing else is."""

import subprocess
import sys

import pytest

from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.replay import InvalidSnapshot, decode, encode
from tests.replay.scene import a_document, a_full_document, a_pod, some_gang


def test_what_is_written_is_read_again():
    """A document with one of everything comes back equal, and equal documents are equal bytes."""
    full = a_full_document()

    again = decode(encode(full))

    assert again == full
    assert encode(again) == encode(full)


def test_the_policy_comes_along():
    """Settings that decide are part of the document."""
    policy = Policy(level="host", shares={"team": Share(guaranteed=(("cpu", 5),))})

    assert decode(encode(a_document(policy=policy))).policy == policy


def test_of_several_facts_about_a_pod_the_last_counts():
    """A pod told of twice is in the document once, as it was last."""
    pods = a_document(a_pod("one", priority=1), a_pod("one", priority=2)).pods

    assert [pod.priority for pod in pods] == [2]


WRITE = """
from scheduler.replay import encode
from tests.replay.scene import a_full_document
import hashlib
print(hashlib.sha256(encode(a_full_document())).hexdigest())
"""


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_process():
    """Two processes with hash seeds of their own write equal bytes."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", WRITE],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]

    assert runs[0] == runs[1]


WHOLE = encode(a_document(*some_gang("one", 2)))

TORN = {
    "cut off": (WHOLE[:1000], "truncated (of 1000 bytes)"),
    "empty": (b"", "truncated"),
    "no JSON": (b"\x89PNG\r\n", "malformed"),
    "not an object": (b"[]", "Expected `object`"),
    "somebody else's": (b'{"kind": "List", "version": 1}', "'List'"),
    "without a version": (b'{"kind": "GangwrightSnapshot"}', "version"),
    "of tomorrow": (b'{"kind": "GangwrightSnapshot", "version": 4}', "version: must be 3"),
    "a name that is a number": (WHOLE.replace(b'"name":"a0-r0-n0"', b'"name":7'), "$.nodes[0].name"),
    "an unknown word": (WHOLE.replace(b'"Pending"', b'"Asleep"'), "$.pods[0].phase"),
    "no UTF-8": (WHOLE.replace(b"a0-r0-n0", b"\xff\xfe-r0-n0"), "utf-8"),
    "deep": (b'{"kind": "GangwrightSnapshot", "version": 3, "x": ' + b"[" * 100_000, "recursion"),
}


@pytest.mark.parametrize("case", TORN)
def test_what_is_no_snapshot_is_refused(case):
    """A torn or foreign file is refused, and what is wrong is named with its place."""
    text, named = TORN[case]

    with pytest.raises(InvalidSnapshot) as refused:
        decode(text)

    assert named.lower() in str(refused.value).lower()
