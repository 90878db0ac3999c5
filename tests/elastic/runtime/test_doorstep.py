"""The last look before `init`: all are there and fit, or nobody enters."""

import threading

import pytest

from scheduler.elastic.runtime import barrier
from scheduler.elastic.runtime.barrier import Card, Overtaken
from scheduler.elastic.runtime.round_assignment import Assignment
from scheduler.elastic.runtime.runtime_errors import RoundOver, StateMismatch


class Store:
    """The round's keys, as the agents give them: `get` says None when it is not there yet."""

    def __init__(self):
        self.keys = {}

    def put(self, scope, key, value):
        self.keys[scope, key] = value
        return True

    def get(self, scope, key):
        return self.keys.get((scope, key))


def meet(cards, *, sync=True, overtaken=lambda: False):
    """What each rank ends with: None for going in, else the exception."""
    store, ends = Store(), {}
    members = tuple(f"w-{rank}" for rank in range(len(cards)))

    def stand(rank, card):
        mine = Assignment(round=5, rank=rank, size=len(cards), members=members, sync=sync)
        try:
            barrier.pass_through(store, mine, card, overtaken)
            ends[rank] = None
        except (Overtaken, StateMismatch) as error:
            ends[rank] = error

    threads = [threading.Thread(target=stand, args=one) for one in enumerate(cards) if one[1] is not None]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    return [ends.get(rank) for rank in range(len(cards))]


FITS, OTHER = Card("aaaa", "4 tensors and step"), Card("bbbb", "3 tensors and step")


def test_all_go_in_when_all_fit():
    """Three members with the same state enter."""
    assert meet([FITS, FITS, FITS]) == [None, None, None]


def test_a_state_that_does_not_fit_is_told_both():
    """The one that differs ends with an error that names both states; the others go back to the barrier."""
    ends = meet([FITS, OTHER, FITS])
    assert [type(one) for one in ends] == [Overtaken, StateMismatch, Overtaken]
    for word in ("w-0", "round 5", "3 tensors", "bbbb", "4 tensors", "aaaa"):
        assert word in str(ends[1])


def test_without_synchronisation_nobody_is_compared():
    """When only somebody left, nothing is broadcast and nothing can hang."""
    assert meet([FITS, OTHER], sync=False) == [None, None]


def test_a_member_that_never_comes_keeps_everybody_out():
    """Nobody enters `init` without it; a newer round ends the wait."""
    asked = iter([False] * 6)
    ends = meet([FITS, FITS, None], overtaken=lambda: not next(asked, False))
    assert [type(one) for one in ends[:2]] == [Overtaken, Overtaken]


def test_rank_0_that_comes_late_does_not_go_in_alone():
    """It restored for minutes; the others laid down their cards, and have left for a newer round since."""
    store = Store()
    store.put(barrier.SCOPE, "1", {"fingerprint": "aaaa", "state": "4 tensors and step"})
    late = Assignment(round=5, rank=0, size=2, members=("w-0", "w-1"), sync=True)

    with pytest.raises(Overtaken):
        barrier.pass_through(store, late, FITS, lambda: True)

    assert store.get(barrier.SCOPE, "go") is None


def test_alone_nobody_is_asked():
    """A round of one has no doorstep."""
    assert meet([FITS]) == [None]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_store_that_is_gone_is_waited_for(rank):
    """A put that does not get through is tried again, until a newer round is announced."""

    class Gone(Store):
        def put(self, *_):
            return False

        def get(self, *_):
            return None

    tries = iter([False, False, True])
    with pytest.raises(Overtaken):
        barrier.pass_through(Gone(), Assignment(1, rank, 2), FITS, lambda: next(tries))


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("over", ["put", "get"])
def test_a_round_that_is_over_is_not_waited_for(rank, over):
    """Its values are gone, and nobody announces another one before its members are back at the barrier."""

    class Over(Store):
        def put(self, *words):
            return self._unless("put", super().put(*words))

        def get(self, *words):
            return self._unless("get", super().get(*words) or {})

        def _unless(self, what, answer):
            if what == over:
                raise RoundOver
            return answer

    with pytest.raises(Overtaken):
        barrier.pass_through(Over(), Assignment(1, rank, 2, sync=False), FITS, lambda: False)
