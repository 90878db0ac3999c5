"""The policy `schedule`: a size for each phase of the training, `{epoch, workers}`, stated ahead.

The formula: the workers of the last stage whose epoch is at most `e`, where e is the epoch done so far, and for a stage
with more workers than now e + lead / (seconds an epoch takes), so that newcomers are warm when the phase begins. Fewer
workers are never taken early. A phase has no more workers than its own batch has use for. Before the first stage the
job has its minimum.
Source: static schedules as Goyal et al. 2017 and AdaBatch state them for the batch, by epoch; published elastic systems
have none for the workers.
"""

from scheduler.elastic.sizing.desire import Desire, clamped, largest
from scheduler.elastic.sizing.parameters import Schedule
from scheduler.elastic.sizing.view import JobView, Stage


def desire(job: JobView) -> Desire:
    done = job.epoch or 0.0
    now = _stage(job, done)
    coming = next((stage for stage in job.schedule if stage.epoch > now.epoch), None)
    size = min(clamped(job, now.workers), largest(job))
    if coming and coming.epoch <= done + _ahead(job):
        then = min(clamped(job, coming.workers), largest(job, coming))
        if then > size:
            return Desire(size=then, reason=f"epoch {coming.epoch:g} begins soon", coming=coming)
    place = "its beginning, for no epoch is told yet" if job.epoch is None else f"epoch {done:g}"
    return Desire(size=size, reason=f"the schedule at {place}", coming=coming)


def _stage(job: JobView, epoch: float) -> Stage:
    begun = [stage for stage in job.schedule if stage.epoch <= epoch]
    return begun[-1] if begun else Stage(-1.0, job.min)


def _ahead(job: JobView) -> float:
    """Epochs that pass while newcomers start."""
    lead = job.parameters.lead if isinstance(job.parameters, Schedule) else 0.0
    seconds = lead if job.warm is None else job.warm
    return seconds / job.epoch_s if job.epoch_s else 0.0
