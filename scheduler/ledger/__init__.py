"""The memory of the scheduler: what is bound, held and waiting, and the lifecycle of every gang.

Lives here: state that outlasts a call. Facts change it through `Ledger.take(events, now)` only, and
`Ledger.settle(now)` returns the resulting effects. The engine also records its verdicts, by calls.
Never here: I/O, a clock (`now` is an argument), the choice of a node (placement).
Imports model only; the engine calls it.

Every rule is level-triggered. After any event, each affected gang is examined as a whole, and its desired state is
compared with its actual state. If only its verdict changed, only its messages are updated. So a lost, duplicate or late
event costs time, but never correctness.
"""

from scheduler.ledger.ledger import Ledger

__all__ = ["Ledger"]
