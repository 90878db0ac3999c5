"""The settings of scheduling: cluster, placement, life of a gang, and queue.

Lives here: one dataclass per section. `Settings.policy` passes all of them to the core. Never here: a use of any of
them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import yaml

from scheduler.model import names
from scheduler.model.cluster import Level
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.resources import Amounts
from scheduler.model.workload import Pin, Strategy
from scheduler.settings import kinds

_CORE: Final = Policy()

_level_name = kinds.text(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", "must be a short word of lowercase letters")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which pods Gangwright schedules, and the topology of the nodes."""

    scheduler_names: Annotated[tuple[str, ...], kinds.many(kinds.dns_name, least=1)] = ("gangwright",)
    """Values of `spec.schedulerName` that Gangwright handles: the profiles of its kube-scheduler. Pods of other
    schedulers are not touched. If you change them, also change kube-scheduler.yaml and the gate policy, and the first
    name in the trust policy of the elastic master. Defaults to gangwright."""

    levels: Annotated[
        tuple[Level, ...],
        kinds.many(kinds.record(Level, name=_level_name, label=kinds.label_key), least=1, most=8),
    ] = _CORE.levels
    """Topology levels, finest first: the name that gangs use, and the key of the node label. A node without the label
    is in no domain of that level. Defaults to host, rack and area. Common clusters label hosts and zones, but no
    standard label exists for racks, so Gangwright defines that key."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a gang is placed if it does not specify it."""

    strategy: Annotated[Strategy, kinds.word(Strategy)] = _CORE.strategy
    """Strategy of gangs that specify none. `pack` uses few domains and few hosts. `spread` distributes members evenly
    over domains. `cosine` packs, and inside a domain prefers the node whose free resources are proportioned like the
    demand, of a product with many free devices. Defaults to pack because collectives are fastest on few hosts."""

    level: Annotated[str, _level_name] = _CORE.level
    """Level that the strategy applies to. Must be one of `cluster.levels`. Defaults to rack because bandwidth usually
    drops between racks."""

    required: Annotated[bool, kinds.flag] = _CORE.required
    """Whether a gang waits if it would need more domains than requested. Defaults to false because a gang that spans
    two racks is slower, while a gang that waits does no work."""


@dataclass(frozen=True, slots=True)
class Gangs:
    """The life of a gang between its plan and its start."""

    pin: Annotated[Pin, kinds.word(Pin)] = _CORE.pin
    """How a member is tied to its assigned node. `hard` uses node affinity, `soft` uses nomination. `auto` pins hard
    only pods that are recreated at no cost. Defaults to auto because a broken hard pin ends in an eviction."""

    timeout: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.timeout
    """Seconds from the first ungated member until the quorum must be bound. After that the gang times out. Defaults to
    2 minutes: a planned gang binds within seconds, and the rest covers a change of leader or a slow API server."""

    start_timeout: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.start_timeout
    """Seconds from the bind of a member until it must run. After that the reason is reported on the gang, and the
    member is evicted if it is recreated at no cost. It happens once more after twice this time. Defaults to 10 minutes,
    which is enough to pull an image of 20 GB."""

    backoff: Annotated[float, kinds.seconds(0.1, kinds.DAY)] = _CORE.backoff
    """Seconds before a gang that timed out is tried again. Doubles each time. Defaults to 5 seconds."""

    backoff_limit: Annotated[float, kinds.seconds(0.1, kinds.DAY)] = _CORE.backoff_limit
    """Longest back-off in seconds. Defaults to 5 minutes: other gangs get their turn, and this one is still retried."""

    score_hold: Annotated[float, kinds.seconds(0.1, 600)] = _CORE.score_hold
    """Seconds for which the best-scored node is reserved for a single pod without Gangwright's gate. Defaults to 5
    seconds because a bind takes milliseconds."""

    pin_grace: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.pin_grace
    """Seconds for which kube-scheduler rejects a pinned pod before the pin counts as broken, if Gangwright's cache
    shows no free capacity either. Also the time for which kube-scheduler may reject a member by a rule that the planner
    does not model, before the gang releases its nodes. Defaults to 5 seconds: with less, a cache that is about to catch
    up would break pins."""

    pin_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.pin_limit
    """Seconds for which kube-scheduler rejects a pinned pod before the pin counts as broken, whatever Gangwright's
    cache shows. Defaults to 20 seconds: several times kube-scheduler's back-off (3 s at most), and short enough that
    the gang gets another node within half a minute."""

    barred: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.barred
    """Seconds for which a node is excluded for a gang after a pin broke there or its kubelet rejected a pod. Doubles
    each time. Defaults to 5 minutes."""

    broken_pins_until_soft: Annotated[int, kinds.whole(1, 1000)] = _CORE.broken_pins_until_soft
    """Number of broken pins after which a gang is only nominated. Defaults to 2: by then something that Gangwright does
    not see limits the gang's nodes."""

    evictions_per_gang: Annotated[int, kinds.whole(1, 1000)] = _CORE.evictions_per_gang
    """Largest number of pods with broken pins that are evicted at a time per gang. The rest follow second by second.
    Defaults to 8."""

    outcome_limit: Annotated[float, kinds.seconds(1, 3600)] = _CORE.outcome_limit
    """Seconds after which a write without an outcome is repeated. Defaults to 30 seconds. Every write of Gangwright can
    be repeated safely."""

    announce_every: Annotated[float, kinds.seconds(1, 3600)] = _CORE.announce_every
    """Shortest time in seconds between two events of one gang with the same reason. Defaults to 10 seconds."""

    largest_gang: Annotated[int, kinds.whole(1, 4096)] = _CORE.largest_gang
    """Largest number of members of a gang. A larger gang is rejected. Defaults to 4096: the compressed plan of so many
    members takes about two thirds of the 256 KiB that the API server allows for all annotations of the first member."""


def _amounts(node: yaml.Node) -> Amounts:
    """Quantities by resource, for example {nvidia.com/gpu: 16, cpu: "200", memory: 1Ti}."""
    said = "must be a quantity of {}, for example 16, 500m or 64Gi"
    found = {name: kinds.quantity(name, said.format(name))(child) for name, child in kinds.entries(node)}
    return tuple(sorted(found.items()))


_share = kinds.record(
    Share, needed=False, guaranteed=_amounts, ceiling=_amounts, weight=kinds.number(0.001, 1e6)
)


def _shares(node: yaml.Node) -> Mapping[str, Share]:
    """The shares by namespace."""
    found = {}
    for namespace, child in kinds.entries(node):
        if not re.fullmatch(names.NAMESPACE, namespace):
            remedy = "must be the name of a namespace: lowercase letters, digits and '-'"
            raise kinds.Wrong(child, f"{namespace!r} {remedy}")
        share: Share = _share(child)
        ceiling = dict(share.ceiling)
        for resource, value in share.guaranteed:
            if value > ceiling.get(resource, value):
                remedy = f"the ceiling of {resource} must not be below its guaranteed amount"
                raise kinds.Wrong(child, remedy)
        found[namespace] = share
    return found


@dataclass(frozen=True, slots=True)
class Queue:
    """The order of waiting gangs, backfill, preemption and shares."""

    order: Annotated[Order, kinds.word(Order)] = _CORE.order
    """Order of gangs with the same priority. `fifo` follows arrival. `las` puts the least attained service first and
    needs no estimates. `shortest` puts the shortest expected runtime first. `fair` puts the namespace first that uses
    the least of its share. `fit` puts the gang first that uses most of what is free. Defaults to fifo."""

    backfill: Annotated[Backfill, kinds.word(Backfill)] = _CORE.backfill
    """Which gangs may start while the first one waits for resources. `reserve` lets others start if they do not delay
    it. `free` lets all others start, so large gangs may wait without end. `none` keeps the order strictly. Defaults to
    reserve."""

    age_limit: Annotated[float, kinds.seconds(1, 365 * kinds.DAY)] = _CORE.age_limit
    """Wait in seconds after which a gang moves ahead of newer gangs with the same priority, in any order. It prevents
    starvation. Defaults to 3 days: if waits are usually longer than the limit, every order becomes that of arrival."""

    age_factor: Annotated[float, kinds.number(0, 1e6)] = _CORE.age_factor
    """Multiple of its expected runtime that a gang must also have waited before `queue.ageLimit` applies, with the
    order `shortest` (bounded slowdown). Defaults to 10, so a one-hour gang is not delayed by a one-week gang that has
    waited for a few days. With 0 only the limit counts."""

    las_quantum: Annotated[float, kinds.seconds(1, 365 * kinds.DAY)] = _CORE.las_quantum
    """Device time in seconds of the first band of `las`. The second band is twice as wide, and the third has no end.
    Also the shortest turn of a gang that is preempted by suspension. Defaults to 30 minutes because, on real traces, it
    gave the shortest waits of large gangs at the same mean."""

    default_runtime: Annotated[float, kinds.seconds(1, 365 * kinds.DAY)] = _CORE.default_runtime
    """Assumed runtime, in seconds, of a gang with no declared or learned runtime. Defaults to 1 hour."""

    preemption: Annotated[bool, kinds.flag] = _CORE.preemption
    """Whether a gang may preempt pods of lower priority. A gang is never preempted partly below its quorum. Defaults to
    true."""

    reclaim: Annotated[Reclaim, kinds.word(Reclaim)] = _CORE.reclaim
    """Borrowers from which a namespace reclaims its guaranteed resources: `any`, or those of `lower-priority`. Defaults
    to any."""

    evictions_per_namespace: Annotated[int, kinds.whole(1, 100_000)] = _CORE.evictions_per_namespace
    """Largest number of victims of one namespace that terminate at a time. Defaults to 64, so that a namespace does not
    lose all its jobs at once."""

    preemption_cooldown: Annotated[float, kinds.seconds(0, kinds.DAY)] = _CORE.preemption_cooldown
    """Seconds between two preemptions for the same gang. Defaults to 1 minute."""

    shares: Annotated[Mapping[str, Share], _shares] = field(default_factory=dict)
    """Shares by namespace. `guaranteed` amounts are lent while idle and reclaimed when needed. A `ceiling` is never
    exceeded. `weight` counts in the order `fair`. Reloaded when the file changes. Empty by default: no namespace has a
    guarantee or a limit."""
