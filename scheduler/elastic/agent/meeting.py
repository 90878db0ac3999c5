"""What is done for a child that meets its peers, inside of Horovod's `init`, where nobody can speak to it.

Lives here: what the agent does from outside while its child waits for others: end a wait for one that has died, and tell
a master that has lost it what the child had laid down for them. Each takes a thread of its own, for an address may not
answer. Never here: how a knock is made (`knocking`), what a value is (`store`), what comes after (`agent`).
"""

from __future__ import annotations

from typing import Sequence

from .backoff import Say
from .errands import Errands
from .incarnation import Incarnation
from .knocking import Place, knock
from .store import Store


class Meeting:
    """Safe from any thread."""

    def __init__(self, store: Store, errands: Errands, say: Say) -> None:
        self._store, self._errands, self._say = store, errands, say

    def heard_broken(self, child: Incarnation, number: int) -> None:
        """A member of round `number` has ended before all had met; 0: of none. To be told with every beat, until it is
        over: of its two meshes the child may only begin the second one.
        """
        doors = child.awaits(number)
        if doors:
            self._errands.run("knock", lambda: self._knock(number, doors))

    def master_is_back(self, child: Incarnation) -> None:
        """The master answers again, and may be another one."""
        if child.laid()[1]:
            self._errands.run("lay", lambda: self._store.lay_again(child))

    def _knock(self, number: int, doors: Sequence[Place]) -> None:
        opened = knock(doors)
        if opened:
            self._say(
                f"round {number}: a member has ended before all had met; {opened} waits for peers ended"
            )
