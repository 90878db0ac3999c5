"""The queue by shape: the next who waits, and the next who leaves in time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.shape_queue import ShapeQueue

SPANS = st.lists(st.integers(0, 9).map(float), max_size=8)


@given(SPANS, st.lists(st.integers(0, 7), max_size=8), st.integers(-1, 25), st.integers(0, 20))
def test_the_next_is_the_one_whom_a_walk_finds(spans, leaving, after, end):
    """Whoever has left, the next of all and the next short one are those that a walk along the line comes to first."""
    places = [3 * number + 1 for number in range(len(spans))]
    line = ShapeQueue(places, np.array(spans))
    gone = {places[number] for number in leaving if number < len(places)}
    for place in gone:
        line.leave(place)
    here = [(place, span) for place, span in zip(places, spans, strict=True) if place not in gone]

    assert line.first() == next((place for place, _ in here), None)
    assert line.first_short(after, 5.0, float(end)) == next(
        (place for place, span in here if place > after and 5 + span <= end), None
    )


def test_the_end_itself_is_in_time():
    """Who leaves in the very moment is gone by it; who has left the line is short enough for no end."""
    line = ShapeQueue([0, 1], np.array([2.0, 1.0]))

    assert line.first_short(-1, 5.0, 7.0) == 0
    line.leave(0)
    line.leave(1)
    assert line.first_short(-1, 5.0, float("inf")) is None


def test_a_line_is_its_own():
    """Two courses that share their spans do not see who left in the other."""
    spans = np.array([2.0])
    ShapeQueue([0], spans).leave(0)

    assert ShapeQueue([0], spans).first_short(-1, 0.0, 9.0) == 0
