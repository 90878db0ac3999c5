"""The settings that the core uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.cluster import DEFAULT_LEVELS, Level
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.workload import Pin, Strategy


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings as the core sees them. `scheduler.settings` reads and documents them. Times are seconds."""

    scheduler_names: frozenset[str] = frozenset({"gangwright"})
    levels: tuple[Level, ...] = DEFAULT_LEVELS
    strategy: Strategy = Strategy.PACK
    level: str = "rack"
    required: bool = False
    pin: Pin = Pin.AUTO
    timeout: float = 120.0
    """From the first ungating PATCH until the quorum must be bound."""
    start_timeout: float = 600.0
    """From the bind until the member must run."""
    backoff: float = 5.0
    """Delay before a gang that timed out is retried. Doubles each time."""
    backoff_limit: float = 300.0
    score_hold: float = 5.0
    """How long the best-scored node is held for a pod after Prioritize."""
    pin_grace: float = 5.0
    """A pin is broken after PodScheduled=False for this long if the cache shows too few free resources as well."""
    pin_limit: float = 20.0
    """A pin is broken after PodScheduled=False for this long, whatever the cache shows."""
    barred: float = 300.0
    """How long a node is excluded for a gang after a pin broke there or its kubelet rejected a pod. Doubles each time.
    """
    broken_pins_until_soft: int = 2
    evictions_per_gang: int = 8
    """Concurrent evictions of one gang's broken pins. The rest wait for the next second."""
    outcome_limit: float = 30.0
    """An effect without an outcome for this long is repeated: every effect is idempotent."""
    announce_every: float = 10.0
    """At most one event per gang and reason in this many seconds."""
    largest_gang: int = 4096
    """Members; larger gangs are rejected. A plan of this size, compressed, takes about two thirds of the API's 256 KiB.
    """

    order: Order = Order.FIFO
    """The order of gangs of one priority."""
    backfill: Backfill = Backfill.RESERVE
    """What may start ahead of a gang that waits for free capacity."""
    age_limit: float = 259_200.0
    """A gang that waited this long ranks ahead of all younger ones of its priority, whatever the order."""
    age_factor: float = 10.0
    """With the order `shortest`, it must also have waited for this many times its expected runtime."""
    las_quantum: float = 1_800.0
    """Device-seconds of the first band of service. The second band is twice as wide, the last is unbounded. Also the
    shortest turn, in seconds, before another gang of its priority may take a gang's place."""
    default_runtime: float = 3_600.0
    """Expected runtime of a gang that declares none and resembles no finished gang."""
    shares: Mapping[str, Share] = field(default_factory=dict, hash=False)
    """By namespace."""
    reclaim: Reclaim = Reclaim.ANY
    preemption: bool = True
    """Whether gangs of higher priority may preempt."""
    evictions_per_namespace: int = 64
    """Victims of one namespace that may terminate at the same time."""
    preemption_cooldown: float = 60.0
    """After preempting for a gang, the delay before more pods are preempted for the same gang."""
