"""The spec that one job goes by: as wanted, or, while that is refused, as it was accepted last.

Lives here: what was accepted, across restarts of the master: it stands in the job's status. Never here: what is wrong
with a spec (`job.validation`, `pod_template`). Why it is kept: somebody may write what no schema refuses
while a job trains, or while no master runs; and a newer master may refuse what the one before took. The job's losses
and its end have to be seen to all the same.
"""

from collections.abc import Callable, Iterator
from typing import Any

from scheduler.elastic.controller.decode import Job
from scheduler.elastic.job.spec import Problem, Spec
from scheduler.elastic.job.spec_copy import kept
from scheduler.elastic.job.status_json import accepted_spec
from scheduler.elastic.job.validation import decode_spec, lowered
from scheduler.elastic.reconciler.job_events import SpecRefused, SpecSeen


class AcceptedSpec:
    """problems: what is wrong with a spec that can be read. refused: called for each that is."""

    def __init__(self, problems: Callable[[Spec], tuple[Problem, ...]], refused: Callable[[], None]) -> None:
        self.spec: Spec | None = None
        self.written: Any = None
        """`spec` as somebody wrote it, for the status; None where it is too long, or too deep, to be kept."""
        self._problems = problems
        self._refused = refused

    def read(self, job: Job) -> Iterator[SpecSeen | SpecRefused]:
        """What its reconciler is to hear of the spec: where none was accepted before, first of the one that the master
        before us accepted last.
        """
        spec, wrong = decode_spec(job.spec)
        found = wrong or (self._problems(spec) if spec else ())
        if spec is not None and not found:
            yield self._take(spec, job.spec, job)
            return
        self._refused()
        if self.spec is None:
            written = lowered(accepted_spec(job.status))
            former, _ = decode_spec(written)
            if former is not None:
                yield self._take(former, written, job)
            else:
                self.written = written  # a newer master, which accepted it, may come back
        yield SpecRefused(found, job.metadata.generation)

    def forget(self) -> None:
        """What the job goes by is read anew."""
        self.spec = self.written = None

    def _take(self, spec: Spec, written: Any, job: Job) -> SpecSeen:
        self.spec, self.written = spec, kept(written)
        return SpecSeen(spec, job.metadata.generation)
