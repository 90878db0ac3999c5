"""The policy `offer`: whatever is free, between the minimum and the maximum.

The formula is min(max, ⌈limit / per worker⌉). Source: ElasticDL ("want N, run with what you get"), whose job takes what
it is given and gives it back when more important pods come. Here the scheduler takes back, from the surplus.
"""

from scheduler.elastic.sizing import curve
from scheduler.elastic.sizing.desire import Desire, largest, pays
from scheduler.elastic.sizing.view import JobView


def desire(job: JobView) -> Desire:
    """As many as are of use; none more when the job ends before they have won back the resize."""
    most = largest(job)
    if most > job.size and not pays(job, curve.rate(job.measured, most)):
        return Desire(size=min(most, job.held), reason="the end is too near to win back another resize")
    return Desire(size=most, reason="all that is free" if most == job.max else "the batch is at its limit")
