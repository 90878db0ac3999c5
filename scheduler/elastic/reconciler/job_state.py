"""All that is remembered of one job between two events.

Lives here: fields. Never here: a rule. Whatever a restart of the master must not lose stands in the job's status too
(`status_report` writes it there, `event_handlers` reads it back); the rest is heard again from pods and workers.
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
    """The change of the round that is under way; there is one at most."""

    number: int
    cause: str
    since: float
    planned: Round | None = None
    """Decided, and on its way to the API server."""
    stands: bool = False
    """It stands there."""
    written: bool = False
    """A round that was decided before and became untrue may stand at the API server."""
    lost: bool = False
    """Nobody is left with the state; that has been counted."""


@dataclass(slots=True)
class Start:
    """A pod that was asked for, and has not been seen."""

    role: str
    at: float


class Backoff(NamedTuple):
    """What the next start of a role waits for: failures of those before."""

    failures: int = 0
    """Times that starts or members failed, in a row."""
    failed_at: float = 0.0
    """When the last of them did."""
    until: float = 0.0
    """Before it none is started."""
    why: str = ""
    """Who failed last, and how, or what the API server said."""


class Mark(NamedTuple):
    """Where a measurement of the throughput begins, and what was heard since."""

    round: int
    at: float
    samples: float
    step: int
    last: int
    """The newest step that was heard of."""
    seconds: float | None = 0.0
    """That the steps since have taken, as the worker says; None where it did not say it of all."""


@dataclass(slots=True)
class Sizing:
    """How many workers there are to be, and those that were asked for. Written by `scaling`."""

    sized: Sized | None = None
    """What the policy said last."""
    want: int = 0
    wanted_by: str = ""
    want_at: float = 0.0
    starts: dict[int, Start] = field(default_factory=dict)
    """By number: pods that were asked for and have not been seen."""
    unseen: dict[int, Start] = field(default_factory=dict)
    """Starts that are taken for not made, of which a pod or a refusal may still be told."""
    counter: int = 0
    """The highest number of a StartWorker."""
    refusal: str = ""
    """Why the API server made no pod."""


@dataclass(slots=True)
class Rounds:
    """The round that stands, and the change that is under way. Written by `round_transition`."""

    record: Round = field(default_factory=Round)
    """The round that stands at the API server."""
    published: bool = False
    published_at: float = 0.0
    settled: bool = True
    """Every member of the round has trained in it."""
    floor: int = 0
    """The highest round that was ever named."""
    transition: Transition | None = None
    pending: bool = False
    """There is a reason for a change that has not begun; it waits for its moment."""
    joining_at: float | None = None
    """Since when there is a worker at the barrier that the next round takes in."""
    before: int = 0
    """Members of the round that trained before."""
    fruitless: int = 0
    """Rounds since the last commit that began because the one before had failed."""
    paused_at: float | None = None
    """When members stopped training for the transition."""
    reached: int = 0
    """The newest step that any worker had committed, as far as is known; 0: nothing can be lost yet."""
    started_at: float | None = None
    last_resize: Resize | None = None
    resized: int = 0
    """The round that `last_resize` tells of."""
    price: float | None = None
    """Seconds without a step that a change of the round costs, by the last one that tells; see `throughput.price`."""
    changed_at: float | None = None
    """When the last round took its first step."""


@dataclass(slots=True)
class Template:
    """What workers are made from. Written by `template_revision`."""

    current: dict[str, Any] | None = None
    """The spec's of when the gang was started. None: it is not known yet."""
    edited: dict[str, Any] | None = None
    """The spec's, while it is another one."""
    told: bool = False
    """People were told of the edit."""
    retired: int | None = None
    """Workers up to this number were made from a template that is no longer in force."""


@dataclass(slots=True)
class Straggler:
    """The straggler that is being replaced. Written by `stragglers`."""

    uid: Uid | None = None
    since: float = 0.0
    not_before: float = 0.0
    """Before it no other is replaced."""


@dataclass(slots=True)
class Exits:
    """Ends of processes, and which of them count. Written by `worker_exits`."""

    restarts: int = 0
    """Times that the whole gang began again."""
    last: str = ""
    """Which worker failed last, and how, since the job got further."""
    furthest: tuple[int, float] = (0, 0.0)
    """The highest step and the highest epoch that were heard of in any round. A failure takes neither back."""
    count: int = 0
    """Processes that failed by their own fault since then; those that one cause took are one."""
    at: float = 0.0
    """When the last of them did."""
    finishing_at: float | None = None
    """When the first member of the last round ended well."""


@dataclass(slots=True)
class Backoffs:
    """What new workers wait for, and which nodes they avoid. Written by `start_backoff`."""

    barred: dict[str, Barred] = field(default_factory=dict)
    barred_at: dict[str, float] = field(default_factory=dict)
    roles: dict[str, Backoff] = field(default_factory=dict)
    """Role → its failures; without those that are in a row no more."""


@dataclass(slots=True)
class Completion:
    """The end of the job. Written by `completion`."""

    over: tuple[str, str, str] | None = None
    """Phase, reason and message of the end."""
    held: float = 0.0
    """Seconds in which the job held nodes and did not train, added up since it got further."""
    counted_at: float | None = None
    """Up to when they are."""
    counted_for: tuple[int, float] = (0, 0.0)
    """How far the job was then."""


@dataclass(slots=True)
class Saving:
    """Checkpoints, as far as workers told of them. Written by `checkpoints`."""

    saved: bool = False
    """The round's saver has saved, and said so."""
    error: str = ""
    """Why the state could not be saved; those that have it keep it."""
    checkpoint: Checkpoint | None = None


@dataclass(slots=True)
class Measured:
    """What beats tell of the training. Written by `throughput`."""

    history: History = field(default_factory=History)
    mark: Mark | None = None
    """Where the next measurement of the throughput begins."""
    rate: float | None = None
    """Samples per second of the whole job; None where the script tells of no samples."""
    epoch_mark: tuple[float, float] | None = None
    epoch_s: float | None = None
    values: dict[str, float] = field(default_factory=dict)
    warm: float | None = None
    """Seconds that the last newcomer took from its seat until READY."""
    resumed_at: float | None = None
    """When the first step of the round was heard of."""
    uses: frozenset[str] | None = None
    """What the script was seen to ask for and to tell; None before its first step, and where agents do not say."""


@dataclass(slots=True)
class Health:
    """Signs of life. Written by `failure_detection`."""

    unheard: str = ""
    """Members that are silent and do not count as lost for it, in a sentence."""
    quiet_until: float = 0.0
    """Before it no worker counts as lost for lack of a sign."""


@dataclass(slots=True)
class State:
    """One job: what was told of it, and a part for each module that remembers something."""

    key: str
    selector: str = ""
    limits: Timeouts = field(default_factory=Timeouts)
    spec: Spec | None = None
    """As wanted."""
    problems: tuple[Problem, ...] = ()
    generation: int = 0
    listed: bool = True
    """Every pod that exists has been told."""
    workers: dict[Uid, Worker] = field(default_factory=dict)
    gone: dict[Uid, None] = field(default_factory=dict)
    """Pods that existed, so that late words of them make no ghosts; the latest of them."""
    blind: str = ""
    """Why pods may be others than was told: their watch does not stand. Empty: it stands."""
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
    """The assignments that follow from a round, worked out once. Written by `round_plan`."""
    conditions: dict[str, Condition] = field(default_factory=dict)
    """Written by `status_report`."""
    looked_at: float | None = None
    """When the rules last looked at the job. Written by `reconciler`, as is `due`."""
    due: float = 0.0
    """When they look again, if nothing happens before."""
    todo: list[Effect] = field(default_factory=list)

    def do(self, effect: Effect) -> None:
        self.todo.append(effect)
