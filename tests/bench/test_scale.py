"""How the growth of a cost is found."""

import pytest

from bench.scale import Cost, Point, exponent, measured
from bench.tables import scale


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_that_power(power):
    """Whatever the factor before it."""
    sizes = (10, 30, 100, 300)

    assert exponent(sizes, [7.0 * size**power for size in sizes]) == pytest.approx(power)


def test_a_point_is_measured_and_its_axis_has_exponents():
    """A small cluster costs something, and every axis has a figure for each exponent."""
    small = Point(nodes=20, waiting=6, shapes=3)

    cost = measured(small, tries=1)
    table = scale.layout({"nodes": [(small, cost), (Point(40, 6, 3), Cost(1.0, 2.0, 3.0, 4.0))]})

    assert min(cost.load, cost.first, cost.ended) > 0
    assert {"ended_exponent_of_nodes", "first_exponent_of_nodes", "ended_ms_at_40_nodes"} <= set(
        table.figures
    )
    assert len(table.rows) == 2
