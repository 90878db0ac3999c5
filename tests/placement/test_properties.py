"""The planner against the accountant, on random small clusters and gangs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.model.decision import Place, Reason, Refuse, Wait
from scheduler.model.demand import Toleration
from scheduler.model.workload import Strategy
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache
from tests.placement.support.accountant import (
    Books,
    domain,
    even_shares_exist,
    fewest,
    one_by_one,
    room,
    seats_exist,
)
from tests.placement.support.asking import POLICY, decide
from tests.support.builders import a_demand, a_gang, a_mask, a_node, a_role, a_snapshot, a_taint, some_amounts

TOLERANT = (Toleration("team", exists=True),)


@st.composite
def nodes(draw, *, labelled: bool = False, most: int = 6):
    """Small nodes in up to three racks of up to two areas; some tainted, cordoned, or in no rack."""
    count = draw(st.integers(1, most))
    made = []
    for number in range(count):
        rack = draw(st.sampled_from(["r0", "r1", "r2"] if labelled else ["r0", "r1", "r2", None]))
        made.append(
            a_node(
                f"n{number}",
                cpu=draw(st.integers(0, 6)),
                memory=draw(st.integers(0, 6)),
                gpu=draw(st.integers(0, 4)),
                pods=draw(st.sampled_from([2, 9])),
                rack=rack,
                area=draw(st.sampled_from(["a0", "a1"])) if rack == "r2" else "a0",
                labels={"pool": draw(st.sampled_from(["x", "y"]))},
                taints=draw(st.sampled_from([(), (), (a_taint("team"),)])),
                schedulable=draw(st.sampled_from([True, True, True, False])),
            )
        )
    return made


@st.composite
def demands(draw, *, ports: bool = True):
    return a_demand(
        cpu=draw(st.integers(0, 3)),
        memory=draw(st.integers(0, 2)),
        gpu=draw(st.integers(0, 2)),
        selector=draw(st.sampled_from([None, None, {"pool": "x"}])),
        tolerations=draw(st.sampled_from([(), TOLERANT])),
        ports=draw(st.sampled_from([(), (), (), (80,)])) if ports else (),
    )


@st.composite
def books(draw, **how):
    own = draw(nodes(**how))
    used = {
        node.name: dict(some_amounts(cpu=draw(st.integers(0, 3)), gpu=draw(st.integers(0, 2))))
        for node in own
    }
    return Books(own, used)


def picture(ledger: Books):
    used = {
        name: tuple((k, v) for k, v in own.items() if k in _axis(ledger)) for name, own in ledger.used.items()
    }
    return a_snapshot(ledger.nodes, used=used)


def _axis(ledger: Books) -> set[str]:
    return {"cpu", "memory", "ephemeral-storage", "pods"} | {k for n in ledger.nodes for k, _ in n.capacity}


STRATEGIES = st.sampled_from(list(Strategy))
LEVELS = st.sampled_from(["host", "rack", "area"])
COARSER = {"host": ["rack", "area"], "rack": ["area"], "area": []}


@st.composite
def gangs(draw, *, most_roles: int = 2, surplus: bool = True, ports: bool = True):
    roles = [
        a_role(
            f"role{number}",
            draw(st.integers(0, 5)),
            surplus=draw(st.integers(0, 3)) if surplus else 0,
            demand=draw(demands(ports=ports)),
        )
        for number in range(draw(st.integers(1, most_roles)))
    ]
    return a_gang(
        roles=roles,
        strategy=draw(STRATEGIES),
        level=draw(LEVELS),
        required=draw(st.booleans()),
        barred=draw(st.sampled_from([(), (), ("n0",)])),
        anchors=draw(st.sampled_from([(), (), (), ("n1",), ("n0", "n2", "n2", "gone")])),
    )


def quorum_of(gang) -> set[str]:
    return {uid for role in gang.roles for uid in role.quorum}


@given(books(), gangs(), st.data())
def test_books_are_in_order(ledger, gang, data):
    """Whatever is asked, seats are allowed, paid for once, and the quorum sits whole or not at all."""
    snapshot = picture(ledger)
    uids = [uid for role in gang.roles for uid in role.quorum + role.surplus]
    names = [node.name for node in ledger.nodes]
    allowed = {
        uid: frozenset(data.draw(st.sets(st.sampled_from(names))))
        for uid in (data.draw(st.sets(st.sampled_from(uids))) if uids else ())
    }
    masks = {uid: a_mask(snapshot, *names) for uid, names in allowed.items()}
    decision = planner.decide(snapshot, gang, POLICY, masks)

    if isinstance(decision, Place):
        ledger.audit(gang, decision, allowed)
        for spanned, fewest_possible in decision.quality.spans.values():
            assert 1 <= fewest_possible <= spanned
        assert 0 <= decision.quality.alignment <= 1
    elif isinstance(decision, Wait):
        assert decision.shortfall.needed > decision.shortfall.best
        assert sum(decision.shortfall.blocked.values()) <= len(names)


@pytest.mark.slow
@given(books(), gangs())
def test_places_of_an_empty_cluster_are_counted_where_counting_tells(ledger, gang):
    """Whether waiting is futile does not depend on it: the answer is the same if the seats are searched for."""
    snapshot = picture(ledger)
    counted = planner.decide(snapshot, gang, POLICY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "_places", lambda *_: None)
        assert planner.decide(snapshot, gang, POLICY) == counted


@given(books(), gangs())
def test_same_question_same_answer(ledger, gang):
    """Equal input gives equal output, with and without remembered masks."""
    masks = FeasibilityCache()
    first = planner.decide(picture(ledger), gang, POLICY, masks=masks)

    assert planner.decide(picture(ledger), gang, POLICY, masks=masks) == first
    assert planner.decide(picture(ledger), gang, POLICY) == first


@pytest.mark.slow
@given(books(), st.lists(gangs(), min_size=2, max_size=6))
def test_what_is_remembered_of_one_gang_is_true_of_another(ledger, asked):
    """One memory for many gangs, alike and different: each gets the answer that it would get alone."""
    masks = FeasibilityCache()
    for gang in [*asked, *(replace(gang, required=not gang.required) for gang in asked)]:
        alone = planner.decide(picture(ledger), gang, POLICY)
        assert planner.decide(picture(ledger), gang, POLICY, masks=masks) == alone


@pytest.mark.slow
@given(books(), gangs())
def test_required_is_one_domain(ledger, gang):
    """A gang that requires a level, but for spread, lies in one domain of it with its anchors, surplus included."""
    gang = replace(gang, required=True)
    assume(gang.strategy is not Strategy.SPREAD)
    decision = decide(picture(ledger), gang)
    assume(isinstance(decision, Place))
    known = {node.name: node for node in ledger.nodes}
    anchors = {domain(known[name], gang.level) for name in gang.anchors if name in known} - {None}
    sat = {domain(known[name], gang.level) for name in decision.seats.values()}

    assert None not in sat
    assert not anchors or sat <= anchors
    if gang.quorum:
        assert len(sat) == 1


@given(books(), gangs(most_roles=1))
def test_seated_whenever_possible(ledger, gang):
    """Of one demand: seated exactly when one domain (required) or the cluster (preferred) has room for the quorum."""
    gang = replace(gang, anchors=())
    assume(gang.quorum and not (gang.strategy is Strategy.SPREAD and gang.required))
    rooms = ledger.holds(gang, gang.roles[0].demand)
    most = (
        max(ledger.by_domain(rooms, gang.level).values(), default=0) if gang.required else sum(rooms.values())
    )
    decision = decide(picture(ledger), gang)

    if isinstance(decision, Refuse):
        assert all(domain(node, gang.level) is None for node in ledger.nodes)
    else:
        assert isinstance(decision, Place) == (most >= gang.quorum)
    if isinstance(decision, Wait):
        assert decision.shortfall.best == (
            most if decision.reason != Reason.EXCEEDS_CLUSTER else decision.shortfall.best
        )


@pytest.mark.slow
@given(books(), gangs(most_roles=1))
def test_never_fits_is_the_empty_cluster(ledger, gang):
    """ExceedsCluster is said exactly when the quorum does not fit the cluster without pods, cordons and bars."""
    gang = replace(gang, anchors=())
    assume(gang.quorum and not (gang.strategy is Strategy.SPREAD and gang.required))
    decision = decide(picture(ledger), gang)
    assume(isinstance(decision, Wait) and decision.reason != Reason.NO_MATCHING_NODES)
    rooms = ledger.holds(gang, gang.roles[0].demand, empty=True)
    most = (
        max(ledger.by_domain(rooms, gang.level).values(), default=0) if gang.required else sum(rooms.values())
    )

    assert (decision.reason == Reason.EXCEEDS_CLUSTER) == (most < gang.quorum)
    if decision.reason == Reason.EXCEEDS_CLUSTER:
        assert decision.shortfall.best == most


@given(books(labelled=True), demands(), st.integers(1, 9), LEVELS)
def test_spread_is_as_even_as_it_can_be(ledger, demand, members, level):
    """Required: seated exactly when an even sharing exists. Preferred: as even as taking turns would make it."""
    gang = a_gang(roles=[a_role("", members, demand=demand)], strategy="spread", level=level)
    snapshot = picture(ledger)
    rooms = ledger.by_domain(ledger.holds(gang, demand), level)
    large_enough = ledger.by_domain(
        {
            n.name: room(ledger.free(n, empty=True), demand)
            for n in ledger.nodes
            if n.name in ledger.holds(gang, demand)
        },
        level,
    )
    caps = [rooms[path] for path, most in large_enough.items() if most]

    free = decide(snapshot, gang)
    assert isinstance(free, Place) == (sum(caps) >= members)
    if isinstance(free, Place):
        shares = sorted(ledger.shares(free, level, quorum_of(gang)).values())
        assert [0] * (len(caps) - len(shares)) + shares == one_by_one(caps, members)

    strict = decide(snapshot, replace(gang, required=True))
    assert isinstance(strict, Place) == (bool(caps) and even_shares_exist(caps, members))
    if isinstance(strict, Place):
        shares = sorted(ledger.shares(strict, level, quorum_of(gang)).values())
        assert max(shares) - (min(shares) if len(shares) == len(caps) else 0) <= 1


@pytest.mark.slow
@given(books(labelled=True), demands(), st.integers(1, 9), LEVELS)
def test_pack_is_as_close_as_it_can_be(ledger, demand, members, level):
    """One host where one holds all; one domain where one does; else the fewest of the area or the cluster."""
    gang = a_gang(roles=[a_role("", members, demand=demand)], level=level)
    decision = decide(picture(ledger), gang)
    assume(isinstance(decision, Place))
    rooms = ledger.holds(gang, demand)
    shares = ledger.shares(decision, level, quorum_of(gang))
    hosts = len(set(decision.seats.values()))
    domains = ledger.by_domain(rooms, level)

    if max(rooms.values()) >= members:
        assert hosts == 1
    elif max(domains.values()) >= members:
        (path,) = shares
        assert domains[path] == min(most for most in domains.values() if most >= members)
        assert hosts == fewest(
            [r for n, r in rooms.items() if domain(ledger.node(n), level) == path], members
        )
    else:
        groups = [ledger.within(domains, level, coarser) for coarser in COARSER[level]]
        holding = next(
            (within for within in groups if max(sum(own.values()) for own in within) >= members), [domains]
        )
        enough = [own for own in holding if sum(own.values()) >= members]
        assert len(shares) == min(fewest(list(own.values()), members) for own in enough)
        assert any(shares.keys() <= own.keys() for own in enough)


@pytest.mark.slow
@given(
    books(labelled=True), demands(), st.integers(0, 4), st.integers(1, 5), st.sampled_from(["pack", "cosine"])
)
def test_surplus_takes_all_the_room_there_is(ledger, demand, members, surplus, strategy):
    """Preferred: surplus stays unseated only when the cluster is full."""
    gang = a_gang(roles=[a_role("", members, surplus=surplus, demand=demand)], strategy=strategy)
    decision = decide(picture(ledger), gang)
    assume(isinstance(decision, Place))
    most = sum(ledger.holds(gang, demand).values())

    assert len(decision.seats) == min(most, members + surplus)


@pytest.mark.slow
@given(books(most=4), gangs(surplus=False, ports=False))
def test_waiting_roles_are_rare(ledger, gang):
    """Of several demands: what is seated could be seated, and what could be in one order is not missed there."""
    gang = replace(gang, anchors=(), strategy=Strategy.PACK)
    assume(0 < gang.quorum <= 5)
    decision = decide(picture(ledger), gang)

    if isinstance(decision, Place):
        assert seats_exist(ledger, gang, gang.roles)
    for role in gang.roles:
        alone = decide(picture(ledger), replace(gang, roles=(role,)))
        assert not isinstance(decision, Place) or isinstance(alone, Place)


@given(books(), demands(), STRATEGIES, LEVELS, st.booleans(), st.data())
def test_rank_and_decide_agree(ledger, demand, strategy, level, required, data):
    """The node with score 1 is the one that decide gives to a gang of one, and every candidate that fits is ranked."""
    snapshot = picture(ledger)
    gang = a_gang(roles=[a_role("", 1, demand=demand)], strategy=strategy, level=level, required=required)
    candidates = a_mask(snapshot, *data.draw(st.sets(st.sampled_from(snapshot.names))))
    mask, scores = planner.rank(snapshot, gang, POLICY, candidates)
    decision = planner.decide(snapshot, gang, POLICY, dict.fromkeys(gang.roles[0].quorum, candidates))

    held = ledger.holds(gang, demand)
    for row, node in enumerate(ledger.nodes):
        inside = not required or domain(node, level) is not None
        assert mask[row] == (bool(candidates[row]) and inside and bool(held.get(node.name)))
    assert ((scores >= 0) & (scores <= 1)).all()
    assert not scores[~mask].any()
    if isinstance(decision, Place):
        (node,) = decision.seats.values()
        assert scores[snapshot.index[node]] == 1
        assert np.count_nonzero(scores == 1) == 1
    else:
        assert not mask.any() or (strategy is Strategy.SPREAD and required) or isinstance(decision, Refuse)
