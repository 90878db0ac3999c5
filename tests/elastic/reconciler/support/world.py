"""A world for one job: API server, kubelets, agents and a training that behaves as Horovod does. No clock, no chance of
its own.

A round begins to train when all its members have been told of it and live; one that misses lets the others wait: at the
doorstep until there is a newer round, in Horovod's `init` until its time is over, and then their processes die. A
member that vanishes makes the others fall back to their commit; a member that is frozen does so only after the
time-out. What the world sees of the effects is checked by `Witness`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from scheduler.elastic.job import Spec, Status, decode_status, encode_status
from scheduler.elastic.job.status import Phase
from scheduler.elastic.job.status_json import accepted_template
from scheduler.elastic.reconciler import Reconciler, Timeouts, job_effects, job_events
from tests.elastic.reconciler.support.witness import Witness
from tests.elastic.reconciler.support.workers import GRACE_S, START_S, WARM_S, Pod

STEP_S = 0.2
COMMIT_EVERY = 5
COLLECTIVE_S = 10.0
TICK = 0.1
WRITE_S = 0.1
EVICTION_S = 60.0
"""From the loss of a node until its pods are taken away; Kubernetes' own default is some 340 s."""
SIZING_S = 5.0
"""Seconds after which the policy says again what it wants."""
TEMPLATE = {"spec": {"containers": [{"name": "worker", "image": "train"}]}}


def edited(number: int = 2) -> dict[str, Any]:
    """The template with another image."""
    return {"spec": {"containers": [{"name": "worker", "image": f"train:{number}"}]}}


class Crash(Exception):  # noqa: N818 - it is what happens, not what is wrong
    """The master dies here."""


@dataclass
class Faults:
    """What goes wrong on the way; the walk sets it. Each function is asked for every single thing."""

    lost: Callable[[], bool] = lambda: False
    late: Callable[[], float] = lambda: 0.0
    twice: Callable[[], bool] = lambda: False
    crash: Callable[[], bool] = lambda: False
    mute: Callable[[], bool] = lambda: False
    """The end of a process says nothing of its checkpoint."""
    deep: Callable[[], bool] = lambda: True
    """A member of a round is in `init` already when another is missed, not at the doorstep."""


class World:
    """One job in its cluster. `nodes` are names, each with room for `room` workers."""

    limits = Timeouts(start=120.0, hang=60.0, stand=0.0)
    """A wish counts at once, but for a `Patient` one."""
    room = 1
    asks: bool = False
    """Scripts ask for rank and size while they set up."""
    meet_s = 0.0
    """For members that have all been told to exchange addresses and begin."""
    compute = 0.5
    """Part of a step that a member of usual speed computes."""
    usual: int | None = None
    """Samples that it computes in that time; None: however many it takes."""
    coalesces = False
    """The master looks once a tick, at all that it was told in it; else at each event."""
    counts = 8.0
    """Samples of a step; 0 for a script that tells of none."""

    def __init__(self, spec: Spec, nodes: int = 8, faults: Faults | None = None) -> None:
        self.spec, self.generation = spec, 1
        self.nodes = [f"n{place}" for place in range(nodes)]
        self.cordoned: set[str] = set()
        self.faults = faults or Faults()
        self.now = 1_000_000.0
        self.pods: dict[str, Pod] = {}
        self.made = 0
        self.stored: dict[str, Any] | None = None
        self.writing: tuple[float, Status, dict[str, Any]] | None = None
        self.post: list[tuple[float, int, Callable[[], None]]] = []
        self.posted = 0
        self.disk: int | None = None
        """Steps in the checkpoint."""
        self.disk_weights = "disk"
        self.told: list[job_effects.Effect] = []
        self.down_until = 0.0
        self.masters = 0
        self.up = False
        self.unseen: list[Pod] | None = None
        """What the watch of pods has to tell when it stands again; None: it stands."""
        self.want: int | None = None
        self.size_due = 0.0
        self.witness = Witness(self)
        self.begin()

    # The master

    def begin(self) -> None:
        """A master starts, and reads what there is."""
        self.up, self.due = True, self.now
        self.masters += 1
        self.unseen = None
        self.writing = None
        self.membership = Reconciler("ns/job", selector="gangwright.io/elastic-job=job", limits=self.limits)
        self.handle(job_events.Restored(decode_status(self.stored), accepted_template(self.stored)))
        self.handle(job_events.SpecSeen(self.spec, self.generation))
        for node in sorted(self.cordoned):
            self.handle(job_events.NodeDoomed(node))
        for pod in list(self.pods.values()):
            self.handle(self.seen(pod))
        self.handle(job_events.Listed())
        if self.want is not None:
            self.size(self.want)

    def die(self, seconds: float) -> None:
        """The master dies, and is back after a while."""
        self.up, self.down_until, self.post, self.writing = False, self.now + seconds, [], None

    def handle(self, event: job_events.Event) -> None:
        if not self.up:
            return
        self.witness.heard(event)
        self.membership.take(event, self.now)
        if not self.coalesces:
            self.reconcile()

    def reconcile(self) -> None:
        """The master does what follows from all that it was told."""
        if not self.up:
            return
        try:
            for effect in self.membership.reconcile(self.now):
                if self.faults.crash():
                    raise Crash
                self.told.append(effect)
                self.witness.saw(effect)
                getattr(self, "_" + type(effect).__name__.lower(), self._nothing)(effect)
        except Crash:
            self.die(1.0)
        self.due = self.membership.next_deadline(self.now)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self.posted += 1
        self.post.append((self.now + seconds, self.posted, what))

    def send(self, event: job_events.Event) -> None:
        """Something on its way to the master: perhaps lost, late, or twice."""
        if self.faults.lost():
            return
        for _ in range(2 if self.faults.twice() else 1):
            late = self.faults.late()
            self.later(late, lambda: self.handle(event)) if late else self.handle(event)

    # Effects

    def _nothing(self, _: job_effects.Effect) -> None: ...

    def _startworker(self, effect: job_effects.StartWorker) -> None:
        self.made += 1
        pod = Pod(f"u{self.made}", f"w{self.made}", effect.number, effect.role, self.now, effect.avoid)
        pod.template = self.membership.spec.template
        self.pods[pod.uid] = pod
        self.tell(pod)

    def _stopworker(self, effect: job_effects.StopWorker) -> None:
        pod = self.pods.get(effect.uid)
        if pod and not pod.deleting:
            self.delete(pod, effect.grace_s)

    def _announce(self, effect: job_effects.Announce) -> None:
        for pod in self.pods.values():
            if not pod.cut and not self.faults.lost():
                pod.called = max(pod.called, effect.round)

    def _persist(self, effect: job_effects.Persist) -> None:
        accepted = {"template": self.witness.spec.template}
        self.writing = (self.now + WRITE_S, effect.status, encode_status(effect.status, accepted))

    def _publish(self, effect: job_effects.Publish) -> None:
        for uid, assignment in effect.assignments.items():
            pod = self.pods.get(uid)
            asks = (
                pod and pod.active and not pod.cut and pod.child == "asking" and pod.round < assignment.round
            )
            if pod and asks and not self.faults.lost():
                pod.got = assignment

    def _abort(self, effect: job_effects.Abort) -> None:
        pod = self.pods.get(effect.uid)
        if pod and not pod.cut:
            pod.abort = effect.why

    # The API server and the kubelets

    def seen(self, pod: Pod) -> job_events.WorkerSeen:
        phase = pod.phase
        waiting = pod.broken if pod.node and phase == "Pending" else ""
        return job_events.WorkerSeen(
            pod.uid,
            pod.name,
            pod.node,
            pod.role,
            phase,
            pod.gated,
            pod.deleting,
            waiting,
            pod.number,
            float(int(pod.made)),  # the API server writes whole seconds
            pod.avoid,
            pod.cause,
            pod.plain,
        )

    def tell(self, pod: Pod) -> None:
        """The watch tells the pod as it is by then, in order; it may be late, and never skips the last."""
        self.later(self.faults.late(), lambda: self._tell_now(pod))

    def _tell_now(self, pod: Pod) -> None:
        if self.unseen is not None:
            self.unseen.append(pod)
            return
        self.handle(self.seen(pod) if pod.uid in self.pods else job_events.WorkerGone(pod.uid))

    def delete(self, pod: Pod, grace_s: float = GRACE_S) -> None:
        if not pod.deleting:
            pod.deleting, pod.kill_at = True, self.now + grace_s
            self.tell(pod)
        if not pod.running:
            self.remove(pod)

    def remove(self, pod: Pod) -> None:
        self.pods.pop(pod.uid, None)
        self.tell(pod)

    def change(self, **fields: Any) -> None:
        """The user changes the spec."""
        import msgspec

        self.spec = msgspec.structs.replace(self.spec, **fields)
        self.generation += 1
        self.handle(job_events.SpecSeen(self.spec, self.generation))

    def size(self, want: int) -> None:
        """The policy says so."""
        self.want, self.size_due = want, self.now + SIZING_S
        self.handle(job_events.Sized(want, "test", "the test says so"))

    def cordon(self, node: str) -> None:
        self.cordoned.add(node)
        self.handle(job_events.NodeDoomed(node))

    def uncordon(self, node: str) -> None:
        self.cordoned.discard(node)
        self.handle(job_events.NodeCleared(node))

    def lose_sight(self) -> None:
        """The watch of pods breaks; the master finds out after a while."""
        missed: list[Pod] = []
        self.unseen = missed
        why = job_events.LostSight("the watch of pods is down")
        self.later(10.0, lambda: self.handle(why) if self.unseen is missed else None)

    def see_again(self) -> None:
        """The watch stands again; what it missed comes after that."""
        pods, self.unseen = self.unseen or [], None
        self.handle(job_events.SawAgain())
        for pod in pods:
            self.tell(pod)

    # Time

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let it pass; true as soon as `until` holds, which is looked at only where something may have happened."""
        end = self.now + seconds
        while self.now < end:
            if until and until():
                return True
            quiet = int((min(self._next(), end) - self.now) / TICK - 1e-6)
            self.now = round(self.now + max(0, quiet) * TICK, 6)
            self.tick()
        return bool(until and until())

    def _next(self) -> float:
        """When a tick has something to do again, at the earliest; the time that it is where that is not known."""
        due = [one[0] for one in self.post]
        if self.writing and self.up:
            due.append(self.writing[0])
        if self.want is not None:
            due.append(self.size_due)
        due.append(self.due if self.up else self.down_until)
        for pod in self.pods.values():
            due += self._next_of(pod)
        return min(due)

    def _next_of(self, pod: Pod) -> Iterator[float]:
        """The same of one pod: its kubelet, then its agent."""
        if pod.gated and not pod.deleting:
            yield self.now
        if pod.evicted_at is not None and not pod.deleting:
            yield pod.evicted_at
        if pod.deleting:
            yield pod.kill_at if pod.running and (pod.left or pod.cut) else self.now
        if pod.phase == "Pending" and pod.node and not pod.broken:
            yield pod.made + 3
        if not pod.running:
            return
        yield pod.beat_due
        if pod.report and not pod.cut:
            yield pod.report_due
        if pod.abort and pod.child not in {"none", "ended"}:
            yield self.now
        if pod.child == "starting":
            yield pod.since + START_S
        elif pod.child == "warming" and not pod.never_ready:
            yield pod.since + START_S + WARM_S
        elif pod.child == "asking":
            yield pod.ask_due if pod.got is None else self.now
        elif pod.child == "saving":
            yield pod.since + 1.0
        elif pod.child == "training":
            yield pod.progress + STEP_S
        elif pod.child == "init":
            yield self.now

    def tick(self) -> None:
        self.now = round(self.now + TICK, 6)
        if not self.up and self.now >= self.down_until:
            self.begin()
        self._deliver()
        self._write()
        self._seat()
        for pod in list(self.pods.values()):
            self._kubelet(pod)
            if pod.running:
                self._agent(pod)
        self._train()
        if self.want is not None and self.now >= self.size_due:
            self.size(self.want)
        if self.up and self.now >= self.due:
            self.handle(job_events.Elapsed())
        if self.coalesces:
            self.reconcile()

    def _deliver(self) -> None:
        due = sorted((one for one in self.post if one[0] <= self.now), key=lambda one: one[:2])
        self.post = [one for one in self.post if one[0] > self.now]
        for _, _, what in due:
            what()

    def _write(self) -> None:
        if self.writing and self.up and self.now >= self.writing[0]:
            (_, status, self.stored), self.writing = self.writing, None
            self.witness.stored(status)
            self.later(0.0, lambda: self.handle(job_events.Persisted(status.round)))

    def _seat(self) -> None:
        """The scheduler: cores together or not at all, surplus one by one; nobody who is deleted."""
        taken = Counter(pod.node for pod in self.pods.values() if pod.node)
        open_ = [node for node in self.nodes if node not in self.cordoned]
        free = [node for node in open_ for _ in range(self.room - taken[node])]
        waiting = [pod for pod in self.pods.values() if pod.gated and not pod.deleting]
        cores = [pod for pod in waiting if pod.role == "core"]
        placed = sum(pod.role == "core" and not pod.gated for pod in self.pods.values())
        if cores and placed + len(cores) >= self.spec.min_workers:
            self._place(cores, free)
        for pod in waiting:
            if pod.role == "surplus" and not cores:
                self._place([pod], free)

    def _place(self, pods: list[Pod], free: list[str]) -> None:
        """All of these or none; who may go to few nodes chooses first. What a pod avoids, it avoids as long as it
        exists.
        """
        left, seats = list(free), list[tuple[Pod, str]]()
        for pod in sorted(pods, key=lambda pod: -len(pod.avoid)):
            node = next((node for node in left if node not in pod.avoid), None)
            if node is None:
                return
            left.remove(node)
            seats.append((pod, node))
        free[:] = left
        for pod, node in seats:
            self._seated(pod, node)

    def _seated(self, pod: Pod, node: str) -> None:
        pod.node, pod.gated = node, False
        self.later(0.2, lambda: self._launch(pod))
        self.tell(pod)

    def _launch(self, pod: Pod) -> None:
        if pod.uid in self.pods and not pod.deleting and not pod.broken and pod.phase == "Pending":
            pod.phase = "Running"
            pod.start(self.now)
            pod.beat_due = self.now
        self.tell(pod)

    def _kubelet(self, pod: Pod) -> None:
        if pod.phase == "Pending" and pod.node and not pod.broken and self.now - pod.made > 3:
            self._launch(pod)
        if pod.evicted_at is not None and self.now >= pod.evicted_at:
            self.delete(pod)
        if pod.deleting and (
            pod.phase in {"Succeeded", "Failed"} or self.now >= pod.kill_at or not pod.running
        ):
            self.remove(pod)

    # The agents

    def _agent(self, pod: Pod) -> None:
        if pod.deleting and not pod.left and not pod.cut:
            self._leave(pod)
        if pod.abort and pod.child not in {"none", "ended"}:
            self.end(pod, None, 9)
        if pod.report and self.now >= pod.report_due and not pod.cut:
            self._report(pod)
        if self.now >= pod.beat_due:
            pod.beat_due = self.now + 1.0
            self._beat(pod)
        if not pod.active:
            return
        if pod.child == "starting" and self.now - pod.since >= START_S and self._placed(pod):
            if pod.crashes:
                self.end(pod, 1, None)
            else:
                pod.child = "warming"
        elif pod.child == "warming" and self.now - pod.since >= START_S + WARM_S and not pod.never_ready:
            pod.arrive("newcomer", self.now)
        elif pod.child == "asking":
            self._ask(pod)
        elif pod.child == "saving" and self.now - pod.since > 1.0:
            self._save(pod)

    def _placed(self, pod: Pod) -> bool:
        """It knows what to expect of its first round, where its script asks for that."""
        if self.asks and pod.place is None and self.up and not pod.cut:
            place = self.membership.place(pod.uid)
            pod.place = (place.rank, place.size) if place else None
        return not self.asks or pod.place is not None

    def _save(self, pod: Pod) -> None:
        """It ends well when the file stands, and badly when it does not."""
        if pod.disk_full:
            self.end(pod, 1, None, why="CheckpointError: no space left on the device")
            return
        self.disk, self.disk_weights = pod.commit, pod.commit_weights
        pod.says["checkpoint_step"] = float(pod.commit)
        self.end(pod, 0, None)

    def _leave(self, pod: Pod) -> None:
        """SIGTERM: who is in no round, and not at the barrier, ends at once; the others say so and wait."""
        if pod.round == 0 and pod.child != "asking":
            self.end(pod, None, 15, final=True)
        elif self.up and not self.faults.lost():
            pod.left = True
            self.send(job_events.Leaving(pod.uid, "SIGTERM", pod.kill_at - self.now))

    def _report(self, pod: Pod) -> None:
        if not self.up or self.faults.lost() or pod.report is None:
            pod.report_due = self.now + 0.5
            return
        report, pod.report = pod.report, None
        code = report.code
        self.handle(report)
        if self.faults.twice():
            self.send(report)
        if self.up and self.membership.restart(pod.uid) and not pod.deleting:
            pod.start(self.now)
        else:
            self._pod_over(pod, code)

    def _pod_over(self, pod: Pod, code: int | None) -> None:
        pod.phase = "Succeeded" if code == 0 else "Failed"
        self.tell(pod)

    def end(
        self, pod: Pod, code: int | None, signal: int | None, *, final: bool = False, why: str = ""
    ) -> None:
        """Its process ends; the others of its round notice at once."""
        if pod.child in {"none", "ended"}:
            return
        was = pod.child
        pod.child = "ended"
        pod.frozen = pod.hung = False
        if final:
            self._pod_over(pod, code)
        else:
            saved = None if self.faults.mute() else pod.says.get("checkpoint_step")
            step = None if saved is None else int(saved)
            pod.report_due = self.now
            pod.report = job_events.Exited(
                pod.uid,
                code,
                signal,
                why,
                tail=("the end",),
                round=pod.round,
                checkpoint_step=step,
                process=pod.process,
                returned=was == "exporting",
                entered=was != "starting",
            )
        if was == "training":
            self._break(pod.round)

    def _break(self, number: int) -> None:
        """A connection was reset."""
        for other in self.pods.values():
            if other.child == "training" and other.round == number and other.active and not other.hung:
                other.arrive("failure", self.now)

    def _ask(self, pod: Pod) -> None:
        if pod.got is not None:
            self._told(pod, pod.got)
        elif self.now >= pod.ask_due:
            pod.ask_due = self.now + 2.0
            if self.up and not pod.cut:
                self.send(
                    job_events.Arrived(
                        pod.uid,
                        pod.round,
                        pod.step,
                        pod.commit,
                        pod.why,
                        pod.fingerprint,
                        pod.step * self.counts,
                        pod.another,
                        pod.place if not pod.round else None,
                        pod.process > 1,
                    )
                )

    def _told(self, pod: Pod, assignment: job_effects.Assignment) -> None:
        pod.since, pod.got = self.now, None
        if assignment.removed:
            if assignment.checkpoint:
                pod.child = "saving"
            else:
                self.end(pod, 0, None)
            return
        pod.round, pod.child, pod.rank = assignment.round, "init", assignment.rank
        pod.local = assignment.batch.local if assignment.batch else 0
        pod.deep, pod.met_at = self.faults.deep(), self.masters
        if assignment.restore and assignment.rank == 0 and self.disk is not None:
            pod.take(self.disk, self.disk_weights)
        self.witness.joined(pod, assignment)

    def _beat(self, pod: Pod) -> None:
        if pod.cut or not self.up:
            return
        words = {"starting": "Starting", "warming": "WarmingUp", "asking": "Ready", "init": "Ready"}
        word = "Ready" if pod.round == 0 and pod.child == "asking" else words.get(pod.child, "Training")
        busy = pod.child in {"training", "init"}
        stands = (pod.frozen or pod.hung or self._stalled(pod)) and busy
        silent = self.now - pod.progress if stands else self._idle_alone(pod)
        took = STEP_S if pod.step > pod.beaten else None
        pod.beaten = pod.step
        part = 1.0 if self.usual is None else pod.local / self.usual
        child = "none" if pod.child in {"none", "ended"} else "stopped" if pod.frozen else "running"
        self.send(
            job_events.Beat(
                pod.uid, word, pod.round if pod.child in {"training", "asking"} else 0 if pod.round == 0 else pod.round,
                pod.step, pod.commit, pod.step * self.counts, pod.step / 100, took, STEP_S * self.compute * pod.slowness * part, silent,
                busy and not pod.hung, child, dict(pod.says), ("batch", "rate", "epoch"), pod.child == "exporting",
            )
        )  # fmt: skip
        if self.up:
            number, abort = self.membership.beat_answer(pod.uid)
            if not self.faults.lost():
                pod.called = max(pod.called, number)
                if abort and not abort.startswith("is not a worker"):
                    pod.abort = abort

    def _idle_alone(self, pod: Pod) -> float:
        """Seconds for which a newcomer has taken no step."""
        alone = pod.child in {"starting", "warming"} and not pod.steps_alone
        return self.now - pod.since if alone else 0.0

    # The training

    def _stalled(self, pod: Pod) -> bool:
        return any(
            one.round == pod.round and (one.frozen or one.hung or one.cut)
            for one in self.pods.values()
            if one is not pod
        )

    def _train(self) -> None:
        """Each round of which somebody is in `init` or at work."""
        rounds = {pod.round for pod in self.pods.values() if pod.child in {"init", "training"}}
        for number in sorted(rounds):
            ring = self.witness.rings.get(number, ())
            people = [self.pods.get(uid) for uid in ring]
            present = [
                pod for pod in people if pod and pod.round == number and pod.child in {"init", "training"}
            ]
            if len(present) < len(ring) or any(not pod.running for pod in present):
                self._incomplete(present)
            elif any(pod.frozen or pod.hung for pod in present):
                self._waiting(present)
            elif all(pod.child == "init" and pod.met_at == self.masters and self.up for pod in present):
                self._meet(present, number)
            elif any(pod.child == "init" for pod in present):
                self._incomplete(present)  # values that one of them laid down went with a master
            else:
                self._step(present)

    def _incomplete(self, present: list[Pod]) -> None:
        """Somebody is missing: those that train fail at once; those that meet wait until their time is over, and die
        of it.
        """
        for pod in present:
            if pod.child == "training" and pod.active and not pod.hung:
                pod.arrive("failure", self.now)
            elif pod.child == "init" and pod.active:
                self._not_met(pod)

    def _waiting(self, present: list[Pod]) -> None:
        """One is stopped: the others sit in a collective, and fail when its time is over; never, when it is only
        hung.
        """
        for pod in present:
            frozen_peer = any(one.frozen for one in present if one is not pod)
            if not pod.active or pod.hung:
                continue
            if pod.child == "training" and frozen_peer and self.now - pod.progress > COLLECTIVE_S:
                pod.arrive("failure", self.now)
            elif pod.child == "init":
                self._not_met(pod)

    def _not_met(self, pod: Pod) -> None:
        """Who is still at the doorstep turns back when there is a newer round."""
        if self.now - pod.since > COLLECTIVE_S:
            self.end(pod, None, 6)
        elif not pod.deep and pod.called > pod.round:
            pod.arrive("failure", self.now)

    def _meet(self, present: list[Pod], number: int) -> None:
        """All are there: the state goes round."""
        if any(pod.child == "init" and self.now - pod.since < self.meet_s for pod in present):
            return
        record = self.witness.records[number]
        first = next(pod for pod in present if pod.uid == record.ring[0].uid)
        self.witness.met(present, first, record)
        for pod in present:
            if record.sync:
                pod.take(first.step, first.weights)
            pod.keep()
            pod.another = False
            pod.child, pod.progress = "training", self.now
        stage = max(pod.stage for pod in present)
        for pod in present:
            pod.fell = pod.stage < stage
            if pod.fell:
                pod.begin_another(stage, self.now)

    def _step(self, present: list[Pod]) -> None:
        """All take the step, or none; at a commit they look whether they are called."""
        assert len({(pod.step, pod.weights) for pod in present}) == 1, "trained on different weights"
        slowest = max(pod.slowness for pod in present)
        if self.now - present[0].progress < STEP_S * slowest - 1e-6:
            return
        for pod in present:
            pod.step += 1
            pod.progress = self.now
            if pod.step % COMMIT_EVERY == 0:
                pod.keep()
                self.witness.committed = max(self.witness.committed, pod.step)
        if present[0].step % COMMIT_EVERY == 0 and any(pod.called > pod.round for pod in present):
            for pod in present:
                pod.keep()
                pod.arrive("announced", self.now)

    # What tests do and ask

    @property
    def status(self) -> Status:
        return self.membership.status(self.now)

    @property
    def phase(self) -> Phase:
        return self.status.phase

    def members(self) -> list[Pod]:
        """Those that train, by rank."""
        ring = self.status.assignment.ring if self.status.assignment else ()
        return [self.pods[seat.uid] for seat in ring if seat.uid in self.pods]

    def trains(self, size: int | None = None) -> bool:
        """A round of this size is at work, and nothing else is going on."""
        status = self.status
        if status.phase is not Phase.RUNNING or (size is not None and status.workers != size):
            return False
        members = self.members()
        return len(members) == status.workers and all(one.child == "training" for one in members)

    def steps(self) -> int:
        return max([pod.step for pod in self.pods.values()], default=0)

    def kill(self, pod: Pod, *, signal: int = 9) -> None:
        self.end(pod, None, signal)

    def die_out(self, pod: Pod) -> None:
        """All of its container is killed, its agent too: the kubelet alone can tell of it."""
        pod.child, pod.report = "ended", None
        pod.frozen = pod.hung = False
        self._pod_over(pod, 137)
        self._break(pod.round)

    def freeze(self, pod: Pod) -> None:
        pod.frozen, pod.progress = True, self.now

    def hang(self, pod: Pod) -> None:
        pod.hung, pod.progress = True, self.now

    def lose_node(self, pod: Pod) -> None:
        """The host is gone without a word: nobody resets a connection, the pod stays in the API."""
        pod.cut = pod.frozen = True
        pod.evicted_at = self.now + EVICTION_S
        pod.progress = self.now

    def begin_another(self) -> None:
        """The training function has returned on all ranks, and the script calls the next one."""
        for pod in self.members():
            pod.begin_another(pod.stage + 1, self.now)

    def export(self, pod: Pod) -> None:
        """Its training function has returned, and its script does something else."""
        pod.child = "exporting"

    def finish(self, *pods: Pod) -> None:
        """The script has come to its end on all ranks, or on these."""
        ended = pods or self.members()
        for pod in ended:
            self.export(pod)
        for pod in ended:
            self.end(pod, 0, None)

    def sentences(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.told if isinstance(effect, kind)]


class Patient(World):
    """Surplus is started for a wish that has stood for a moment, as everywhere but in tests of other things."""

    limits = Timeouts(start=World.limits.start, hang=World.limits.hang)
