"""Elastic jobs that share slots: who has how many, and what a serving pod takes."""

import pytest

from bench.sharing import Slots
from bench.training import Job
from scheduler.elastic.sizing import decode

OFFER = decode("offer", {})


def a_job(name, most=4, seconds=100.0):
    """So many seconds with all of its workers, of steps of 0.1 s."""
    steps = {count: 0.1 * most / count for count in range(1, most + 1)}
    return Job(name, most, seconds / 0.1 * most, steps)


def submit(slots, name, least=1, **words):
    return slots.submit(a_job(name, **words), OFFER, least, warm=5.0, idle=0.5)


def workers(job):
    return [count for _, count in job.sizes]


def test_a_job_grows_into_free_slots_and_ends():
    """It begins with its quorum, takes the other slots, and uses none after its end."""
    slots = Slots(6)
    job = submit(slots, "one")
    slots.until(lambda: job.over)

    assert workers(job) == [1, 4]
    assert slots.free == 6
    work = sum(
        count * (after - at)
        for (at, count), (after, _) in zip(job.sizes, [*job.sizes[1:], (slots.clock.now, 0)], strict=True)
    )
    assert work == pytest.approx(400.0, rel=0.01)


def test_what_one_job_leaves_another_one_takes():
    """The second job has the two slots that the first one leaves, and four after its end."""
    slots = Slots(6)
    first = submit(slots, "one")
    slots.until(lambda: workers(first)[-1:] == [4])
    second = submit(slots, "two")
    slots.until(lambda: first.over)

    assert workers(second)[-1] == 2
    slots.until(lambda: second.over)
    assert workers(second) == [1, 2, 4]


def test_a_quorum_waits_for_all_of_its_slots():
    """A job that needs four slots has none while three are free."""
    slots = Slots(6)
    first = submit(slots, "one", least=3, most=3)
    second = submit(slots, "two", least=4)
    slots.until(lambda: first.over)

    assert not second.uses
    slots.until(lambda: second.over)
    assert workers(second) == [4]


def test_serving_pods_preempt_surplus_and_never_the_quorum():
    """Seven serving pods on eight slots leave the job its minimum; the slots come back to it."""
    slots = Slots(8, serves=1.0)
    slots.serve(2)
    job = submit(slots, "one", most=6, seconds=1e4)
    slots.until(lambda: workers(job)[-1:] == [6])
    began = slots.clock.now
    slots.serve(6)
    slots.until(lambda: slots.clock.now >= began + 20)

    assert workers(job)[-1] == 1
    assert len(slots.served()) == 7
    slots.serve(-3)
    slots.until(lambda: slots.clock.now >= began + 40)
    assert workers(job)[-1] == 3, "one serving pod still waited, and took the first slot"


def test_no_slot_has_two_users():
    """At no time are more slots in use than there are."""
    slots = Slots(8, serves=1.0)
    jobs = [submit(slots, name, seconds=150.0) for name in ("one", "two")]
    for at, by in ((20, 3), (60, -2), (80, 2), (120, -3)):
        slots.at(1.0 + at, lambda by=by: slots.serve(by))
    slots.until(lambda: slots.free < 0 or all(job.over for job in jobs))

    assert slots.free >= 0
    uses = [tuple(use) for job in jobs for use in job.uses.values()] + slots.served()
    moves = sorted([(begun, 1) for begun, _ in uses] + [(end, -1) for _, end in uses])
    level = 0
    for _, by in moves:
        level += by
        assert level <= 8
