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
class State:
    """One job."""

    key: str
    selector: str = ""
    limits: Timeouts = field(default_factory=Timeouts)
    spec: Spec | None = None
    """As wanted."""
    template: dict[str, Any] | None = None
    """What workers are made from: the spec's of when the gang was started. None: it is not known yet."""
    edited: dict[str, Any] | None = None
    """The spec's, while it is another one."""
    edit_told: bool = False
    """People were told of that."""
    retired: int | None = None
    """Workers up to this number were made from a template that is no longer in force."""
    problems: tuple[Problem, ...] = ()
    generation: int = 0
    listed: bool = True
    """Every pod that exists has been told."""
    workers: dict[Uid, Worker] = field(default_factory=dict)
    gone: dict[Uid, None] = field(default_factory=dict)
    """Pods that existed, so that late words of them make no ghosts; the latest of them."""
    blind: str = ""
    """Why pods may be others than was told: their watch does not stand. Empty: it stands."""
    starts: dict[int, Start] = field(default_factory=dict)
    unseen: dict[int, Start] = field(default_factory=dict)
    """Starts that are taken for not made, of which a pod or a refusal may still be told."""
    counter: int = 0
    """The highest number of a StartWorker."""
    record: Round = field(default_factory=Round)
    """The round that stands at the API server."""
    told: tuple[Round, Mapping[Uid, Assignment]] | None = None
    """The assignments that follow from a round, worked out once."""
    published: bool = False
    published_at: float = 0.0
    settled: bool = True
    """Every member of the round has trained in it."""
    resumed_at: float | None = None
    """When the first step of the round was heard of."""
    floor: int = 0
    """The highest round that anybody ever named."""
    flight: Transition | None = None
    pending: bool = False
    """There is a reason for a change that has not begun; it waits for its moment."""
    joining_at: float | None = None
    """Since when there is somebody at the barrier whom the next round takes in."""
    before: int = 0
    """Members of the round that trained before."""
    fruitless: int = 0
    """Rounds since the last commit that began because the one before had failed."""
    paused_at: float | None = None
    """When members stopped training for the flight."""
    sized: Sized | None = None
    want: int = 0
    wanted_by: str = ""
    want_at: float = 0.0
    staff: int = 0
    """How many workers there were to be at the last look; see `scaling.staff`."""
    staff_at: float = float("-inf")
    """Since when; the first wish after none counts as old."""
    doomed: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Node → why, since when."""
    slow: Uid | None = None
    """The straggler that is being replaced."""
    slow_at: float = 0.0
    slow_after: float = 0.0
    """Before it no other is."""
    barred: dict[str, Barred] = field(default_factory=dict)
    barred_at: dict[str, float] = field(default_factory=dict)
    backoff: dict[str, Backoff] = field(default_factory=dict)
    """Role → its failures; without those that are in a row no more."""
    restarts: int = 0
    reached: int = 0
    """The newest step that anybody had committed, as far as is known; 0: nothing can be lost yet."""
    fingerprint: str | None = None
    saved: bool = False
    """The round's saver has saved, and said so."""
    save_error: str = ""
    """Why the state could not be saved; those that have it keep it."""
    checkpoint: Checkpoint | None = None
    finishing_at: float | None = None
    over: tuple[str, str, str] | None = None
    """Phase, reason and message of the end."""
    quiet_until: float = 0.0
    """Nobody is taken for lost before, for lack of a sign."""
    unheard: str = ""
    """Members that are silent and are not given up for it, in a sentence."""
    looked_at: float | None = None
    """When the rules last looked at the job."""
    due: float = 0.0
    """When they look again, if nothing happens before."""
    started_at: float | None = None
    last_resize: Resize | None = None
    resized: int = 0
    """The round that `last_resize` tells of."""
    price: float | None = None
    """Seconds without a step that a change of the round costs, by the last one that tells; see `throughput.price`."""
    changed_at: float | None = None
    """When the last round took its first step."""
    warm: float | None = None
    """Seconds that the last newcomer took from its seat until READY."""
    history: History = field(default_factory=History)
    mark: Mark | None = None
    """Where the next measurement of the throughput begins."""
    rate: float | None = None
    """Samples per second of the whole job; None where the script tells of no samples."""
    epoch_mark: tuple[float, float] | None = None
    epoch_s: float | None = None
    values: dict[str, float] = field(default_factory=dict)
    uses: frozenset[str] | None = None
    """What the script was seen to ask for and to tell; None before its first step, and where agents do not say."""
    last_failure: str = ""
    """Who failed last, and how, since the job got further."""
    furthest: tuple[int, float] = (0, 0.0)
    """The highest step and the highest epoch that were heard of in any round. A failure takes neither back."""
    failures: int = 0
    """Processes that failed by their own fault since then; those that one cause took are one."""
    failed_at: float = 0.0
    """When the last of them did."""
    held: float = 0.0
    """Seconds since then in which the job held nodes and did not train, added up."""
    counted_at: float | None = None
    """Up to when they are."""
    refusal: str = ""
    """Why the API server made no pod."""
    conditions: dict[str, Condition] = field(default_factory=dict)
    todo: list[Effect] = field(default_factory=list)

    def do(self, effect: Effect) -> None:
        self.todo.append(effect)
