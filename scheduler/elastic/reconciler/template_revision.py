"""The template for workers: one for a whole gang.

Lives here: the effect of editing `spec.template` while a gang runs, and when the edit is applied. Never here: how a pod
is built from a template (`controller.pod_template`). Members of one ring train one program, so every worker that joins
a gang is created from the template with which the gang was started. An edit is applied when the whole gang restarts.
Newcomers from the former template are then removed, by their number, even if they are seen later. One limit: for a job
without a status, an edit made while no master runs is not recognized as one.
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
"""Status, reason and message of a condition."""

CHANGED = "TemplateChanged"
"""Condition type and event reason for an edit that is not applied yet."""
LONG = "The former template is too long to be stored; after a restart of the master the edited one is used."


def restored(s: State, event: Restored) -> None:
    """Restore the gang's template; the one in the spec may differ by now."""
    s.template.current = event.template
    if event.status is not None:
        s.template.retired = event.status.retired
        if event.status.template is not None:
            s.template.current, s.template.edited = event.status.template, event.template
            s.template.told = event.template is not None


def seen(s: State, wanted: dict[str, Any]) -> None:
    """Use the spec's template if there is none or it is the same; otherwise it is an edit."""
    if s.template.current is None or not differing(s.template.current, wanted):
        s.template.current, s.template.edited = wanted, None
    elif s.template.edited is None or differing(s.template.edited, wanted):
        s.template.edited, s.template.told = wanted, False


def look(s: State, now: float) -> None:
    """Apply an edit, or report it; remove newcomers that were created from a former template."""
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
            scaling.dismiss(s, worker, "it was created before spec.template was edited", now)


def whole(s: State) -> Spec | None:
    """The spec with the template in use."""
    if s.spec is None or s.template.current is None:
        return s.spec
    return replace(s.spec, template=s.template.current)


def kept_former(s: State) -> dict[str, Any] | None:
    """The template in use, for the status, while an edit is pending; None if it is too long for that as well."""
    waits = s.template.edited is not None and not s.completion.over
    return copied(s.template.current) if waits else None


def fact(s: State) -> Fact:
    """The condition for a pending edit."""
    if s.template.edited is None or s.completion.over:
        return False, s.completion.over[0] if s.completion.over else "None", ""
    return True, "PendingRestart", _said(s)


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Paths of the fields that differ, for example `spec.containers`; none if a template is nested too deeply."""
    try:
        here, there = _fields(without_nulls(one)), _fields(without_nulls(other))
        return sorted(path for path in here | there if here.get(path) != there.get(path))
    except RecursionError:
        return []


def _fields(template: dict[str, Any]) -> dict[str, Any]:
    """Path → value, two levels deep."""
    found: dict[str, Any] = {}
    for part, value in template.items():
        below = isinstance(value, dict)
        found |= {f"{part}.{name}": own for name, own in value.items()} if below else {part: value}
    return found


def _names(s: State) -> str:
    return shortened(", ".join(differing(s.template.current or {}, s.template.edited or {})))


def _said(s: State) -> str:
    """What was edited, the effect, and what you can do."""
    said = [
        f"spec.template was edited: {_names(s)}.",
        "Workers use the template with which the gang was started until the whole gang restarts.",
        "To apply the edit now, suspend and resume the job.",
    ]
    if s.spec is not None and not s.spec.checkpoint.path:
        said.append("Without spec.checkpoint.path, training then restarts from the beginning.")
    if kept_former(s) is None:
        said.append(LONG)
    return " ".join(said)


def _take(s: State, edited: dict[str, Any]) -> None:
    """Apply the edit. Failures of workers from the former template say nothing about new ones."""
    said = f"Workers are created from the edited spec.template, which differs in {_names(s)}"
    s.template.current, s.template.edited = edited, None
    s.template.retired = s.sizing.counter
    scaling.cancel(s)
    worker_exits.forget(s)
    # The nodes of a gang that was just lost may have been the cause.
    start_backoff.forget(s, nodes=not (s.rounds.record.ring or s.rounds.record.holding))
    s.do(Tell("Normal", "TemplateApplied", said))
