"""The life of one elastic job: what happened goes in, what is to be done comes out.

    reconciler.take(event, now); reconciler.reconcile(now) -> [effect, …]

Lives here: who is in a round, when the next one begins, which workers start, stop and count as lost, and why.
    job_events, job_effects    the words of the two sides      timeouts      how long each wait may take
    job_state, worker          what is known                   selectors     questions about the workers
    event_handlers, worker_exits, checkpoints, throughput      events taken in
    scaling                    how many workers; which are started and dismissed
    failure_detection, stragglers, start_backoff               which are lost or replaced, and how soon
    round_triggers, rank_assignment, round_plan, round_transition
                               the next round: why, who, what, and its way to every worker
    completion, status_report, sizing_request                  the end; what people and policies are told
Never here: I/O, a clock (`now` is an argument: seconds since the epoch that never go back), the choice of a size
(`scheduler.elastic.sizing`) or of a node (the scheduler). Who may call: the elastic master, tests, benches.
"""

from scheduler.elastic.reconciler.reconciler import Reconciler
from scheduler.elastic.reconciler.timeouts import Timeouts

__all__ = ["Reconciler", "Timeouts"]
