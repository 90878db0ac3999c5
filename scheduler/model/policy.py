"""The settings that the core decides by."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.cluster import DEFAULT_LEVELS, Level
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.workload import Pin, Strategy


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings as the core sees them; `scheduler.settings` reads and explains them. Times are seconds."""

    scheduler_names: frozenset[str] = frozenset({"gangwright"})
    levels: tuple[Level, ...] = DEFAULT_LEVELS
    strategy: Strategy = Strategy.PACK
    level: str = "rack"
    required: bool = False
    pin: Pin = Pin.AUTO
    timeout: float = 120.0
    """From the first ungating PATCH until the quorum must be bound."""
    start_timeout: float = 600.0
    """From its bind until a member must run."""
    backoff: float = 5.0
    """Before a gang that timed out is tried again; doubles each time."""
    backoff_limit: float = 300.0
    score_hold: float = 5.0
    """How long the best-scored node is kept for a pod that Prioritize was asked about."""
    pin_grace: float = 5.0
    """PodScheduled=False for so long, and no room in our own picture: the pin is broken."""
    pin_limit: float = 20.0
    """PodScheduled=False for so long: the pin is broken, whatever our picture says."""
    barred: float = 300.0
    """A node where a pin broke, or whose kubelet refused a pod, is not given to that gang for so long; doubles each time."""
    broken_pins_until_soft: int = 2
    evictions_per_gang: int = 8
    """Broken pins of one gang that may be evicted at a time; the rest wait for the next second."""
    outcome_limit: float = 30.0
    """An effect without an outcome for so long is done again: every effect is idempotent."""
    announce_every: float = 10.0
    """At most one event a gang and reason in so many seconds."""
    largest_gang: int = 4096
    """Members; more are refused. The plan of so many, deflated, takes some two thirds of the API's 256 KiB."""

    order: Order = Order.FIFO
    """Who goes first among gangs of one priority."""
    backfill: Backfill = Backfill.RESERVE
    """What may start past a gang that waits for room."""
    age_limit: float = 259_200.0
    """A gang that has waited for so long goes before all younger ones of its priority, whatever the order."""
    age_factor: float = 10.0
    """With the order `shortest` only if it has also waited for so many times the runtime that is expected of it."""
    las_quantum: float = 1_800.0
    """Device-seconds of the first band of service; the second is twice as wide, the last has no end. Also the shortest
    turn, in seconds, that a gang has before another of its priority may take its place."""
    default_runtime: float = 3_600.0
    """How long a gang is taken to run that says nothing and of whose kind none has ended yet."""
    shares: Mapping[str, Share] = field(default_factory=dict, hash=False)
    """By namespace."""
    reclaim: Reclaim = Reclaim.ANY
    preemption: bool = True
    """Whether room is made for a gang of higher priority."""
    evictions_per_namespace: int = 64
    """Victims of one namespace that may be on their way out at a time."""
    preemption_cooldown: float = 60.0
    """After a gang's victims were asked to leave, before any more are asked to for the same gang."""
