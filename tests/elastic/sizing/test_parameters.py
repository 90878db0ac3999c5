"""Parameters: read strictly, refused by field, value and remedy."""

import math

import pytest

from scheduler.elastic.sizing import decode
from scheduler.elastic.sizing.policy_parameters import BY_NAME, NAMES, Efficiency, Point, Utility
from scheduler.errors import SettingsError

WRONG = [
    ("greedy", {}, "spec.sizing.policy = 'greedy': must be one of offer, efficiency, utility, schedule"),
    ("offer", {"threshold": 0.1}, "spec.sizing.parameters.threshold = 0.1: unknown parameter of offer; use one of hold, horizon"),
    ("efficiency", {"threshold": 0}, "spec.sizing.parameters.threshold = 0: must be above 0 and at most 1"),
    ("efficiency", {"threshold": "0.1"}, "spec.sizing.parameters.threshold = '0.1': must be above 0 and at most 1"),
    ("efficiency", {"samples": 2.5}, "spec.sizing.parameters.samples = 2.5: must be an integer between 1 and 10000"),
    ("efficiency", {"hold": True}, "spec.sizing.parameters.hold = True: must be seconds between 0 and 31536000 (one year)"),
    ("efficiency", {"stride": math.nan}, "spec.sizing.parameters.stride = nan: must be a factor between 1 and 16"),
    ("utility", {"price": math.inf}, "spec.sizing.parameters.price = inf: must be a number between 0 and 1e9"),
    ("utility", {"deadline": 0}, "spec.sizing.parameters.deadline = 0: must be above 0, at most one year"),
    ("utility", {"points": 3}, "spec.sizing.parameters.points = 3: must be a list of at most 64 points, each with until and value"),
    ("utility", {"points": [7]}, "spec.sizing.parameters.points[0] = 7: must have until and value, both numbers"),
    ("utility", {"points": [{"until": 1}]}, "spec.sizing.parameters.points[0] = {'until': 1}: must have until and value, both numbers"),
    (
        "utility",
        {"points": [{"until": 1, "value": 1}, {"until": -2, "value": 1}]},
        "spec.sizing.parameters.points[1].until = -2: must be seconds between 0 and 31536000 (one year)",
    ),
    (
        "utility",
        {"points": [{"until": 9, "value": 1}, {"until": 9, "value": 1}]},
        "spec.sizing.parameters.points[1].until = 9.0: must be later than the point before it, 9",
    ),
    (
        "utility",
        {"points": [{"until": 1, "value": 1}, {"until": 2, "value": 3}]},
        "spec.sizing.parameters.points[1].value = 3.0: must be no more than the point before it, 1",
    ),
    (
        "utility",
        {"points": [{"until": 1, "value": 1}], "deadline": 5},
        "spec.sizing.parameters.deadline = 5: remove it if you set points",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "parameters", "words"), WRONG)
def test_refused(policy, parameters, words):
    """What is wrong is refused with the path of its field, its value, and what would be right."""
    with pytest.raises(SettingsError) as refused:
        decode(policy, parameters)

    assert str(refused.value) == words


@pytest.mark.parametrize("policy", BY_NAME)
def test_nothing_written(policy):
    """Every policy has a default for each parameter, and is found again by its name."""
    made = decode(policy, {})

    assert made == BY_NAME[policy]()
    assert NAMES[type(made)] == policy


def test_written():
    """What is written counts; whole numbers stand for fractions."""
    assert decode("efficiency", {"threshold": 1, "step": 4}) == Efficiency(threshold=1.0, step=4)
    assert decode("utility", {"points": [{"until": 60, "value": 5}]}) == Utility(points=(Point(60.0, 5.0),))
