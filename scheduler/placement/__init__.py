"""The planner: which nodes can hold a gang, and which seats are best, for all members or none.

Lives here: all code that compares nodes, as functions of one Snapshot.
Never here: I/O, a clock, randomness, state between calls (a caller may keep a `FeasibilityCache` and
`StandingAnswers`, which only save work). Imports model only. The engine calls it through `planner`.

    planner            decide, rank, fits
    feasibility        which nodes may hold a demand, regardless of free capacity; cached by demand
    node_candidates    the nodes that could hold a member, as one scratch copy
    distribution       how to distribute a number of members: filled up, or evenly like water
    packing, cosine    seating by strategy
    seating            seats for the whole quorum, then for the surplus; and what was missing
    standing_answers   rejections that still hold after free capacity changed, by counts of members (member_counts)
    scoring            which node of several: tightness and alignment; and the quality of a placement
    victim_selection   which pods to preempt so that a whole gang fits; victims, victim_seats and victim_search
                       are its parts
    reservation        capacity reserved in time for the first waiting gang
    forecast           when a gang will start, by a simulation of the queue
    order              the order of the queue
"""
