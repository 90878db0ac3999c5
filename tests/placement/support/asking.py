"""How the tests ask the planner, and how they read its answers."""

from collections import Counter

from scheduler.model.cluster import NOWHERE, Snapshot
from scheduler.model.decision import Decision, Place, Shortfall, Wait
from scheduler.model.policy import Policy
from scheduler.model.workload import Gang
from scheduler.placement import planner

POLICY = Policy()


def decide(snapshot: Snapshot, gang: Gang, allowed=None) -> Decision:
    return planner.decide(snapshot, gang, POLICY, allowed)


def place(snapshot: Snapshot, gang: Gang, allowed=None) -> Place:
    """The placement; anything else fails the test."""
    decision = decide(snapshot, gang, allowed)
    assert isinstance(decision, Place), decision
    return decision


def wait(snapshot: Snapshot, gang: Gang, allowed=None) -> tuple[str, Shortfall]:
    """The reason and the numbers of a Wait; anything else fails the test."""
    decision = decide(snapshot, gang, allowed)
    assert isinstance(decision, Wait), decision
    assert decision.shortfall is not None
    return decision.reason, decision.shortfall


def per_node(decision: Place) -> dict[str, int]:
    return dict(Counter(decision.seats.values()))


def per_domain(snapshot: Snapshot, decision: Place, level: str) -> dict[str, int]:
    """Members by domain path; "" for nodes in none."""
    column = snapshot.topology.level(level)
    codes = [int(snapshot.topology.coords[snapshot.index[node], column]) for node in decision.seats.values()]
    names = snapshot.topology.domains[column]
    return dict(Counter("" if code == NOWHERE else names[code] for code in codes))
