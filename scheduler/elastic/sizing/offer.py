"""The policy `offer`: whatever is free, between the minimum and the maximum.

The formula is min(max, ⌈limit / per worker⌉). Source: ElasticDL ("want N, run with what you get"), whose job takes what
it is given and gives it back when more important pods come. Here the scheduler takes back, from the surplus.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.elastic.sizing import curve
from scheduler.elastic.sizing.desire import Desire, largest, pays
from scheduler.elastic.sizing.parameters import Search
from scheduler.elastic.sizing.view import JobView, Measured

FORGET: Final = Search().forget
"""Seconds after which a size that was left counts as unknown, as it does by default where sizes are searched for."""


def desire(job: JobView) -> Desire:
    """As many as are of use; none more where they would not win back the resize."""
    most = largest(job)
    if most > job.size:
        job = replace(job, measured=_remembered(job))
        expected = curve.rate(job.measured, most)
        if not pays(job, expected):
            return Desire(size=min(most, job.held), reason=_why_not(job, most, expected))
    return Desire(size=most, reason="all that is free" if most == job.max else "the batch is at its limit")


def _remembered(job: JobView) -> Mapping[int, Measured]:
    return {size: seen for size, seen in job.measured.items() if size == job.size or seen.age <= FORGET}


def _why_not(job: JobView, most: int, expected: float) -> str:
    if pays(replace(job, remaining=None), expected):
        return "the end is too near to win back another resize"
    return f"{most} workers would not win back what a resize costs"
