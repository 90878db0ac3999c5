"""The lifecycle of one ElasticJob: events go in, effects come out.

    reconciler.take(event, now); reconciler.reconcile(now) -> [effect, …]

Lives here: which workers are in a round, when the next round begins, which workers start, stop or are lost, and why.
    job_events, job_effects    input and output types          timeouts      limit of each wait
    job_state, worker          stored facts                    selectors     queries about the workers
    event_handlers, worker_exits, checkpoints, throughput      event intake
    scaling                    number of workers; which ones are started and dismissed
    failure_detection, stragglers, start_backoff               which are lost or replaced, and how soon
    round_triggers, rank_assignment, round_plan, round_transition
                               the next round: cause, members, content, and its delivery to every worker
    completion, status_report, sizing_request                  the end; the view for users and for policies
Never here: I/O, a clock (`now` is an argument: seconds since the epoch that never decrease), the choice of a size
(`scheduler.elastic.sizing`) or of a node (the scheduler). Callers: the elastic master, tests, benches.
"""

from scheduler.elastic.reconciler.reconciler import Reconciler
from scheduler.elastic.reconciler.timeouts import Timeouts

__all__ = ["Reconciler", "Timeouts"]
