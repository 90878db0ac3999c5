"""What the scheduler decides by: the cluster, where gangs go, how they live, and who goes first.

Lives here: one dataclass a section; `Settings.policy` hands all of it to the core. Never here: a use of any of them.
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

_level_name = kinds.text(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", "must be a short word of lower-case letters")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is ours in the cluster, and how its nodes lie."""

    scheduler_names: Annotated[tuple[str, ...], kinds.many(kinds.dns_name, least=1)] = ("gangwright",)
    """`spec.schedulerName` of the pods that are ours; the profiles of the kube-scheduler beside us. Pods of any
    other name are passed through untouched. Change them in kube-scheduler.yaml and in the gate policy
    as well, the first one in the trust policy of the elastic master.
    """

    levels: Annotated[
        tuple[Level, ...],
        kinds.many(kinds.record(Level, name=_level_name, label=kinds.label_key), least=1, most=8),
    ] = _CORE.levels
    """The levels of the cluster, finest first: the word that gangs use, and the node label that carries it.
    `kubernetes.io/hostname` and `topology.kubernetes.io/zone` are on every node of common clusters; no key for racks
    is, so that one is ours. A node without a level's label is in no domain of that level."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a gang goes that does not say it."""

    strategy: Annotated[Strategy, kinds.word(Strategy)] = _CORE.strategy
    """`pack`: few domains, few hosts, which is what collectives want; `spread`: evenly over domains; `cosine`: as
    pack, and inside a domain the node whose free vector points where the demand does."""

    level: Annotated[str, _level_name] = _CORE.level
    """The level that the strategy speaks of; one of `cluster.levels`. Racks: where bandwidth usually drops."""

    required: Annotated[bool, kinds.flag] = _CORE.required
    """Whether a gang waits rather than be placed over more domains than asked. false: a gang that runs over two racks
    is slower, one that waits stands still."""


@dataclass(frozen=True, slots=True)
class Gangs:
    """The life of a gang between its plan and its start."""

    pin: Annotated[Pin, kinds.word(Pin)] = _CORE.pin
    """How a member is tied to its seat: `hard` by node affinity, `soft` by nomination. `auto` pins hard only pods that
    can be made again at no cost, because a hard pin that breaks ends in an eviction."""

    timeout: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.timeout
    """From the first ungating until the quorum must be bound. A planned gang binds within seconds; two minutes also
    cover a change of leader and a slow API server."""

    start_timeout: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.start_timeout
    """From its bind until a member must run. Then its gang is told why it does not, and the member is made again
    elsewhere where that costs nothing; after twice as long once more. Ten minutes pull an image of 20 GB."""

    backoff: Annotated[float, kinds.seconds(0.1, kinds.DAY)] = _CORE.backoff
    """Before a gang that timed out is tried again; doubles each time."""

    backoff_limit: Annotated[float, kinds.seconds(0.1, kinds.DAY)] = _CORE.backoff_limit
    """Where the doubling ends: others get their turn, and the gang is not forgotten."""

    score_hold: Annotated[float, kinds.seconds(0.1, 600)] = _CORE.score_hold
    """How long the best-scored node is kept for a single pod without our gate; a bind takes milliseconds."""

    pin_grace: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.pin_grace
    """kube-scheduler has refused a pinned pod for so long, and our own picture has no room either: the pin is broken.
    Also how long it may refuse a member by a rule that the planner does not model, before the gang gives back what it
    has. Shorter would mistake a picture that is about to catch up."""

    pin_limit: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.pin_limit
    """kube-scheduler has refused a pinned pod for so long: the pin is broken, whatever our picture says. Several
    times its back-off (3 s at most), and soon enough that half a minute after it first refused the gang is on its way
    elsewhere."""

    barred: Annotated[float, kinds.seconds(1, kinds.DAY)] = _CORE.barred
    """A node where a pin broke, or whose kubelet refused a pod, is not given to that gang for so long; doubles each
    time."""

    broken_pins_until_soft: Annotated[int, kinds.whole(1, 1000)] = _CORE.broken_pins_until_soft
    """After so many broken pins a gang is only nominated: something decides about its nodes that we do not see."""

    evictions_per_gang: Annotated[int, kinds.whole(1, 1000)] = _CORE.evictions_per_gang
    """Broken pins of one gang that may be evicted at a time; the rest follow second by second."""

    outcome_limit: Annotated[float, kinds.seconds(1, 3600)] = _CORE.outcome_limit
    """A write without an outcome for so long is done again; every write of ours may be."""

    announce_every: Annotated[float, kinds.seconds(1, 3600)] = _CORE.announce_every
    """At most one event a gang and reason in so long."""

    largest_gang: Annotated[int, kinds.whole(1, 4096)] = _CORE.largest_gang
    """Members; a gang that asks for more is refused. The plan of 4096, deflated, takes some two thirds of the 256 KiB
    that the API server allows all annotations of its first member together."""


def _amounts(node: yaml.Node) -> Amounts:
    """Quantities by resource, such as {nvidia.com/gpu: 16, cpu: "200", memory: 1Ti}."""
    said = "must be a quantity of {}, such as 16, 500m or 64Gi"
    found = {name: kinds.quantity(name, said.format(name))(child) for name, child in kinds.entries(node)}
    return tuple(sorted(found.items()))


_share = kinds.record(
    Share, needed=False, guaranteed=_amounts, ceiling=_amounts, weight=kinds.number(0.001, 1e6)
)


def _shares(node: yaml.Node) -> Mapping[str, Share]:
    """A share by namespace."""
    found = {}
    for namespace, child in kinds.entries(node):
        if not re.fullmatch(names.NAMESPACE, namespace):
            remedy = "must be the name of a namespace: lower-case letters, digits and '-'"
            raise kinds.Wrong(child, f"{namespace!r} {remedy}")
        share: Share = _share(child)
        ceiling = dict(share.ceiling)
        for resource, value in share.guaranteed:
            if value > ceiling.get(resource, value):
                remedy = f"the ceiling of {resource} must not be below what is guaranteed of it"
                raise kinds.Wrong(child, remedy)
        found[namespace] = share
    return found


@dataclass(frozen=True, slots=True)
class Queue:
    """Who goes first, what may start past those who wait, and who gives way."""

    order: Annotated[Order, kinds.word(Order)] = _CORE.order
    """Among gangs of one priority: `fifo`; `las`, least attained service first, which needs no estimates; `shortest`
    expected runtime first; `fair`, the namespace that uses least of its share first."""

    backfill: Annotated[Backfill, kinds.word(Backfill)] = _CORE.backfill
    """While the first gang waits for room: `reserve` lets others start where they do not delay it; `free` wherever
    there is room, so that large gangs may wait without end; `none` keeps the order strictly."""

    age_limit: Annotated[float, kinds.seconds(1, 365 * kinds.DAY)] = _CORE.age_limit
    """A gang that has waited this long moves ahead of newer gangs with the same priority, in any order. Nothing starves.
    Three days: in a queue whose waits are longer than the limit every order is that of arrival."""

    age_factor: Annotated[float, kinds.number(0, 1e6)] = _CORE.age_factor
    """With the order `shortest` a gang must also have waited this many times its own expected runtime (bounded slowdown):
    an hour of work is not held up by a week of it that has waited for a few days. 0: the limit alone counts."""

    las_quantum: Annotated[float, kinds.seconds(1, 365 * kinds.DAY)] = _CORE.las_quantum
    """Device-time of the first band of `las`; the second is twice as wide, the third and last has no end. Also the
    shortest turn of a gang that gives way by being suspended. Half an hour: of what was measured on real traces the
    best for the wait of large gangs, at the same mean."""

    default_runtime: Annotated[float, kinds.seconds(1, 365 * kinds.DAY)] = _CORE.default_runtime
    """Assumed runtime of a gang with no declared or learned runtime."""

    preemption: Annotated[bool, kinds.flag] = _CORE.preemption
    """Whether pods of lower priority give way to a whole gang. Never part of a gang below its quorum."""

    reclaim: Annotated[Reclaim, kinds.word(Reclaim)] = _CORE.reclaim
    """Borrowers from which a namespace takes back what is guaranteed to it: `any`, or those of `lower-priority`."""

    evictions_per_namespace: Annotated[int, kinds.whole(1, 100_000)] = _CORE.evictions_per_namespace
    """Victims of one namespace on their way out at a time: its jobs do not vanish all at once."""

    preemption_cooldown: Annotated[float, kinds.seconds(0, kinds.DAY)] = _CORE.preemption_cooldown
    """After victims were asked to leave for a gang, before others are asked to for the same one."""

    shares: Annotated[Mapping[str, Share], _shares] = field(default_factory=dict)
    """By namespace: `guaranteed` amounts, lent while idle and taken back when needed; `ceiling`, never to be passed;
    `weight` for the order `fair`. Read again when the file changes."""
