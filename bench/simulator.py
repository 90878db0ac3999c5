"""A cluster on a clock of its own, which the very same engine decides about that the service runs.

Lives here: nodes, jobs that run for their time and end, controllers that make lost pods again, and a
kube-scheduler that binds what is pinned. Never here: a decision. Who starts, where, and who gives way is the
engine's word; the simulator only does what the engine's effects say, and tells it as events what came of them.

Time jumps from one happening to the next (an arrival, an end, a time at which the engine wants to be woken), so
what a run costs depends on the number of jobs and not on the time that they take. Binding takes none.

    python -m bench.simulator bench/data/philly-gangs/vc_b436b2.csv --nodes 12 --backfill free
"""

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench import ending
from bench.controller import GPU, Run
from bench.report import Fate, Report
from bench.traces import GPUS, Job, TraceError, declaring, read
from scheduler.engine import Engine
from scheduler.model import effects as ef
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order
from scheduler.model.resources import CPU, PODS, amounts, described
from scheduler.model.workload import (
    Phase,
    PlanNote,
    Pod,
    SeatNote,
    Uid,
)

PODS_A_NODE: Final = 110

RESTART: Final = 30.0
"""Seconds in which a job that goes on elsewhere computes nothing: what Pollux (OSDI'21) charges for a re-placement."""

NEVER: Final = float("inf")

PATIENCE: Final = 2_000
"""The engine's wishes to be woken in a row after which nothing more will come of them."""


class StuckError(RuntimeError):
    """The trace cannot end: jobs wait, and nothing that could happen would start them."""


class OverbookedError(RuntimeError):
    """More runs on a node than it has."""


def some_nodes(count: int, *, gpus: int = 8, racks: int = 1, cpu: int = 0) -> list[Node]:
    """Equal nodes, evenly in so many racks, in the order of their names.  cpu: cores of each."""
    return [
        Node(
            f"n{number:04d}",
            amounts({GPU: gpus, CPU: cpu * 1000, PODS: PODS_A_NODE}),
            {
                "kubernetes.io/hostname": f"n{number:04d}",
                "gangwright.io/rack": f"r{number * racks // count:03d}",
            },
        )
        for number in range(count)
    ]


def silent(policy: Policy) -> Policy:
    """The policy without repeated events for people: nobody reads them here, and each would stop the clock."""
    return replace(policy, announce_every=NEVER)


class Simulation:
    """One trace on one cluster under one policy. `now` is the time of the trace, in seconds."""

    def __init__(
        self, jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy, *, restart: float = RESTART
    ) -> None:
        self.engine = Engine(silent(policy))
        self.now = 0.0
        self.fates: list[Fate] = []
        self.newcomers: list[Run] = []
        """Who arrived at the last happening."""
        self._restart = restart
        self._nodes = nodes
        self._free = {node.name: Counter(dict(node.capacity)) for node in nodes}
        self._runs = [Run(job, number) for number, job in enumerate(sorted(jobs, key=lambda j: j.arrival))]
        self._check_fits()
        self._arrived = 0
        self._run_of: dict[Uid, Run] = {}
        """By pod."""
        self._owned: dict[str, Run] = {}
        """By owner, from arrival to end."""
        self._ends: list[tuple[float, int, int]] = []
        """When, whose, and in which of its lives."""
        self._late: list[ev.Event] = []
        """What is told at the next happening."""
        self._woken = 0
        self._carry_out: Mapping[type, Callable[[Any], Iterable[ev.Event]]] = {
            ef.WritePlan: self._write_plan,
            ef.Ungate: self._ungate,
            ef.Nominate: self._nominate,
            ef.Evict: self._evict,
            ef.SuspendJob: self._suspend,
            ef.ResumeJob: self._resume,
        }

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> list[Fate]:
        """Until the last job has ended; their fates in the order in which they ended.

        Raises StuckError, OverbookedError.
        """
        while not self.done:
            self.step()
        return self.fates

    @property
    def done(self) -> bool:
        """The last job has ended."""
        return len(self.fates) == len(self._runs)

    def step(self) -> None:
        """Go to the next happening, and let everything follow that follows from it at once."""
        if not self.engine.ledger.ready:
            self._tell(self._begin())
        own, wish = self._next_own(), self.engine.next_deadline()
        self._check_moves(own, wish)
        self.now = max(self.now, min(own, wish))
        told, self._late = self._late, []
        told += self._due_ends()
        told += self._due_arrivals()
        self._tell([*told, ev.Tick()] if wish <= self.now else told)

    def _check_moves(self, own: float, wish: float) -> None:
        """Raises StuckError when nothing can happen any more, or the engine asks again and again to be woken in
        vain.
        """
        self._woken = self._woken + 1 if wish < own and (own == NEVER or wish <= self.now) else 0
        if min(own, wish) == NEVER or self._woken > PATIENCE:
            waiting = [run.job.name for run in self._owned.values()]
            why = f"wants to be woken at {wish:g} s" if min(own, wish) < NEVER else "nothing comes"
            raise StuckError(
                f"{len(waiting)} jobs wait for ever at {self.now:g} s ({why}): {', '.join(waiting[:5])}"
            )

    def _begin(self) -> list[ev.Event]:
        return [*(ev.NodeSeen(node) for node in self._nodes), ev.Synced(), ev.TookOver()]

    def _next_own(self) -> float:
        arrival = self._runs[self._arrived].job.arrival if self._arrived < len(self._runs) else NEVER
        while self._ends and self._runs[self._ends[0][1]].life != self._ends[0][2]:
            heapq.heappop(self._ends)
        return min(arrival, self._ends[0][0] if self._ends else NEVER)

    def _due_ends(self) -> list[ev.Event]:
        told: list[ev.Event] = []
        while self._ends and self._ends[0][0] <= self.now:
            _, number, life = heapq.heappop(self._ends)
            run = self._runs[number]
            if run.life == life:
                told += self._end(run)
        return told

    def _due_arrivals(self) -> list[ev.Event]:
        told: list[ev.Event] = []
        self.newcomers = []
        while self._arrived < len(self._runs) and self._runs[self._arrived].job.arrival <= self.now:
            run = self._runs[self._arrived]
            self._arrived += 1
            self.newcomers.append(run)
            self._owned[run.owner.uid] = run
            told += [ev.OwnerSeen(run.traits()), *self._make(run)]
        return told

    def _tell(self, events: Iterable[ev.Event]) -> None:
        """What happened, and then all that the engine makes of it, until nothing more follows."""
        while True:
            effects = self.engine.observe(events, self.now)
            effects += self.engine.plan(self.now)
            told: list[ev.Event] = []
            for effect in effects:
                if not isinstance(effect, ef.Announce | ef.SetCondition):
                    told += self._carry_out[type(effect)](effect)
                    told.append(ev.EffectDone(effect))
            if not told:
                return
            events = told

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────

    def _make(self, run: Run) -> list[ev.Event]:
        """The controller makes the pods that the job lacks."""
        fresh = run.make(self.now)
        self._run_of |= {pod.uid: run for pod in fresh}
        return [ev.PodSeen(pod) for pod in fresh]

    def _end(self, run: Run) -> list[ev.Event]:
        """It is done. That its pods are gone is told later: an ended pod uses no room."""
        run.lost += run.penalty
        started = self.now if run.started is None else run.started
        hosts = len({pod.node for pod in run.pods.values()})
        self.fates.append(Fate(run.job, started, self.now, run.suspensions, run.evictions, run.lost, hosts))
        pods = self._take_down(run)
        self._late += [ev.PodGone(pod.uid, pod.key) for pod in pods]
        self._late.append(ev.OwnerGone(run.owner.uid))
        del self._owned[run.owner.uid]
        return [ev.PodSeen(replace(pod, phase=Phase.SUCCEEDED)) for pod in pods]

    def _take_down(self, run: Run) -> list[Pod]:
        """Its pods, which use no room any more."""
        pods = run.take_down()
        for pod in pods:
            if pod.node is not None:
                self._free[pod.node].update(dict(pod.demand.requests))
            del self._run_of[pod.uid]
        return pods

    def _gone(self, run: Run) -> list[ev.Event]:
        return [ev.PodGone(pod.uid, pod.key) for pod in self._take_down(run)]

    # ── effects ─────────────────────────────────────────────────────────────────────────────────────────

    def _change(self, uid: Uid, **changes: Any) -> list[ev.Event]:
        run = self._run_of[uid]
        run.pods[uid] = pod = replace(run.pods[uid], **changes)
        return [ev.PodSeen(pod)]

    def _write_plan(self, effect: ef.WritePlan) -> list[ev.Event]:
        return self._change(effect.uid, plan=PlanNote(effect.plan, effect.seats) if effect.seats else None)

    def _nominate(self, effect: ef.Nominate) -> list[ev.Event]:
        return self._change(effect.uid, nominated=effect.node or None)

    def _ungate(self, effect: ef.Ungate) -> list[ev.Event]:
        """Without its gate the pod is bound to its seat at once, and runs."""
        run = self._run_of[effect.uid]
        free = self._free[effect.node]
        free.subtract(dict(run.pods[effect.uid].demand.requests))
        if min(free.values()) < 0:
            raise OverbookedError(f"{effect.node} has no room for {effect.key} at {self.now:g} s")
        run.bound += 1
        if run.bound == run.job.members:
            heapq.heappush(self._ends, (run.start(self.now), run.number, run.life))
        return self._change(
            effect.uid,
            gated=False,
            seat=SeatNote(effect.node, effect.plan, effect.pin),
            pinned=effect.node if effect.pin else None,
            nominated=None,
            node=effect.node,
            phase=Phase.RUNNING,
            bound_at=self.now,
        )

    def _evict(self, effect: ef.Evict) -> list[ev.Event]:
        """A rigid job that loses one running member begins anew; the rest of its pods end with it."""
        run = self._run_of[effect.uid]
        run.evictions += run.stop(self.now, self._restart, saved=False)
        return [*self._gone(run), *self._make(run)]

    def _suspend(self, effect: ef.SuspendJob) -> list[ev.Event]:
        """Its pods save what they did, and go; the Job remembers what it has had."""
        run = self._owned[effect.owner.uid]
        if not run.pods:
            return []
        run.suspensions += run.stop(self.now, self._restart, saved=True)
        run.attained = effect.attained
        return [ev.OwnerSeen(run.traits(paused=True)), *self._gone(run)]

    def _resume(self, effect: ef.ResumeJob) -> list[ev.Event]:
        """Its controller makes new pods, which go on from where the last ones were."""
        run = self._owned.get(effect.owner.uid)
        if run is None or run.pods:
            return []
        return [ev.OwnerSeen(run.traits()), *self._make(run)]

    # ── what cannot be ──────────────────────────────────────────────────────────────────────────────────

    def _check_fits(self) -> None:
        """Raises StuckError for a job that the empty cluster could not hold."""
        for run in self._runs:
            job, wanted = run.job, run.demand.requests
            seats = sum(min(free[name] // amount for name, amount in wanted) for free in self._free.values())
            if seats < job.members:
                texts = (
                    f"{n} GPUs" if name == GPU else described(name, n) for name, n in wanted if name != PODS
                )
                demand = " and ".join(texts)
                raise StuckError(f"{job.name}: {job.members} × {demand} do not fit the empty cluster")


def main(
    trace: Annotated[
        Path, typer.Argument(help="A table of jobs, as in bench/data.", exists=True, dir_okay=False)
    ],
    *,
    nodes: Annotated[int, typer.Option(min=1, help="Equal nodes.")] = 12,
    gpus: Annotated[int, typer.Option(min=1, help="Of each node.")] = GPUS,
    racks: Annotated[int, typer.Option(min=1, help="Racks that the nodes are spread over.")] = 1,
    order: Annotated[Order, typer.Option(help="Who goes first.")] = Order.FIFO,
    backfill: Annotated[Backfill, typer.Option(help="What may start past who waits.")] = Backfill.RESERVE,
    restart: Annotated[
        float, typer.Option(min=0, help="Seconds that an interrupted job needs to go on.")
    ] = RESTART,
    suspend: Annotated[bool, typer.Option(help="Jobs may be suspended and resumed.")] = False,
    declare: Annotated[bool, typer.Option(help="Jobs state their true runtimes.")] = True,
) -> None:
    """What becomes of a trace's jobs, as one object of JSON; times are hours."""
    jobs = [replace(job, suspends=suspend) for job in read(trace)]
    policy = Policy(order=order, backfill=backfill)
    where = some_nodes(nodes, gpus=gpus, racks=racks)
    fates = Simulation(declaring(jobs) if declare else jobs, where, policy, restart=restart).run()
    print(json.dumps(Report.of(fates, nodes * gpus).as_json()), flush=True)


if __name__ == "__main__":
    ending.run(lambda: typer.run(main), OverbookedError, StuckError, TraceError)
