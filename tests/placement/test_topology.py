"""What a topology says of its levels."""

import pytest

from scheduler.model.cluster import DEFAULT_LEVELS, survey
from tests.support.builders import AREA, HOST, RACK


def surveyed(*labels):
    return survey(DEFAULT_LEVELS, labels)


RACKS = surveyed({HOST: "a", RACK: "r0"}, {HOST: "b", RACK: "r0"}, {RACK: "r1"})


def test_columns_are_the_coords_level_by_level():
    """Turned about, nothing else, and nobody may write to them."""
    assert RACKS.columns.tolist() == RACKS.coords.T.tolist()
    with pytest.raises(ValueError, match="read-only"):
        RACKS.columns[0, 0] = 5


def test_a_level_is_known_where_a_node_has_its_label():
    """One node is enough; without nodes nothing is known."""
    assert RACKS.known == (True, True, False)
    assert surveyed({AREA: "x"}).known == (False, False, True)
    assert surveyed().known == (False, False, False)


def test_a_level_is_lone_where_no_domain_has_two_nodes():
    """Nodes outside of all domains share none."""
    assert RACKS.lone == (True, False, True)
    assert surveyed({HOST: "a"}, {HOST: "a"}).lone == (False, True, True)
