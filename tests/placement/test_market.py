"""The price of seats: the mix by one price, its bound, and the exact mix, held to all mixes that there are."""

from itertools import combinations, product
from math import inf

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.placement.victims_market import exact_mix, mix


@st.composite
def markets(draw):
    """What each of a few nodes asks for its seats, dearer or not the more they are, and how many seats are missing."""
    nodes, most = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    asks = st.lists(st.just(inf) | st.integers(0, 20), min_size=most, max_size=most)
    price = np.array([[0, *draw(asks)] for _ in range(nodes)], dtype=np.float64)
    there = int(np.where(np.isfinite(price), np.arange(most + 1), 0).max(axis=1).sum())
    assume(there)
    return price, draw(st.integers(1, there))


def paid(price, bought):
    return float(price[np.arange(len(price)), bought].sum())


def cheapest(price, missing):
    """Every mix is looked at."""
    nodes, width = price.shape
    mixes = (np.array(each) for each in product(range(width), repeat=nodes))
    return min(paid(price, each) for each in mixes if each.sum() >= missing)


def bound(price, missing):
    """The best that one price for a seat can prove: one at which some node is as glad of one number as of another."""
    seats = np.arange(price.shape[1])
    prices = {0.0}
    for row in price:
        for few, more in combinations(np.flatnonzero(np.isfinite(row)).tolist(), 2):
            prices.add(max(float((row[more] - row[few]) / (more - few)), 0.0))
    return max(float((price - each * seats).min(axis=1).sum()) + each * missing for each in prices)


@given(markets())
def test_the_exact_mix_is_the_cheapest(market):
    """It has the seats, and nothing has them for less."""
    price, missing = market

    bought = exact_mix(price, missing)

    assert bought.sum() >= missing
    assert paid(price, bought) == cheapest(price, missing)


@given(markets())
def test_the_mix_by_one_price_has_the_seats_and_the_best_bound(market):
    """No mix costs less than its bound, and no price for a seat proves more."""
    price, missing = market

    bought, below = mix(price, missing)

    assert bought.sum() >= missing
    assert below <= cheapest(price, missing) + 1e-9
    assert below == pytest.approx(bound(price, missing), abs=1e-9)
