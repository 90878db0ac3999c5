"""The engine connects the ledger to the planner: one synchronous step per verb, event or plan.

Lives here: what ties the ledger to the planner.

    engine                 the entry, and kube-scheduler's verbs
    cycle                  a pass through the queue, and what becomes of each answer
    scheduling_queue       whose turn it is, and where a pass has come to
    equivalence            which of the gangs that wait is worth a question
    head                   which gang is first, and what is reserved for it
    planning               what the planner is asked, and its answer; pure
    preemption_policy      which pods a gang may ask to leave
    preemption_candidates  what runs, as the planner sees it: what leaves when, and what could be asked to leave
    drain                  other seats for pods that have one

Never here: a comparison of nodes, a memory of pods, a clock. Called by: service, status, replay, tests, simulator.
"""

from scheduler.engine.cycle import INLINE_LIMIT
from scheduler.engine.engine import SCORES_KEPT, Engine
from scheduler.engine.planning import Answer, Fault, Question, attempt, decide

__all__ = ["INLINE_LIMIT", "SCORES_KEPT", "Answer", "Engine", "Fault", "Question", "attempt", "decide"]
