"""The template that workers are made from: one for a whole gang.

Lives here: what an edit of `spec.template` means while a gang has the job, and when it is taken. Never here: how a pod
is made of a template (`elastic.workers`). Members of one ring train one program, so whatever joins a gang is made from
the template that the gang was started with. An edited one is taken when the whole gang is started again. A newcomer of the
former one goes then, also one that is seen later: its number tells. One limit: of a job that has no status yet, an edit
while no master runs is not known for one.
"""

from typing import Any

from msgspec.structs import replace

from scheduler.elastic.job.spec import Spec
from scheduler.elastic.job.spec_copy import kept, without_nulls
from scheduler.elastic.reconciler import scaling, selectors
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.script_api_usage import Fact
from scheduler.errors import shortened

CHANGED = "TemplateChanged"
"""The condition, and the event, that say that an edit waits."""
LONG = "The former template is too long to be kept: after a restart of the master, workers are made from the edited one."


def seen(s: State, wanted: dict[str, Any]) -> None:
    """The spec's template is in force where none was, and where it says the same; else it is an edit."""
    if s.template is None or not differing(s.template, wanted):
        s.template, s.edited = wanted, None
    elif s.edited is None or differing(s.edited, wanted):
        s.edited, s.edit_told = wanted, False


def look(s: State, now: float) -> None:
    """Take an edit, or tell of it; and let no newcomer begin that was made from a former template."""
    if s.over or s.finishing_at is not None:
        return
    if s.edited is not None:
        if selectors.entitled(s) or selectors.planned(s):
            _tell(s)
        else:
            _take(s, s.edited)
    for worker in selectors.newcomers(s):
        if s.retired is not None and worker.number <= s.retired:
            scaling.dismiss(s, worker, "it was made before spec.template was edited", now)


def whole(s: State) -> Spec | None:
    """The spec with the template in force."""
    return s.spec if s.spec is None or s.template is None else replace(s.spec, template=s.template)


def kept_former(s: State) -> dict[str, Any] | None:
    """The template in force, for the status, while an edit waits; None where it is too long for that, too."""
    found: dict[str, Any] | None = kept(s.template) if s.edited is not None and not s.over else None
    return found


def fact(s: State) -> Fact:
    """The condition that an edit waits."""
    if s.edited is None or s.over:
        return False, s.over[0] if s.over else "None", ""
    return True, "WaitsForStart", _said(s)


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
        found |= (
            {f"{part}.{name}": own for name, own in value.items()}
            if isinstance(value, dict)
            else {part: value}
        )
    return found


def _names(s: State) -> str:
    return shortened(", ".join(differing(s.template or {}, s.edited or {})))


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


def _tell(s: State) -> None:
    if not s.edit_told:
        s.do(Tell("Normal", CHANGED, _said(s)))
    s.edit_told = True


def _take(s: State, edited: dict[str, Any]) -> None:
    """From now on. Failures of workers that were made from the former one say nothing of those to come."""
    said = f"workers are made from the edited spec.template, which differs in {_names(s)}"
    s.template, s.edited = edited, None
    s.retired = s.counter
    s.starts.clear()
    s.unseen.clear()
    s.backoff.clear()
    s.refusal = s.last_failure = ""
    s.failures = 0
    if not (s.record.ring or s.record.holding):  # else the gang was lost just now, perhaps with its nodes
        s.barred.clear()
        s.barred_at.clear()
    s.do(Tell("Normal", "TemplateTaken", said))
