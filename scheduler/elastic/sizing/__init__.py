"""How many workers each elastic job should have: `size(jobs, free) → {job: Want}`.

Lives here: a policy's view of a job, the parameters of every policy, the policies, and the division of free capacity.
Never here: a clock, randomness, or any memory between two calls. What a policy needs to know of the past is in the
view. Callers: the elastic master, and the benches with views of their own. `scheduler.elastic.reconciler` creates the
views and carries the answers out.

    job_view            JobView, History: a policy's input; Want: its answer
    policy_parameters   what users can set for each policy, and the errors for invalid values
    allocation          the entry point: size
    policies            offer, efficiency, utility and schedule
    size_search         what efficiency and utility share: which size to try next
    proposal            what all policies share: limits and expected throughput
    capacity            Free: free capacity of every node; the places that one call takes of it
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
