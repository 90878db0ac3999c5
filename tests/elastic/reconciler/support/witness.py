"""What must hold at every effect, whatever happens: the invariants of an elastic job, seen from outside.

The witness believes the world, not the membership: which processes really live, and what they really know.
"""

from typing import TYPE_CHECKING

from scheduler.elastic.job import Round, Spec, Status
from scheduler.elastic.reconciler import job_effects, job_events

if TYPE_CHECKING:
    from tests.elastic.reconciler.support.workers import Pod
    from tests.elastic.reconciler.support.world import World


class Witness:
    def __init__(self, world: "World") -> None:
        self.world = world
        self.written: dict[int, Round] = {}
        """What stands, or stood, at the API server."""
        self.latest = 0
        """The round that stands there now."""
        self.asked: set[int] = set()
        self.announced = 0
        """The change that members were called for, until a round is published for it; 0: none."""
        self.told: dict[tuple[int, str], job_effects.Assignment] = {}
        self.rings: dict[int, tuple[str, ...]] = {}
        self.records: dict[int, Round] = {}
        self.highest = 0
        self.given_up: set[str] = set()
        self.spec: Spec | None = None
        self.joins: dict[str, int] = {}
        self.restarts = 0
        """Of the gang, when it began as it is now."""
        self.committed = 0
        """The newest commit since then."""

    def heard(self, event: job_events.Event) -> None:
        if isinstance(event, job_events.SpecSeen):
            self.spec = event.spec
        if isinstance(event, job_events.Restored):
            self.asked.clear()
            self.announced = 0  # this master knows nothing of it, and calls them anew

    def saw(self, effect: job_effects.Effect) -> None:
        match effect:
            case job_effects.Announce(number):
                self._announce(number)
            case job_effects.Persist(status):
                self._persist(status)
            case job_effects.Publish():
                self._publish(effect)
            case job_effects.Abort(uid=uid) | job_effects.StopWorker(uid=uid):
                self.given_up.add(uid)
            case job_effects.Finish():
                assert effect.phase in {"Succeeded", "Failed"}
                self.announced = 0

    def stored(self, status: Status) -> None:
        record = status.assignment
        assert record is not None
        assert status.round == record.number >= self.latest, "the round at the API server went back"
        self.written[record.number] = record
        self.latest = record.number
        if not record.ring and not record.holding and record.leaving:
            self.committed = 0  # all go in order; what is not saved is meant to be given up

    def _announce(self, number: int) -> None:
        """One change at a time: it ends with a round, under its own number or, where somebody died meanwhile, a
        later one.
        """
        assert not self.announced, f"round {number} is announced while {self.announced} is under way"
        assert number > max(self.highest, self.latest, *self.asked, 0), "an old number was announced"
        self.announced = number

    def _persist(self, status: Status) -> None:
        record = status.assignment
        assert record is not None
        assert record.number not in self.asked, "one number, two rounds"
        assert record.number > self.highest, "a round number went back"
        self.asked.add(record.number)

    def _publish(self, effect: job_effects.Publish) -> None:
        number = effect.round
        if number >= self.announced:
            self.announced = 0
        assert number in self.written, "published before it was written"
        record = self.written[number]
        first_time = number not in self.records
        if self.records.setdefault(number, record) != record:
            raise AssertionError("a published round was changed")
        self.rings[number] = tuple(seat.uid for seat in record.ring)
        for uid, assignment in effect.assignments.items():
            assert assignment.round == number
            assert self.told.setdefault((number, uid), assignment) == assignment, "two answers for one round"
        staying = [one for one in effect.assignments.values() if not one.removed]
        if staying:
            assert number == self.latest, "published while another stands at the API server"
            assert number >= self.highest, "a round was published after a later one"
        if first_time:
            self._saver(effect, record)
        self.highest = max(self.highest, number)
        self.given_up |= {
            uid for uid, one in effect.assignments.items() if one.removed and not one.checkpoint
        }
        if first_time and staying:
            self._size(record)
            self._template(record)
            self._state(record)
        assert sum(one.checkpoint for one in effect.assignments.values()) <= 1

    def _saver(self, effect: job_effects.Publish, record: Round) -> None:
        """Who saves has the newest state; rank 0 of the former round, if it is one of those."""
        pod = self.world.pods.get(record.saver or "")
        if pod is None or pod.child != "asking":
            return
        others = [self.world.pods.get(seat.uid) for seat in (*record.holding, *record.leaving)]
        known = [one for one in others if one and one.child == "asking"]
        assert pod.step == max(one.step for one in known), "an old state is saved"
        assert not pod.fell or all(one.fell for one in known), "the first state of a training is saved"
        first = next((one for one in known if one.rank == 0 and one.round == pod.round), None)
        going = first is not None and first.uid not in effect.assignments
        assert first is None or going or first.step < pod.step or first is pod, "rank 0 was there to save"

    def _size(self, record: Round) -> None:
        assert self.spec is not None
        size = len(record.ring)
        assert self.spec.min_workers <= size <= self.spec.max_workers, f"{size} workers"

    def _template(self, record: Round) -> None:
        """One ring, one program."""
        people = [self.world.pods.get(seat.uid) for seat in record.ring]
        made = [pod.template for pod in people if pod]
        assert all(one == made[0] for one in made), "a ring of two templates"

    def _state(self, record: Round) -> None:
        """Rank 0 has the newest state of all that live and were not given up."""
        first = self.world.pods.get(record.ring[0].uid)
        if first is None or not first.active:
            return  # it died just now, and nobody knows yet
        people = [self.world.pods.get(seat.uid) for seat in record.ring]
        members = [pod for pod in people if pod]
        known = [pod for pod in members if pod.knows and pod.child == "asking"]
        if known:
            assert first.knows, "a newcomer before those that know"
            assert first.step == max(pod.step for pod in known), "rank 0 has not the newest state"
            assert not first.fell or all(pod.fell for pod in known), (
                "rank 0 has the first state of a training"
            )
        others = [
            pod for pod in self.world.pods.values()
            if pod.knows and pod.active and not (pod.cut or pod.deleting) and pod.uid not in self.given_up
        ]  # fmt: skip
        if others:
            assert first.knows, f"{others[0].name} knows the state, and a round begins without it"
            assert first.step >= max(pod.commit for pod in others), "a newer state lives outside of the round"

    def joined(self, pod: "Pod", assignment: job_effects.Assignment) -> None:
        """A worker goes into a round: forward only."""
        assert assignment.round > self.joins.get(pod.uid, 0) or pod.why == "newcomer"
        self.joins[pod.uid] = assignment.round
        told = pod.place if pod.process == 1 and pod.why == "newcomer" and not assignment.removed else None
        assert told in {None, (assignment.rank, assignment.size)}, "another place than its script was told"

    def met(self, present: "list[Pod]", first: "Pod", record: Round) -> None:
        """Nobody waits in a broadcast that the others skip, nobody goes on with another state."""
        if not record.sync:
            assert not record.restore, "a checkpoint for rank 0 alone, and no sync"
            assert len({(pod.step, pod.weights) for pod in present}) == 1, "different states, and no sync"
        anew = first.step == 0 and self.committed > 0
        assert not anew or self.world.status.restarts > self.restarts, "begun again, and nobody was told"
        if not first.knows or self.world.status.restarts > self.restarts:
            self.restarts = self.world.status.restarts
            self.committed = first.step
