"""How many workers each elastic job should have: `size(jobs, free) → {job: Want}`.

Lives here: what a policy sees of a job, the parameters of every policy, the policies, and how free capacity is divided.
Never here: a clock, chance, or anything that is remembered between two calls. What a policy must know of the past is in the
view. Who may call: the elastic master, and the benches with views of their own. `scheduler.elastic.reconciler` makes the
views and carries the answers out.

    job_view            JobView, History: what a policy sees; Want: what it answers
    policy_parameters   what a person may set of each policy, and the errors of wrong ones
    allocation          the one door: size
    policies            offer, efficiency, utility and schedule
    size_search         what efficiency and utility share: which size to try next
    proposal            what all policies share: limits and expected throughput
    capacity            Free: what every node has free; the seats that one call takes of it
"""

from scheduler.elastic.sizing.allocation import size
from scheduler.elastic.sizing.capacity import UNLIMITED, Free, free_on, slots
from scheduler.elastic.sizing.job_view import History, JobView, Measured, Stage, Want
from scheduler.elastic.sizing.policy_parameters import Parameters, decode

__all__ = [
    "UNLIMITED",
    "Free",
    "History",
    "JobView",
    "Measured",
    "Parameters",
    "Stage",
    "Want",
    "decode",
    "free_on",
    "size",
    "slots",
]
