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
from .master import Answer
from .store import Store


class Meeting:
    """Safe from any thread."""

    def __init__(self, store: Store, errands: Errands, say: Say) -> None:
        self._store, self._errands, self._say = store, errands, say

    def heard(self, child: Incarnation, process: int, answer: Answer) -> None:
        """A beat of this process of the child's was answered. Of a broken round a member has ended before all had met.
        That is told with every beat, until it is over: of its two meshes the child may only begin the second one.
        """
        if process == child.number:
            child.expects(answer.place)
        number = answer.broken
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
