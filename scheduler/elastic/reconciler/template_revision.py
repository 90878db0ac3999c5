"""The template that workers are made from: one for a whole gang.

Lives here: what an edit of `spec.template` means while a gang has the job, and when it is taken. Never here: how a pod
is made of a template (`controller.pod_template`). Members of one ring train one program, so whatever joins a gang is made from
the template that the gang was started with. An edited one is taken when the whole gang is started again. A newcomer of the
former one goes then, also one that is seen later: its number tells. One limit: of a job that has no status yet, an edit
while no master runs is not known for one.
"""

from typing import Any, TypeAlias

from msgspec.structs import replace

from scheduler.elastic.job.spec import Spec
from scheduler.elastic.job.status_json import copied, without_nulls
from scheduler.elastic.reconciler import scaling, selectors, start_backoff, worker_exits
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_events import Restored
from scheduler.elastic.reconciler.job_state import State
from scheduler.errors import shortened

Fact: TypeAlias = tuple[bool, str, str]
"""Of a condition: whether it holds, reason, message."""

CHANGED = "TemplateChanged"
"""The condition, and the event, that say that an edit waits."""
LONG = "The former template is too long to be kept: after a restart of the master, workers are made from the edited one."


def restored(s: State, event: Restored) -> None:
    """The template that the gang was started with; the spec's may be another by now."""
    s.template.current = event.template
    if event.status is not None:
        s.template.retired = event.status.retired
        if event.status.template is not None:
            s.template.current, s.template.edited = event.status.template, event.template
            s.template.told = event.template is not None


def seen(s: State, wanted: dict[str, Any]) -> None:
    """The spec's template is in force where none was, and where it says the same; else it is an edit."""
    if s.template.current is None or not differing(s.template.current, wanted):
        s.template.current, s.template.edited = wanted, None
    elif s.template.edited is None or differing(s.template.edited, wanted):
        s.template.edited, s.template.told = wanted, False


def look(s: State, now: float) -> None:
    """Take an edit, or tell of it; and let no newcomer begin that was made from a former template."""
    if s.completion.over or s.exits.finishing_at is not None:
        return
    if s.template.edited is not None:
        if not selectors.entitled(s) and not selectors.planned(s):
            _take(s, s.template.edited)
        elif not s.template.told:
            s.do(Tell("Normal", CHANGED, _said(s)))
            s.template.told = True
    for worker in selectors.newcomers(s):
        if s.template.retired is not None and worker.number <= s.template.retired:
            scaling.dismiss(s, worker, "it was made before spec.template was edited", now)


def whole(s: State) -> Spec | None:
    """The spec with the template in force."""
    if s.spec is None or s.template.current is None:
        return s.spec
    return replace(s.spec, template=s.template.current)


def kept_former(s: State) -> dict[str, Any] | None:
    """The template in force, for the status, while an edit waits; None where it is too long for that, too."""
    waits = s.template.edited is not None and not s.completion.over
    return copied(s.template.current) if waits else None


def fact(s: State) -> Fact:
    """The condition that an edit waits."""
    if s.template.edited is None or s.completion.over:
        return False, s.completion.over[0] if s.completion.over else "None", ""
    return True, "PendingRestart", _said(s)


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Paths of the fields that differ, such as `spec.containers`. One that is too deep to be compared differs in none."""
    try:
        here, there = _fields(without_nulls(one)), _fields(without_nulls(other))
        return sorted(path for path in here | there if here.get(path) != there.get(path))
    except RecursionError:
        return []


def _fields(template: dict[str, Any]) -> dict[str, Any]:
    """Path → value, two names deep."""
    found: dict[str, Any] = {}
    for part, value in template.items():
        below = isinstance(value, dict)
        found |= {f"{part}.{name}": own for name, own in value.items()} if below else {part: value}
    return found


def _names(s: State) -> str:
    return shortened(", ".join(differing(s.template.current or {}, s.template.edited or {})))


def _said(s: State) -> str:
    """What was edited, what follows, and what can be done."""
    said = [
        f"spec.template was edited: {_names(s)}.",
        "Workers are made from the template that the gang was started with, until the whole gang is started again.",
        "To have the edit at once, suspend the job and let it go on.",
    ]
    if s.spec is not None and not s.spec.checkpoint.path:
        said.append("Without spec.checkpoint.path the training then begins from its start.")
    if kept_former(s) is None:
        said.append(LONG)
    return " ".join(said)


def _take(s: State, edited: dict[str, Any]) -> None:
    """From now on. Failures of workers that were made from the former one say nothing of those to come."""
    said = f"workers are made from the edited spec.template, which differs in {_names(s)}"
    s.template.current, s.template.edited = edited, None
    s.template.retired = s.sizing.counter
    scaling.cancel(s)
    worker_exits.forget(s)
    # The nodes of a gang that was lost just now may have been the reason.
    start_backoff.forget(s, nodes=not (s.rounds.record.ring or s.rounds.record.holding))
    s.do(Tell("Normal", "TemplateApplied", said))
