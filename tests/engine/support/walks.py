"""Long walks through all that may happen: what a state machine's short stories do not reach."""

from collections.abc import Callable
from random import Random

from scheduler.model.effects import Effect
from tests.engine.support.machine import Gangs
from tests.engine.support.wishes import GOINGS, MISHAPS, OUTCOMES, SPANS, a_wish, some_rules

ACTS: dict[str, tuple[int, Callable[[Random], dict[str, object]]]] = {
    "submit": (4, lambda r: {"one": a_wish(r)}),
    "pods_go": (3, lambda r: {"what": r.choice(GOINGS), "which": r.randrange(16)}),
    "resume": (1, lambda r: {"which": r.randrange(8)}),
    "machines": (3, lambda r: {"what": r.choice(MISHAPS), "which": r.randrange(8), "gpu": r.randint(1, 2)}),
    "watch": (
        10,
        lambda r: {
            "count": r.choice([1, 2, 4, 20, 20]),
            "coalesced": r.random() < 0.3,
            "look": r.random() < 0.6,
        },
    ),
    "plan": (4, lambda r: {"look": r.random() < 0.7}),
    "carry_out": (
        10,
        lambda r: {
            "which": r.randrange(8),
            "outcome": r.choice(OUTCOMES),
            "times": r.choice([1, 1, 2]),
            "count": r.randint(1, 6),
        },
    ),
    "report": (10, lambda r: {"count": r.choice([1, 2, 20]), "look": r.random() < 0.6}),
    "think": (8, lambda _: {}),
    "crash": (1, lambda r: {"really": r.random() < 0.5, "under_way": r.randrange(4)}),
    "time_goes_by": (6, lambda r: {"seconds": r.choice(SPANS)}),
    "everything": (3, lambda r: {"rounds": r.randint(1, 2)}),
    "cluster": (4, lambda r: {"controllers": r.random() < 0.7}),
    "cycle": (10, lambda r: {"which": r.randrange(8), "count": r.randint(1, 4)}),
    "bind": (8, lambda r: {"well": r.random() < 0.85, "count": r.randint(1, 4)}),
    "ask_twice": (3, lambda r: {"which": r.randrange(8), "alone": r.random() < 0.3}),
    "ask_late": (2, lambda r: {"which": r.randrange(32)}),
    "ask_for_a_stranger": (1, lambda r: {"some": r.randrange(16), "native": r.random() < 0.5}),
}
"""What happens, how often, and with which arguments."""


def walk(seed: int, steps: int) -> Gangs:
    """One long story: much the same as hypothesis tells, but likelier to go far."""
    chance = Random(seed)
    gangs = Gangs()
    gangs.begin(
        gpus=[chance.randint(1, 4) for _ in range(chance.randint(2, 5))],
        two=chance.randrange(8),
        first=[a_wish(chance), a_wish(chance)],
        laid=some_rules(chance),
    )
    names, weights = list(ACTS), [weight for weight, _ in ACTS.values()]
    for name in chance.choices(names, weights, k=steps):
        if name == "ask_late" and not gangs.world.calls:
            continue
        getattr(gangs, name)(**ACTS[name][1](chance))
        gangs.check()
    gangs.teardown()
    return gangs


def told_by_a_walk(seed: int, steps: int) -> list[Effect]:
    """Everything that the engine ever asked for, in order."""
    return walk(seed, steps).world.said
