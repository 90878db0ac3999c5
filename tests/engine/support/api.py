"""A small API server: pods and nodes, our effects with their preconditions, and who makes pods again.

Faithful where the ledger rests on it: every effect is a compare-and-swap on the pod's uid; our gate can be
taken off twice without harm; a pin can only come with the gate's going; a gated, bound or dying pod cannot be
bound; an unscheduled pod that is evicted is gone at once, a bound one after its grace; disruption budgets
protect running pods alone; a Job that is suspended takes its pods away, and makes new ones when it is resumed.
Whatever changes is told in `feed`, in order, as a watch would.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.decision import Reason
from scheduler.model.demand import AnyOf, Operator, Requirement, Term
from scheduler.model.effects import (
    Announce,
    Effect,
    Evict,
    Nominate,
    ResumeJob,
    SetCondition,
    SuspendJob,
    Ungate,
    WritePlan,
)
from scheduler.model.events import FailureKind
from scheduler.model.workload import (
    Budget,
    Owner,
    OwnerTraits,
    Pending,
    Phase,
    PlanNote,
    Pod,
    PodKey,
    SeatNote,
    Uid,
)
from scheduler.objects.affinity import unpinned
from tests.engine.support.cast import traits_of

GATED = "SchedulingGated"


class RefusalError(Exception):
    """The API server says no."""

    def __init__(self, kind: FailureKind) -> None:
        super().__init__(kind.value)
        self.kind = kind


@dataclass
class Controller:
    """Keeps `replicas` pods alive; `keeps_names` as a StatefulSet does. A Job's pods that succeeded count as well."""

    owner: Owner
    replicas: int
    template: Callable[[str], Pod]
    keeps_names: bool = False
    born: int = 0
    suspended: bool = False
    namespace: str = "default"

    @property
    def is_job(self) -> bool:
        return self.owner.kind == "Job"


class FakeApi:
    """The state of the cluster, as everybody finally learns it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.up = True
        self.pods: dict[PodKey, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.controllers: dict[str, Controller] = {}
        self.owners: dict[str, OwnerTraits] = {}
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.feed: list[ev.Event] = []
        self.version = 0
        """Counts writes, also those that a watch of ours cannot tell from the state before."""
        self.frees = 0
        """Counts what could make room for somebody."""
        self.protected: set[Uid] = set()
        """Running pods that a disruption budget protects."""
        self.binds: dict[Uid, str] = {}
        """Every bind that ever was."""
        self.announced: list[tuple[float, Announce]] = []
        self.ungated: list[tuple[float, Ungate]] = []
        self.watched: Callable[[Pod, str], None] = lambda _pod, _node: None
        """Called before a bind comes true."""
        self.grace: Callable[[Pod], float] = lambda _pod: 0.0
        """Seconds that a bound pod takes to go when it is told to."""
        self.refuses: dict[str, str] = {}
        """Nodes whose kubelet refuses every pod, with its reason."""
        self.evicted: list[Uid] = []
        """Who was evicted, in order."""
        self._goes_at: dict[Uid, float] = {}
        self._births = 0

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._tell(ev.NodeSeen(node))
        self.frees += 1

    def delete_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._tell(ev.NodeGone(name))

    def cordon(self, name: str, *, off: bool) -> None:
        node = self.nodes.get(name)
        if node is not None and node.schedulable is off:
            self.put_node(replace(node, schedulable=not off))

    def put_owner(self, traits: OwnerTraits) -> None:
        if self.owners.get(traits.uid) != traits:
            traits = replace(traits, version=str(self.version))
            self.owners[traits.uid] = traits
            self._tell(ev.OwnerSeen(traits))

    def put_budget(self, budget: Budget) -> None:
        """A disruption budget, with what it allows now; evictions ask `protected` alone."""
        self.budgets[budget.namespace, budget.name] = budget
        self._tell(ev.BudgetSeen(budget))

    def delete_budget(self, budget: Budget) -> None:
        del self.budgets[budget.namespace, budget.name]
        self._tell(ev.BudgetGone(budget.namespace, budget.name))

    def set_suspended(self, owner: Owner, *, suspended: bool, stays: bool = True) -> None:
        """A person suspends or resumes a Job; `stays`: and says that it stays so, as `gangwright suspend` does."""
        self._job(owner).suspended = suspended
        traits = self.owners[owner.uid]
        paused = None if suspended and stays else traits.paused
        self.put_owner(replace(traits, suspended=suspended, paused=paused))

    def control(self, controller: Controller) -> None:
        self.controllers[controller.owner.uid] = controller
        self.put_owner(traits_of(controller.owner, controller.namespace, float(int(self.now))))

    def uncontrol(self, owner: Owner) -> None:
        """The controller is deleted; its pods are for others to delete."""
        self.controllers.pop(owner.uid, None)
        if owner.kind == "Job" and self.owners.pop(owner.uid, None) is not None:
            self._tell(ev.OwnerGone(owner.uid))

    def create(self, pod: Pod) -> Pod:
        """A new pod, with a uid and a time of birth of its own."""
        assert pod.key not in self.pods, f"{pod.key} exists"
        self._births += 1
        pending = Pending(GATED, self.now) if pod.gated or pod.held_back else None
        pod = replace(
            pod, uid=Uid(f"{pod.key.name}~{self._births}"), created=float(int(self.now)), pending=pending
        )
        self.pods[pod.key] = pod
        self._tell(ev.PodSeen(pod))
        return pod

    def write(self, pod: Pod) -> None:
        """The pod as it is from now on; nothing happens when nothing is new."""
        before = self.pods[pod.key]
        if before == pod and before.told == pod.told:
            return
        self.pods[pod.key] = pod
        if (pod.phase.ended and not before.phase.ended) or (before.nominated and not pod.nominated):
            self.frees += 1
        self._tell(ev.PodSeen(pod))

    def delete(self, key: PodKey) -> None:
        """Gone at once when it was never bound or has ended, otherwise after its grace (see `remove`)."""
        pod = self.pods.get(key)
        if pod is None:
            return
        if pod.node is None or pod.phase.ended:
            self.remove(key)
        elif not pod.deleting:
            self._goes_at[pod.uid] = self.now + self.grace(pod)
            self.write(replace(pod, deleting=True))

    def remove(self, key: PodKey) -> None:
        pod = self.pods.pop(key, None)
        if pod is not None:
            self.frees += 1
            self._goes_at.pop(pod.uid, None)
            self._tell(ev.PodGone(pod.uid, key))

    def next_time(self) -> float:
        """When the next pod that was told to go is gone."""
        return min(self._goes_at.values(), default=float("inf"))

    def of_node(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node == name and not pod.phase.ended]

    def listing(self) -> list[ev.Event]:
        """All that is, as a first list tells it."""
        return [
            *(ev.NodeSeen(node) for node in self.nodes.values()),
            *(ev.OwnerSeen(traits) for traits in self.owners.values()),
            *(ev.BudgetSeen(budget) for budget in self.budgets.values()),
            *(ev.PodSeen(self.pods[key]) for key in sorted(self.pods)),
        ]

    def _tell(self, event: ev.Event) -> None:
        self.version += 1
        self.feed.append(event)

    # ── who changes pods besides us ─────────────────────────────────────────────────────────────────────

    def bind(self, uid: Uid, key: PodKey, node: str) -> None:
        """kube-scheduler's binding: the fence behind which nothing happens twice."""
        pod = self._get(key, uid, other=FailureKind.CONFLICT)
        if pod.node is not None or pod.deleting or pod.gated or pod.held_back:
            raise RefusalError(FailureKind.CONFLICT)
        assert uid not in self.binds, f"{uid} is bound twice"
        assert pod.pinned in {None, node}, f"{uid} is pinned to {pod.pinned} and bound to {node}"
        self.watched(pod, node)
        self.binds[uid] = node
        self.write(
            replace(
                there(pod, node),
                node=node,
                nominated=None,
                pending=None,
                unmodeled=(),
                bound_at=float(int(self.now)),
            )
        )

    def fail(self, uid: Uid, key: PodKey, reason: str, message: str = "") -> None:
        """kube-scheduler's word on a pod that it could not bind; it wipes the nomination as well."""
        pod = self.pods.get(key)
        if pod is None or pod.uid != uid or pod.node is not None:
            return
        since = self.now if pod.pending is None else pod.pending.since
        heard = message if pod.unmodeled else ""
        self.write(replace(pod, nominated=None, pending=Pending(reason, since, heard)))

    def run_pods(self) -> bool:
        """Kubelets: what fits runs, what does not is turned away, and whoever is to go is gone. Was there any?"""
        before = self.version
        for key, pod in list(self.pods.items()):
            if pod.node is None or (pod.phase.ended and not pod.deleting):
                continue
            if pod.node not in self.nodes or pod.phase.ended:
                self.remove(key)
            elif pod.deleting:
                if self._goes_at.get(pod.uid, self.now) <= self.now:
                    self.remove(key)
            elif pod.phase is Phase.PENDING:
                well = pod.node not in self.refuses and self._admits(pod)
                refused = self.refuses.get(pod.node, "" if well else "OutOfpods")
                self.write(replace(pod, phase=Phase.RUNNING if well else Phase.FAILED, refused=refused))
        return self.version > before

    def _admits(self, pod: Pod) -> bool:
        capacity = dict(self.nodes[str(pod.node)].capacity)
        there = [
            other for other in self.of_node(str(pod.node)) if other.phase is Phase.RUNNING or other is pod
        ]
        return all(
            sum(dict(other.demand.requests).get(resource, 0) for other in there) <= capacity.get(resource, 0)
            for resource, _ in pod.demand.requests
        )

    def run_controllers(self) -> bool:
        """Controllers: pods that are missing are made again, with the gate. Was there any?"""
        before = self.version
        for controller in self.controllers.values():
            own = [pod for pod in self.pods.values() if pod.owner == controller.owner]
            if controller.keeps_names:
                for pod in own:
                    if pod.phase.ended:
                        self.remove(pod.key)
                names = [f"{controller.owner.name}-{number}" for number in range(controller.replicas)]
                missing = [name for name in names if all(pod.key.name != name for pod in own)]
            elif controller.suspended:
                missing = []
                for pod in own:
                    if not pod.phase.ended:
                        self.delete(pod.key)
            else:
                done = Phase.SUCCEEDED if controller.is_job else None
                alive = sum((not pod.phase.ended and not pod.deleting) or pod.phase is done for pod in own)
                first = controller.born + 1
                controller.born += max(0, controller.replicas - alive)
                missing = [
                    f"{controller.owner.name}-x{number}" for number in range(first, controller.born + 1)
                ]
            for name in missing:
                self.create(controller.template(name))
        return self.version > before

    # ── effects ─────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, effect: Effect) -> None:
        """Carry out what we want. Raises RefusalError with the kind that the service would report."""
        if not self.up:
            raise RefusalError(FailureKind.UNAVAILABLE)
        match effect:
            case WritePlan():
                pod = self._get(effect.key, effect.uid)
                note = PlanNote(effect.plan, dict(effect.seats), effect.victims) if effect.seats else None
                self.write(replace(pod, plan=note))
            case Ungate():
                self._ungate(effect)
            case Nominate():
                pod = self._get(effect.key, effect.uid)
                self.write(replace(pod, nominated=effect.node or None))
            case Evict():
                self._evict(effect)
            case SuspendJob():
                self._suspend(effect)
            case ResumeJob():
                self._resume(effect)
            case Announce():
                self.announced.append((self.now, effect))
                self._set_condition(effect)
            case SetCondition():
                self._set_condition(effect)

    def _set_condition(self, effect: Announce | SetCondition) -> None:
        pod = self._get(effect.key, effect.uid)
        if effect.seated is not None:
            self.write(replace(pod, told=None if effect.seated else effect.reason))
        self.version += 1

    def _get(self, key: PodKey, uid: Uid, other: FailureKind = FailureKind.NOT_FOUND) -> Pod:
        """The pod. A PATCH for another uid is a 422 that names metadata.uid, which the service knows for a 404."""
        pod = self.pods.get(key)
        if pod is None:
            raise RefusalError(FailureKind.NOT_FOUND)
        if pod.uid != uid:
            raise RefusalError(other)
        return pod

    def _ungate(self, effect: Ungate) -> None:
        pod = self._get(effect.key, effect.uid)
        if effect.pin and pod.pinned != effect.node and not pod.gated:
            raise RefusalError(FailureKind.INVALID)
        if effect.pin and pod.pinned not in {None, effect.node}:
            raise RefusalError(FailureKind.INVALID)
        if pod.gated:
            self.ungated.append((self.now, effect))
        seated = replace(pod, gated=False, seat=SeatNote(effect.node, effect.plan, effect.pin))
        self.write(pin(seated, effect.node) if effect.pin else seated)

    def _evict(self, effect: Evict) -> None:
        pod = self._get(effect.key, effect.uid, other=FailureKind.CONFLICT)
        if effect.reason not in {Reason.PREEMPTED, Reason.RUNTIME_EXCEEDED}:
            assert pod.owner is not None, f"{pod.key} is evicted and nobody makes it again"
        if pod.node is not None and pod.uid in self.protected and not pod.deleting:
            raise RefusalError(FailureKind.BUDGET)
        self.evicted.append(pod.uid)
        self.delete(effect.key)

    def _suspend(self, effect: SuspendJob) -> None:
        traits = self._unchanged(effect)
        self._job(effect.owner).suspended = True
        paused = effect.owner if effect.stays is None else None
        self.put_owner(replace(traits, suspended=True, paused=paused, attained=effect.attained))

    def _resume(self, effect: ResumeJob) -> None:
        traits = self._unchanged(effect)
        self._job(effect.owner).suspended = False
        self.put_owner(replace(traits, suspended=False, paused=None))

    def _unchanged(self, effect: SuspendJob | ResumeJob) -> OwnerTraits:
        """What the Job says, as long as it is the version that was looked at."""
        self._job(effect.owner)
        traits = self.owners[effect.owner.uid]
        if traits.version != effect.version:
            raise RefusalError(FailureKind.CONFLICT)
        return traits

    def _job(self, owner: Owner) -> Controller:
        controller = self.controllers.get(owner.uid)
        if controller is None:
            raise RefusalError(FailureKind.NOT_FOUND)
        assert controller.is_job, f"{owner} is no Job"
        return controller


def pin(pod: Pod, node: str) -> Pod:
    """The pod with each term of its node affinity narrowed to one node."""
    name = Requirement("metadata.name", Operator.IN, (node,))
    narrowed: AnyOf = tuple(
        term if name in term.fields else Term(term.labels, (*term.fields, name)) for term in pod.affinity
    ) or (Term(fields=(name,)),)
    others = tuple(terms for terms in pod.demand.constraints if terms != pod.affinity)
    demand = replace(pod.demand, constraints=(*others, narrowed))
    return replace(pod, demand=demand, affinity=narrowed, pinned=node)


def there(pod: Pod, node: str) -> Pod:
    """The pod as it is read once it has its node: the pin that came with its seat is no more of what it asks for."""
    if pod.seat is None:
        return pod
    bare = unpinned(pod.affinity, node)
    others = tuple(terms for terms in pod.demand.constraints if terms != pod.affinity)
    demand = replace(pod.demand, constraints=(*others, bare) if bare else others)
    return replace(pod, demand=demand, affinity=())
