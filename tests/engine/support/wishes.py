"""What may happen: gangs that people submit, accidents, and policies; by chance, or as hypothesis strategies."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from scheduler.model.demand import Operator, Requirement
from scheduler.model.neighbors import NO_NEIGHBORS, Neighbors, PodSelector, PodTerm, TopologySpread
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.workload import GiveWay, Pin, Strategy
from tests.support.builders import GPU, HOST, RACK

OUTCOMES = (*["told"] * 8, "lost", "doubled", "failed", "unsure")
GOINGS = ("delete", "delete all", "delete all", "succeed", "succeed", "fail")
MISHAPS = (
    *("lose", "return", "return", "cordon", "uncordon", "uncordon"),
    *("steal", "give back", "give back", "protect", "down", "up", "up", "move", "note"),
)
SPANS = (0.1, 0.1, 1.0, 1.0, 3.0, 3.0, 9.0, 25.0)

NAMESPACES = ("default", "lab")

few = st.integers(0, 7)

_LOUD = PodSelector(NAMESPACES, None, (Requirement("is", Operator.IN, ("loud",)),))
_OWN = PodSelector(("default",), None, (Requirement("is", Operator.EXISTS),))

NEIGHBORS: Mapping[str, Neighbors] = {
    "": NO_NEIGHBORS,
    "loud": Neighbors(anti_affinity=(PodTerm(HOST, _LOUD),)),
    "quiet": Neighbors(anti_affinity=(PodTerm(RACK, _LOUD),)),
    "even": Neighbors(spread=(TopologySpread(RACK, _OWN, 1),)),
    "near": Neighbors(affinity=(PodTerm(RACK, _OWN),)),
}
"""By what a gang's pods are labeled with: one a node, in no rack with these, evenly over racks, in one rack."""

IS = ("", "", "", "", "loud", "loud", "quiet", "even", "near")

POLICY = Policy(
    timeout=20.0,
    backoff=2.0,
    backoff_limit=10.0,
    barred=15.0,
    pin_grace=3.0,
    pin_limit=8.0,
    outcome_limit=10.0,
    age_limit=150.0,
    las_quantum=10.0,
    default_runtime=30.0,
    evictions_per_namespace=3,
    preemption_cooldown=10.0,
)
"""Everything as in production, only sooner over."""

SHARES: tuple[Mapping[str, Share], ...] = (
    {},
    {"default": Share(((GPU, 2),)), "lab": Share(((GPU, 3),), weight=2.0)},
    {"default": Share(ceiling=((GPU, 4),)), "lab": Share(((GPU, 2),), ((GPU, 3),))},
    {"default": Share(((GPU, 2), ("cpu", 16_000))), "lab": Share((("cpu", 32_000),))},
)
"""None; guarantees that are lent; ceilings, and a guarantee of one namespace alone; two resources, of which one is
guaranteed to both namespaces.
"""

CPUS = (0, 0, 4, 16)
"""Of nodes that have 32 each."""

PRIORITIES = (0, 0, 0, 10, 20)
GRACES = (0.0, 0.0, 4.0, 60.0)
RUNTIMES = (None, None, 5.0, 40.0, 500.0)


@dataclass(frozen=True)
class Rules:
    """What of the policy differs from walk to walk."""

    order: Order = Order.FIFO
    backfill: Backfill = Backfill.RESERVE
    reclaim: Reclaim = Reclaim.ANY
    shares: int = 0
    preemption: bool = True

    def policy(self) -> Policy:
        return replace(
            POLICY,
            order=self.order,
            backfill=self.backfill,
            reclaim=self.reclaim,
            shares=SHARES[self.shares],
            preemption=self.preemption,
        )


rules = st.builds(
    Rules,
    order=st.sampled_from(Order),
    backfill=st.sampled_from(Backfill),
    reclaim=st.sampled_from(Reclaim),
    shares=st.sampled_from([0, 0, 1, 2, 3, 3]),
    preemption=st.sampled_from([True, True, True, False]),
)


def some_rules(chance: Random) -> Rules:
    return Rules(
        order=chance.choice(list(Order)),
        backfill=chance.choice(list(Backfill)),
        reclaim=chance.choice(list(Reclaim)),
        shares=chance.choice([0, 0, 1, 2, 3, 3]),
        preemption=chance.random() < 0.75,
    )


@dataclass(frozen=True)
class Wanted:
    """What somebody submits."""

    count: int
    spare: int = 0
    """Members above the quorum."""
    gpu: int = 1
    cpu: int = 0
    kind: str = ""
    priority: int = 0
    gated: bool = True
    short: int | None = None
    """How many members fewer than there are the gang states as its size; None: it states none."""
    pin: Pin | None = None
    strategy: Strategy | None = None
    required: bool | None = None
    reuse: bool = False
    """The name of the gang before it."""
    namespace: str = "default"
    preempts: bool = True
    give_way: GiveWay | None = None
    runtime: float | None = None
    grace: float = 0.0
    """Seconds that its pods take to go when they are told to."""
    max_runtime: float | None = None
    label: str = ""
    """Of NEIGHBORS."""


wanted = st.builds(
    Wanted,
    count=st.integers(1, 4),
    spare=st.sampled_from([0, 0, 0, 1]),
    gpu=st.sampled_from([1, 1, 2]),
    cpu=st.sampled_from(CPUS),
    kind=st.sampled_from(["", "ReplicaSet", "StatefulSet", "ReplicaSet", "Job"]),
    priority=st.sampled_from(PRIORITIES),
    gated=st.sampled_from([True, True, True, False]),
    short=st.sampled_from([None, None, 0, 1]),
    pin=st.sampled_from([None, None, Pin.HARD, Pin.SOFT]),
    strategy=st.sampled_from([None, Strategy.SPREAD, Strategy.COSINE]),
    required=st.sampled_from([None, None, True]),
    reuse=st.sampled_from([False, False, True]),
    namespace=st.sampled_from(NAMESPACES),
    preempts=st.sampled_from([True, True, True, False]),
    give_way=st.sampled_from([None, GiveWay.SUSPEND]),
    runtime=st.sampled_from(RUNTIMES),
    grace=st.sampled_from(GRACES),
    label=st.sampled_from(IS),
)


def a_wish(chance: Random) -> Wanted:
    return Wanted(
        count=chance.randint(1, 4),
        spare=chance.choice([0, 0, 0, 1]),
        gpu=chance.choice([1, 1, 2]),
        cpu=chance.choice(CPUS),
        kind=chance.choice(["", "ReplicaSet", "ReplicaSet", "StatefulSet", "Job"]),
        priority=chance.choice(PRIORITIES),
        gated=chance.random() < 0.75,
        short=chance.choice([None, None, 0, 1]),
        pin=chance.choice([None, None, Pin.HARD, Pin.SOFT]),
        strategy=chance.choice([None, None, Strategy.SPREAD, Strategy.COSINE]),
        required=chance.choice([None, None, True]),
        reuse=chance.random() < 0.3,
        namespace=chance.choice(NAMESPACES),
        preempts=chance.random() < 0.75,
        give_way=chance.choice([None, GiveWay.SUSPEND]),
        runtime=chance.choice(RUNTIMES),
        grace=chance.choice(GRACES),
        label=chance.choice(IS),
    )
