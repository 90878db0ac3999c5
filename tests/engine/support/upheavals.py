"""What `machine` leaves out: gangs of roles with surplus, words that change while gangs wait and run, reloads of the
policy, drains, moves that are thought over, moments of blindness, machines that change.

Walks alone, by plain chance: `walk(seed, steps)`. What the policy was before a reload is no fault of what it is now, so
a namespace may stay above a ceiling that was lowered; it never climbs.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from scheduler.engine.explanation import foresee
from scheduler.model import events as ev
from scheduler.model.demand import TaintEffect
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.workload import GiveWay, Membership, OnMemberLoss, Pin, Pod
from tests.engine.support.api import Controller
from tests.engine.support.cast import OURS, a_membership, a_pod, an_owner
from tests.engine.support.machine import Gangs
from tests.engine.support.patience import waits_beside_room
from tests.engine.support.walks import ACTS
from tests.engine.support.wishes import GRACES, NAMESPACES, PRIORITIES, RUNTIMES, SHARES, a_wish, some_rules
from tests.engine.support.witness import used
from tests.support.builders import GPU, a_node, a_taint

MORE_SHARES = (
    *SHARES,
    {"default": Share((), ((GPU, 1),))},
    {"lab": Share(((GPU, 1),), ((GPU, 2),)), "default": Share(((GPU, 4),))},
)

MOST = 16
"""Pods at a time."""

UNREACHABLE = a_taint("node.kubernetes.io/unreachable", effect=TaintEffect.NO_EXECUTE)

Reworded = Callable[[Membership], Membership]


class Upheavals(Gangs):
    """Everything that may happen around the engine, and more."""

    above: dict[str, int]
    """Namespace → units in use at the last reload, or since: what it may still have above its ceiling."""

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────

    def submit_roles(self, seed: int) -> None:
        """A gang of one or two roles, some with a stated size, half of them with surplus beside it."""
        if len(self.world.api.pods) >= MOST:
            return
        chance = Random(seed)
        self.born += 1
        roles = (
            {"ps": chance.randint(1, 2), "worker": chance.randint(1, 2)}
            if chance.random() < 0.5
            else {"": chance.randint(1, 3)}
        )
        size = sum(roles.values()) + chance.randint(0, 2) if chance.random() < 0.6 else None
        loss = chance.choice([None, OnMemberLoss.RESTART, *OnMemberLoss])
        priority = chance.choice(PRIORITIES)
        told = a_membership(
            f"w{self.born}",
            roles,
            namespace=chance.choice(NAMESPACES),
            size=size,
            give_way=chance.choice([None, None, GiveWay.SUSPEND]),
            pin=chance.choice([None, None, Pin.HARD, Pin.SOFT]),
            required=chance.choice([None, None, True]),
            timeout=chance.choice([None, 10.0]),
            runtime=chance.choice(RUNTIMES),
        )
        told = replace(told, wish=replace(told.wish, on_member_loss=loss, start_timeout=30.0))
        kind, grace = (
            chance.choice(["ReplicaSet", "ReplicaSet", "StatefulSet", "Job", ""]),
            chance.choice(GRACES),
        )
        each = {
            "gated": chance.random() < 0.8,
            "gpu": chance.choice([1, 1, 2]),
            "namespace": told.gang.namespace,
        }
        for role, count in roles.items():
            self._made(
                count, kind, grace, each | {"membership": replace(told, role=role), "priority": priority}
            )
        if chance.random() < 0.5:
            spare = replace(told, role=chance.choice(list(roles)), surplus=True)
            words = {"membership": spare, "priority": chance.choice([priority, 0, -5])}
            words["preempts"] = chance.random() < 0.5
            self._made(chance.randint(1, 2), kind, grace, each | words)

    def _made(self, count: int, kind: str, grace: float, each: dict[str, object]) -> None:
        name = f"w{self.born}-{len(self.world.api.controllers)}-{len(self.world.api.feed)}"
        owner = an_owner(kind, name) if kind else None
        self.grace[owner.uid if owner else name] = grace
        if owner is None:
            self.world.submit([a_pod(f"{name}-{number}", **each) for number in range(count)])
            return
        template = partial(_pod, each | {"owner": owner})
        kept = kind == "StatefulSet"
        self.world.control(Controller(owner, count, template, kept, namespace=str(each["namespace"])))

    def relabel(self, seed: int) -> None:
        """What a gang, or one pod of it, says of itself is another thing from now on."""
        chance = Random(seed)
        own = [pod for pod in self.world.api.pods.values() if pod.scheduler == OURS and pod.membership]
        if not own:
            return
        pod = chance.choice(own)
        all_of_it, word = chance.choice(REWORDED)(chance, own, pod.membership)
        gang = pod.membership.gang
        mates = [mate for mate in own if mate.membership.gang == gang] if all_of_it else [pod]
        for mate in mates:
            self.world.api.write(replace(mate, membership=word(mate.membership)))
        for one in self.world.api.controllers.values() if all_of_it else ():
            probe = one.template("probe").membership
            if probe is not None and probe.gang == gang:
                one.template = partial(_reworded, one.template, word)

    def ungate(self, seed: int) -> None:
        """Somebody takes our gate off by hand."""
        gated = [pod for pod in self.world.api.pods.values() if pod.gated and pod.node is None]
        if gated:
            self.world.api.write(replace(Random(seed).choice(gated), gated=False))

    def scale(self, seed: int) -> None:
        """A controller is to have one pod more, or one fewer."""
        chance, api = Random(seed), self.world.api
        if not api.controllers:
            return
        one = chance.choice(list(api.controllers.values()))
        one.replicas = max(0, min(4, one.replicas + chance.choice([-1, 1])))
        living = [pod for pod in api.pods.values() if pod.owner == one.owner and not pod.phase.ended]
        for pod in living[one.replicas :]:
            api.delete(pod.key)

    def person(self, seed: int) -> None:
        """Somebody suspends a Job, or resumes it; some write it so that it stays."""
        chance = Random(seed)
        jobs = [one for one in self.world.api.controllers.values() if one.is_job]
        if jobs:
            job = chance.choice(jobs)
            self.world.api.set_suspended(job.owner, suspended=not job.suspended, stays=chance.random() < 0.7)

    # ── whoever runs the cluster ────────────────────────────────────────────────────────────────────────

    def reload(self, seed: int) -> None:
        """Another policy from now on."""
        chance, usual = Random(seed), self.policy
        self.policy = replace(
            usual,
            shares=chance.choice(MORE_SHARES),
            order=chance.choice([*[usual.order] * 3, *Order]),
            backfill=chance.choice([*[usual.backfill] * 3, *Backfill]),
            preemption=chance.random() < 0.8,
            reclaim=chance.choice(list(Reclaim)),
        )
        self.above = {name: used(self.world.engine, name, but=()) for name in NAMESPACES}
        self.world.adopt(self.policy)

    def drain(self, seed: int) -> None:
        """A node is to be emptied."""
        if self.world.api.nodes:
            name = Random(seed).choice(sorted(self.world.api.nodes))
            self.world.api.cordon(name, off=True)
            self.world.watch()
            self.world.drain(name)

    def defrag(self) -> None:
        """Room is made for the first gang that waits."""
        self.world.look()
        self.world.defrag()

    def think_ahead(self) -> None:
        """Moves that would make room, what would make room, and when everybody starts: nothing changes by it."""
        self.world.look()
        engine = self.world.engine
        if engine.ledger.blind:
            return
        for record in list(engine.ledger.pending.queue())[:2]:
            self.world.engines.agree(lambda one, key=record.key: repr(one.defrag(key)))
            engine.inquire(record.key, self.world.now)
        if engine.ledger.ready and len(engine.ledger.pending):
            foresee(engine.outlook(self.world.now))

    # ── accidents ───────────────────────────────────────────────────────────────────────────────────────

    def blink(self) -> None:
        """The API server is out of sight, or is seen again."""
        if self.world.engine.ledger.blind:
            self._forgive()
            self.world.tell([ev.SawAgain()])
        else:
            self.world.tell([ev.LostSight()])

    def rebuild(self, seed: int) -> None:
        """A machine has other devices, never fewer than are in use, and may stand in another rack."""
        chance, api, calls = Random(seed), self.world.api, self.world.scheduler
        name = chance.choice(sorted(self.nodes))
        there = [pod for pod in api.pods.values() if pod.node == name and not pod.phase.ended]
        there += [api.pods[key] for key, node in calls.assumed.values() if node == name and key in api.pods]
        least = sum(dict(pod.demand.requests).get(GPU, 0) for pod in there)
        gpu = max(least, chance.randint(0, 4))
        self.nodes[name] = a_node(name, gpu=gpu, rack=chance.choice(["r0", "r1"]), area="a")
        api.put_node(self.nodes[name])
        self.raced[name] = len(api.feed)

    def unreachable(self, seed: int) -> None:
        """A node is lost from sight and most of its pods are taken away; or it is back."""
        chance, api = Random(seed), self.world.api
        if not api.nodes:
            return
        node = api.nodes[chance.choice(sorted(api.nodes))]
        api.put_node(replace(node, taints=() if node.taints else (UNREACHABLE,)))
        for pod in [] if node.taints else list(api.of_node(node.name)):
            if chance.random() < 0.7:
                api.write(replace(api.pods[pod.key], disrupted=True))
                api.delete(pod.key)

    # ── what is true all the same ───────────────────────────────────────────────────────────────────────

    def nobody_is_above_a_ceiling(self) -> None:
        for name, share in self.policy.shares.items():
            most = dict(share.ceiling).get(GPU)
            if most is not None:
                in_use = used(self.world.engine, name, but=self.late)
                allowed = max(most, self.above.get(name, 0))
                assert in_use <= allowed, f"{name} is above its ceiling: {in_use} of {most}"
                self.above[name] = min(self.above.get(name, 0), used(self.world.engine, name))

    def nobody_holds_in_vain(self) -> None:
        if self.world.engine.ledger.blind:
            self._forgive()
        else:
            super().nobody_holds_in_vain()

    def _forgive(self) -> None:
        """Who is blind can free nobody's seats."""
        self.world.api.ungated.clear()
        self.let_go.clear()

    def _everybody_waits_for_something(self) -> None:
        found = waits_beside_room(self.world, self.policy)
        assert not found, found


def _pod(each: dict[str, object], name: str) -> Pod:
    return a_pod(name, **each)


def _reworded(template: Callable[[str], Pod], word: Reworded, name: str) -> Pod:
    pod = template(name)
    return replace(pod, membership=word(pod.membership))


def _quorum(chance: Random, _own: list[Pod], said: Membership) -> tuple[bool, Reworded]:
    quorum = dict(said.quorum or {"": 1})
    role = chance.choice(list(quorum))
    quorum[role] = max(1, quorum[role] + chance.choice([-1, 1]))
    return True, lambda own: replace(own, quorum=quorum)


def _size(chance: Random, _own: list[Pod], said: Membership) -> tuple[bool, Reworded]:
    least = sum((said.quorum or {"": 1}).values())
    size = chance.choice([None, max(1, least + chance.randint(-1, 2))])
    return True, lambda own: replace(own, size=size)


def _surplus(_chance: Random, _own: list[Pod], _said: Membership) -> tuple[bool, Reworded]:
    return False, lambda own: replace(own, surplus=not own.surplus)


def _gang(chance: Random, own: list[Pod], said: Membership) -> tuple[bool, Reworded]:
    other = chance.choice(own).membership
    assert other is not None
    return False, lambda mine: other if other.gang.namespace == said.gang.namespace else mine


def _contradiction(_chance: Random, _own: list[Pod], _said: Membership) -> tuple[bool, Reworded]:
    return False, lambda own: replace(own, quorum={"": 2})


REWORDED = (_quorum, _size, _surplus, _gang, _contradiction)
"""What may be said anew: whether by the whole gang, and how."""

MORE: dict[str, tuple[int, Callable[[Random], dict[str, object]]]] = {
    **{
        name: (weight, lambda r: {"seed": r.randrange(1 << 30)})
        for name, weight in {
            "submit_roles": 6,
            "relabel": 3,
            "scale": 2,
            **dict.fromkeys(["ungate", "person", "reload", "drain", "rebuild", "unreachable"], 1),
        }.items()
    },
    **dict.fromkeys(["think_ahead", "blink", "defrag"], (1, lambda _: {})),
    "submit": (2, ACTS["submit"][1]),
}
EVERYTHING = ACTS | MORE
"""What happens, how often, and with which arguments."""


def walk(seed: int, steps: int) -> Upheavals:
    """One long story; the seed tells it again."""
    chance = Random(seed)
    gangs = Upheavals()
    gangs.above = {}
    gangs.begin(
        gpus=[chance.randint(1, 4) for _ in range(chance.randint(2, 5))],
        two=chance.randrange(8),
        first=[a_wish(chance), a_wish(chance)],
        laid=some_rules(chance),
    )
    for name in chance.choices(list(EVERYTHING), [weight for weight, _ in EVERYTHING.values()], k=steps):
        words = EVERYTHING[name][1](chance)
        if name == "ask_late" and (not gangs.world.calls or gangs.world.engine.ledger.blind):
            continue
        getattr(gangs, name)(**words)
        gangs.check()
    if gangs.world.engine.ledger.blind:
        gangs.blink()
    gangs.teardown()
    return gangs
