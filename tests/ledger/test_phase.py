"""The life of a gang, read off its facts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ledger.phase import TABLE, Facts, State, state
from tests.ledger.support.desk import QUICK

COUNTS = {"quorum": 4, "bound": 0, "running": 0, "held": 0, "waiting": 0, "live": 4, "there": 0}

CASES = {
    "nobody is alive": ({"live": 0}, State.LEAVING),
    "members are missing": ({"waiting": 3}, State.GATHERING),
    "all are there": ({"waiting": 4}, State.WAITING),
    "some have seats, the rest can have them": ({"held": 1, "waiting": 3}, State.WAITING),
    "all have seats": ({"held": 4}, State.HELD),
    "one is bound, the rest have seats": ({"bound": 1, "held": 3}, State.HELD),
    "all are bound": ({"bound": 4, "running": 3}, State.BOUND),
    "all run": ({"bound": 4, "running": 4}, State.RUNNING),
    "a running gang lost one, and its successor waits": (
        {"bound": 3, "running": 3, "waiting": 1},
        State.WAITING,
    ),
    "a running gang lost one, and nobody came": ({"bound": 3, "running": 3, "live": 3}, State.GATHERING),
    "what it says contradicts itself": ({"quorum": 0, "refused": True}, State.REFUSED),
    "it contradicts itself while some run": ({"quorum": 0, "bound": 2, "refused": True}, State.GATHERING),
    "its quorum is not known yet": ({"quorum": 0}, State.GATHERING),
}


@pytest.mark.parametrize("name", CASES)
def test_facts_name_the_state(name: str) -> None:
    """The first row of the table whose condition holds names the state."""
    changes, expected = CASES[name]
    assert state(Facts(**{**COUNTS, **changes})) is expected


@QUICK
@given(st.builds(Facts, *[st.integers(0, 5)] * 7, refused=st.booleans()))
def test_every_combination_of_facts_has_a_state(facts: Facts) -> None:
    """No order of events can lead to facts that the table does not know."""
    assert state(facts) in {name for name, _ in TABLE}
