"""The life of one elastic job, as tables: what happened goes in, what is to be done comes out.

    membership.handle(event, now) -> [effect, …]

Lives here: who is in a round, when the next one begins, who starts, stops and is given up, and the reason for each.
    events, effects        the words of the two sides          limits      how long each wait may take
    state, worker, roll    what is known, and who is who       noting, ending, saving, measures   events taken in
    wanting, staffing      how many, started and dismissed     ceiling                    more than a round can hold
    watching, stragglers   who is given up or replaced
    causes, choosing, rounds, batches, flights                 the next round: why, who, what, and its way to everybody
    course, reporting, wishing                                 the end; what people and policies are told
Never here: I/O, a clock (`now` is an argument: seconds since the epoch that never go back), the choice of a size
(`scheduler.elastic.sizing`) or of a node (the scheduler's). Who may call: the elastic master, tests, benches.
"""

from scheduler.elastic.membership.limits import Limits
from scheduler.elastic.membership.membership import Membership

__all__ = ["Limits", "Membership"]
