"""The stored state of one job between two events.

Lives here: fields. Never here: a rule. Facts that must survive a restart of the master are in the job's status as well
(`status_report` writes them, `event_handlers` reads them back). The rest is reported again by pods and workers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler.elastic.job.spec import Problem, Spec
from scheduler.elastic.job.status import Barred, Checkpoint, Condition, Resize, Round
from scheduler.elastic.reconciler.job_effects import Assignment, Effect
from scheduler.elastic.reconciler.job_events import Sized, Uid
from scheduler.elastic.reconciler.timeouts import Timeouts
from scheduler.elastic.reconciler.worker import Worker
from scheduler.elastic.sizing.job_view import History


@dataclass(slots=True)
class Transition:
    """The change of round in progress; there is at most one."""

    number: int
    cause: str
    since: float
    planned: Round | None = None
    """The decided round, on its way to the API server."""
    stands: bool = False
    """The planned round is stored in the API server."""
    written: bool = False
    """A round that was decided before and is outdated may be stored in the API server."""
    lost: bool = False
    """No worker with the state is left; that has been counted."""


@dataclass(slots=True)
class Start:
    """A pod that was requested and not seen yet."""

    role: str
    at: float


class Backoff(NamedTuple):
    """Previous failures of a role, which delay its next start."""

    failures: int = 0
    """Consecutive failures of starts or members."""
    failed_at: float = 0.0
    """When the last failure happened."""
    until: float = 0.0
    """No start before this time."""
    why: str = ""
    """Which worker failed last, and how, or the error of the API server."""


class Mark(NamedTuple):
    """Start of a throughput measurement, and the reports since then."""

    round: int
    at: float
    samples: float
    step: int
    last: int
    """The newest reported step."""
    seconds: float | None = 0.0
    """Duration of the steps since then as reported; None if some of it was not reported."""


@dataclass(slots=True)
class Sizing:
    """The wanted number of workers, and the requested ones. Written by `scaling`."""

    sized: Sized | None = None
    """The last decision of the policy."""
    want: int = 0
    wanted_by: str = ""
    want_at: float = 0.0
    starts: dict[int, Start] = field(default_factory=dict)
    """By number: pods that were requested and not seen yet."""
    unseen: dict[int, Start] = field(default_factory=dict)
    """Starts that are assumed to have failed, but for which a pod or a rejection may still arrive."""
    counter: int = 0
    """The highest number of a StartWorker."""
    refusal: str = ""
    """Why the API server rejected a pod."""


@dataclass(slots=True)
class Rounds:
    """The current round, and the change in progress. Written by `round_transition`."""

    record: Round = field(default_factory=Round)
    """The round stored in the API server."""
    published: bool = False
    published_at: float = 0.0
    settled: bool = True
    """Every member of the round has trained in it."""
    floor: int = 0
    """The highest round number ever used."""
    transition: Transition | None = None
    pending: bool = False
    """There is a cause for a change that has not begun yet."""
    joining_at: float | None = None
    """Since when a worker that the next round includes is at the barrier."""
    before: int = 0
    """Number of members of the previous round that trained."""
    fruitless: int = 0
    """Rounds since the last commit that began because the previous one had failed."""
    paused_at: float | None = None
    """When members stopped training for the transition."""
    reached: int = 0
    """The newest step known to be committed by any worker; 0: nothing can be lost yet."""
    started_at: float | None = None
    last_resize: Resize | None = None
    resized: int = 0
    """The round described by `last_resize`."""
    price: float | None = None
    """Seconds without a step that a change of the round costs, from the last usable one; see `throughput.price`."""
    attained: float = 0.0
    """Worker-seconds of all rounds, up to `attained_at`."""
    attained_at: float | None = None
    """After a restart of the master this is the job's start: its size at present stands for all earlier ones."""
    changed_at: float | None = None
    """When the last round took its first step."""


@dataclass(slots=True)
class Template:
    """The template for workers. Written by `template_revision`."""

    current: dict[str, Any] | None = None
    """Template of the spec with which the gang was started. None: not known yet."""
    edited: dict[str, Any] | None = None
    """Template of the present spec, if it differs."""
    told: bool = False
    """The edit was reported to users."""
    retired: int | None = None
    """Workers up to this number were created from an outdated template."""


@dataclass(slots=True)
class Straggler:
    """The straggler that is being replaced. Written by `stragglers`."""

    uid: Uid | None = None
    since: float = 0.0
    not_before: float = 0.0
    """No other straggler is replaced before this time."""


@dataclass(slots=True)
class Exits:
    """Process exits, and which of them count. Written by `worker_exits`."""

    restarts: int = 0
    """Restarts of the whole gang."""
    last: str = ""
    """Which worker failed last, and how, since the job last made progress."""
    furthest: tuple[int, float] = (0, 0.0)
    """The highest step and the highest epoch reported in any round. A failure resets neither."""
    count: int = 0
    """Processes that failed by their own fault since then; failures with one common cause count once."""
    at: float = 0.0
    """When the last of them failed."""
    finishing_at: float | None = None
    """When the first member of the last round exited with 0."""


@dataclass(slots=True)
class Backoffs:
    """Delays of new workers, and the nodes they avoid. Written by `start_backoff`."""

    barred: dict[str, Barred] = field(default_factory=dict)
    barred_at: dict[str, float] = field(default_factory=dict)
    roles: dict[str, Backoff] = field(default_factory=dict)
    """Role → its consecutive failures; roles without any are left out."""


@dataclass(slots=True)
class Completion:
    """The end of the job. Written by `completion`."""

    over: tuple[str, str, str] | None = None
    """Phase, reason and message of the end."""
    held: float = 0.0
    """Seconds in which the job held nodes without training, summed up since it last made progress."""
    counted_at: float | None = None
    """Time up to which `held` is counted."""
    counted_for: tuple[int, float] = (0, 0.0)
    """Progress of the job at that time."""


@dataclass(slots=True)
class Saving:
    """Checkpoints as reported by workers. Written by `checkpoints`."""

    saved: bool = False
    """The round's saver has reported a successful save."""
    error: str = ""
    """Why the save failed; workers with the state keep it."""
    checkpoint: Checkpoint | None = None


@dataclass(slots=True)
class Measured:
    """Measurements from beats. Written by `throughput`."""

    history: History = field(default_factory=History)
    mark: Mark | None = None
    """Start of the next throughput measurement."""
    rate: float | None = None
    """Samples per second of the whole job; None if the script reports no samples."""
    epoch_mark: tuple[float, float] | None = None
    epoch_s: float | None = None
    values: dict[str, float] = field(default_factory=dict)
    warm: float | None = None
    """Seconds between the last newcomer's assignment to a node and READY."""
    resumed_at: float | None = None
    """When the first step of the round was reported."""
    uses: frozenset[str] | None = None
    """What the script was seen to ask for and to report. None: before its first step, or not reported by agents."""


@dataclass(slots=True)
class Health:
    """Heartbeats. Written by `failure_detection`."""

    unheard: str = ""
    """Message about members that are silent but not treated as lost."""
    quiet_until: float = 0.0
    """Silence is not a failure before this time."""


@dataclass(slots=True)
class State:
    """One job: the reported facts, and a part for each module that stores something."""

    key: str
    selector: str = ""
    limits: Timeouts = field(default_factory=Timeouts)
    spec: Spec | None = None
    """The wanted spec."""
    problems: tuple[Problem, ...] = ()
    generation: int = 0
    listed: bool = True
    """Every existing pod has been reported."""
    workers: dict[Uid, Worker] = field(default_factory=dict)
    gone: dict[Uid, None] = field(default_factory=dict)
    """The latest deleted pods, so that late events from them do not bring them back."""
    blind: str = ""
    """Why the known pods may be outdated: the error of their watch. Empty: the watch is healthy."""
    doomed: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Node → why, since when."""
    fingerprint: str | None = None
    sizing: Sizing = field(default_factory=Sizing)
    rounds: Rounds = field(default_factory=Rounds)
    template: Template = field(default_factory=Template)
    straggler: Straggler = field(default_factory=Straggler)
    exits: Exits = field(default_factory=Exits)
    backoff: Backoffs = field(default_factory=Backoffs)
    completion: Completion = field(default_factory=Completion)
    saving: Saving = field(default_factory=Saving)
    measured: Measured = field(default_factory=Measured)
    health: Health = field(default_factory=Health)
    told: tuple[Round, Mapping[Uid, Assignment]] | None = None
    """The assignments of a round, cached. Written by `round_plan`."""
    conditions: dict[str, Condition] = field(default_factory=dict)
    """Written by `status_report`."""
    looked_at: float | None = None
    """When the rules last ran. Written by `reconciler`, as is `due`."""
    due: float = 0.0
    """When they run again if nothing happens before."""
    todo: list[Effect] = field(default_factory=list)

    def do(self, effect: Effect) -> None:
        self.todo.append(effect)
