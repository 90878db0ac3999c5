"""The memory: what is bound, held and waiting, and the life of every gang.

Lives here: state that outlasts a call. Facts change it through `Ledger.take(events, now)` alone, and `Ledger.settle(now)`
gives the effects that the change calls for. The engine also notes its verdicts, by calls.
Never here: I/O, a clock (`now` is an argument), the choice of a node (that is placement's).
Imports model only; the engine calls it.

Every rule is level-triggered: after any event the gangs it touched are looked at whole, and what should be
true of them is compared with what is; people are told of a gang of which only the verdict is another. A lost, doubled
or late event therefore costs time, never truth.
"""

from scheduler.ledger.ledger import Ledger

__all__ = ["Ledger"]
