"""What each gang of a soak is and what becomes of it, by its number alone. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Fate(StrEnum):
    """What becomes of a gang."""

    ENDS = "ends"
    FAILS = "fails"
    HALF = "half"
    """Half of it is made, and then it is taken back."""
    NEVER = "never"
    """It fits no node."""
    BROKEN = "broken"
    """Another scheduler takes its room once it is let go."""
    URGENT = "urgent"
    """It is of higher priority than all others."""
    SUSPENDS = "suspends"
    """A Job that is suspended where it has to give way."""
    GROUPED = "grouped"
    """Its quorum stands on a group object."""
    SIDE = "side"
    """It comes without our gate."""


SHARES: Final = {
    Fate.ENDS: 40,
    Fate.FAILS: 10,
    Fate.HALF: 10,
    Fate.NEVER: 5,
    Fate.BROKEN: 10,
    Fate.URGENT: 5,
    Fate.SUSPENDS: 5,
    Fate.GROUPED: 5,
    Fate.SIDE: 10,
}
"""Of a hundred gangs."""

SIZES: Final = (1, 1, 1, 2, 2, 3, 4, 4, 8, 16)
TEAMS: Final = 8
COMES_AGAIN: Final = 4
"""Every so many gangs have the name of the one of their kind that came before: its owner made it again."""

LONE: Final = 20
"""Every so many gangs have a namespace that none had before."""


@dataclass(frozen=True)
class Draft:
    """A gang, before it is made. Seconds are of the soak's own clock."""

    number: int
    name: str
    namespace: str
    fate: Fate
    size: int
    runs: float
    declared: float | None
    owner: str
    """Kind of the controller; empty: none."""


def draft(number: int, seed: int) -> Draft:
    """The gang of this number."""
    chance = Random(f"{seed}/{number}")
    fate = chance.choices(list(SHARES), list(SHARES.values()))[0]
    size = 1 if fate is Fate.SIDE and chance.random() < 0.7 else chance.choice(SIZES)
    if fate in {Fate.HALF, Fate.SUSPENDS, Fate.GROUPED}:
        size = max(2, size)
    lone = number % LONE == 0
    again = chance.randrange(COMES_AGAIN) == 0 and not lone
    namespace = f"ci-{number}" if lone else f"team-{number % TEAMS}"
    kind = {Fate.BROKEN: "ReplicaSet", Fate.SUSPENDS: "Job", Fate.NEVER: ""}.get(
        fate, chance.choice(["", "Job", "ReplicaSet"])
    )
    runs = float(chance.choice([2, 3, 5, 8]))
    declared = chance.choice([None, runs, 2 * runs])
    name = f"again-{fate}-{number % TEAMS}" if again else f"{fate}-{number}"
    return Draft(number, name, namespace, fate, size, runs, declared, kind)
