"""How many workers each elastic job should have: `size(jobs, free) → {job: Want}`.

Lives here: the picture of a job (`view`), the parameters of every policy (`parameters`), one file a policy, and the
sharing of free room among all jobs.
Never here: a clock, chance, or anything that is remembered between two calls. Whatever a policy must know of the past
is in the picture. Who may call: the elastic master, and the benches with pictures of their own.
`scheduler.elastic.membership` draws the pictures and carries the answers out.

    view         JobView, History, Free: what a policy sees; Want: what it answers
    parameters   what a person may set of each policy, and the errors of those who set it wrongly
    sharing      the one door: size
    offer efficiency utility schedule   the policies, by name
    search       what efficiency and utility share: which size to try next
    desire curve room   what all of them share: limits, expected rates, free places
"""

from scheduler.elastic.sizing.parameters import Parameters, decode
from scheduler.elastic.sizing.sharing import size
from scheduler.elastic.sizing.view import Free, History, JobView, Measured, Stage, Want, slots

__all__ = [
    "Free",
    "History",
    "JobView",
    "Measured",
    "Parameters",
    "Stage",
    "Want",
    "decode",
    "size",
    "slots",
]
