"""Which of the values that scripts report are metrics, and under which labels.

Lives here: the bounds on names, on values of a job and on jobs. Never here: the values of the status, which has all
that the script said. A script may say what it likes, and every name of every job is a series of its own that somebody
has to store.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.elastic.job.status import Status
from scheduler.settings_elastic import Reported

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,63}")
"""A name that becomes a label's value."""

VALUES: Final = 16
"""Values of one job, those that it reported first: accuracy, loss, time of an epoch, and some more."""

JOBS: Final = 500
"""Jobs, those that are known longest: with `VALUES` some thousands of series, of which a Prometheus holds millions."""

OWN: Final = frozenset({"idle_s", "idle_without_step_s", "checkpoint_step"})
"""Values by which our own part of the worker tells the master something; they have metrics and fields of their own."""


def series(
    states: Mapping[str, Status], uids: Mapping[str, str], by: Reported
) -> Iterator[tuple[str, str, float]]:
    """Job, name and value of each. states, uids: by `namespace/name`; by: what a job is called."""
    if by is Reported.NONE:
        return
    told = (job for job, status in states.items() if status.values and (by is Reported.NAME or job in uids))
    for _, job in zip(range(JOBS), told, strict=False):
        called = job if by is Reported.NAME else uids[job]
        fit = (name for name in states[job].values if name not in OWN and NAME.fullmatch(name))
        for _, name in zip(range(VALUES), fit, strict=False):
            yield called, name, states[job].values[name]
