"""Our own annotations are believed only as we write them."""

import random
import zlib
from base64 import b64encode
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.workload import PlanNote, SeatNote, Uid
from scheduler.objects.parsing import Unfit
from scheduler.objects.pod_annotations import (
    LARGEST_INFLATED,
    LONGEST_PLAN,
    read_plan,
    read_seat,
    write_plan,
    write_seat,
)

WORDS = st.text(st.characters(codec="ascii", min_codepoint=32), min_size=1, max_size=40)


def test_the_texts_are_as_documented() -> None:
    """People read them with kubectl, and a restart with the next version of ours."""
    assert write_seat("n1", "p-7", pin=True) == '{"node":"n1","plan":"p-7","pin":true}'
    seats = {Uid("c"): "n2", Uid("b"): "n1", Uid("a"): "n1"}
    assert write_plan("p-7", seats) == '{"plan":"p-7","seats":{"n1":["a","b"],"n2":["c"]}}'


@given(node=WORDS, plan=WORDS)
def test_a_seat_is_read_as_it_was_written(node: str, plan: str) -> None:
    """Writing and reading are each other's inverse."""
    assert read_seat(write_seat(node, plan, pin=False)) == SeatNote(node, plan)


@given(plan=WORDS, seats=st.dictionaries(WORDS, WORDS, min_size=1, max_size=20))
def test_a_plan_is_read_as_it_was_written(plan: str, seats: dict[str, str]) -> None:
    """Writing and reading are each other's inverse, whatever the order of the seats."""
    kept = {Uid(uid): node for uid, node in seats.items()}
    assert read_plan(write_plan(plan, kept)) == PlanNote(plan, kept)
    leaving = tuple(sorted(kept))
    assert read_plan(write_plan(plan, kept, leaving)) == PlanNote(plan, kept, leaving)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "nonsense",
        '{"node":"n1"}',
        '{"node":1,"plan":"p"}',
        '{"node":"","plan":"p"}',
        '{"node":"n1","plan":"p","more":1}',
        '{"node":"n1","plan":"' + "x" * 300 + '"}',
        "[" * 100_000,
        '{"node":"\ud800","plan":"p"}',
    ],
)
def test_a_wrong_seat_is_not_believed(text: str) -> None:
    """Anything that we would not write is refused, and nothing else is raised."""
    with pytest.raises(Unfit):
        read_seat(text)


@pytest.mark.parametrize(
    "seats", ['{"n1":["a"],"n2":["a"]}', '{"n1":["a","a"]}', "{}", '{"n1":"a"}', '{"n1":[""]}', '{"n1":[]}']
)
def test_a_plan_gives_every_member_one_seat(seats: str) -> None:
    """Two seats for one pod, or none for anybody, is not a plan of ours."""
    with pytest.raises(Unfit):
        read_plan(f'{{"plan":"p","seats":{seats}}}')


@pytest.mark.parametrize("digits", [5, 10, 20])
def test_a_plan_of_the_largest_gang_fits_the_annotation(digits: int) -> None:
    """4,096 random uids on as many nodes with long names stay within the API server's 256 KiB, the more so in twos."""
    chance = random.Random(7)
    uids = [str(UUID(int=chance.getrandbits(128), version=4)) for _ in range(4096)]
    stem = "gke-a-cluster-of-some-company-a-pool-of-its-nodes-n1"[: 63 - digits]
    seats = {Uid(uid): f"{stem}-{chance.getrandbits(4 * digits):0{digits}x}" for uid in uids}
    text = write_plan("p" * 20, seats)
    assert len(text) < LONGEST_PLAN
    assert read_plan(text).seats == seats
    longer = write_plan("p" * 20, seats, [Uid(uid[::-1]) for uid in uids])
    assert len(longer) < LONGEST_PLAN, "victims are left out where there is no room for them"
    assert read_plan(longer).seats == seats


def test_a_short_plan_is_left_as_a_person_reads_it() -> None:
    """A plan of 256 members shows whose seat is where."""
    assert write_plan("p", {Uid(f"{i:036d}"): f"gpu-node-{i:05d}" for i in range(256)}).startswith('{"plan"')


def test_a_long_plan_that_was_written_readable_is_read() -> None:
    """As earlier versions wrote it."""
    seats = ",".join(f'"n{i}":["{i:036d}"]' for i in range(2000))
    assert len(read_plan(f'{{"plan":"p","seats":{{{seats}}}}}').seats) == 2000


FORGED = {
    "not base64": "deflated:§",
    "not deflated": "deflated:" + b64encode(b"plain").decode(),
    "cut off": write_plan("p", {Uid(f"{i:036d}"): "n" for i in range(1000)})[:-8],
    "a bomb": "deflated:" + b64encode(zlib.compress(b" " * (LARGEST_INFLATED + 1))).decode(),
    "not a plan": "deflated:" + b64encode(zlib.compress(b"[]")).decode(),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_deflated_plan_that_is_not_ours_is_told_so(case: str) -> None:
    """It may have been written by anybody; it neither crashes us nor fills our memory."""
    with pytest.raises(Unfit):
        read_plan(FORGED[case])
