"""The planner: which nodes can hold a gang, and which seats are best, for all members or none.

Lives here: everything that compares nodes, as functions of one Snapshot.
Never here: I/O, a clock, chance, a memory between calls (a caller may keep a `FeasibilityCache`, which only saves work).
Imports model only; the engine calls it, through `planner`.

    planner            decide, rank, fits
    feasibility        which nodes may hold a demand, whatever room they have; remembered by demand
    node_candidates    the nodes that could hold a member, as one scratch copy
    distribution       how a number of members is shared out: filled up, or level like water
    packing, cosine    the ways of seating by strategy
    seating            seats for the whole quorum, then for the surplus; and what was lacking
    scoring            which node of several: tightness and alignment; and how good a placement is
    victim_selection   which pods have to leave so that a whole gang fits; victims, victim_seats and victim_search
                       are its parts
    reservation        room kept in time for the first that waits
    forecast           when a gang will start, by a simulation of the queue
    order              whose turn it is
"""
