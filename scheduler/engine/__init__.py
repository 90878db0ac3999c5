"""The engine connects the ledger to the planner: one synchronous step per extender call, event or plan.

Lives here: the code between the ledger and the planner.

    engine                 the entry point, and the extender endpoints for kube-scheduler
    cycle                  a pass through the queue, and how each answer is applied
    scheduling_queue       the order of the queue, and the position of a pass in it
    equivalence            which waiting gangs are worth a question
    head                   which gang is first, and the reservation for it
    planning               the questions to the planner, and its answers; pure
    standing               answers of earlier passes that still hold
    preemption_policy      which pods a gang may preempt
    preemption_candidates  running pods as the planner sees them, and which could be preempted
    running_gangs          when running gangs end
    drain                  other seats for pods that have one

Never here: comparing nodes, storing pods, reading a clock. Called by: service, status, replay, tests, simulator.
"""

from scheduler.engine.engine import SCORES_KEPT, Engine
from scheduler.engine.planning import Answer, Fault, Question, attempt, decide

__all__ = ["SCORES_KEPT", "Answer", "Engine", "Fault", "Question", "attempt", "decide"]
