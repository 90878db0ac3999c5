"""The thinking: who can hold a gang, which seats are best, all or nobody.

Lives here: everything that compares nodes, as functions of one Snapshot.
Never here: I/O, a clock, chance, a memory between calls (a caller may keep a `Masks`, which only saves work).
Imports model only; the engine calls it, through `planner`.

    planner      the one door: decide, rank, fits
    feasibility  which nodes may hold a demand, whatever room they have
    masks        what the nodes alone decide, remembered for whoever keeps it
    pool         the nodes that could hold somebody, as one scratch copy
    filling      how a number of members is shared out: filled up, or level like water
    scoring      which node of several: tightness and alignment
    seating      seats for the whole quorum, strategy by strategy and level by level; then the surplus
    shortfall    why not: the nearest domain, and who stands in the way
    quality      how good a placement is, and how broken up the free room is
    preemption   who has to leave so that a whole gang fits; victims_* and preempt_mixed are its parts
    rewriting    who has to leave one node for a single pod: the preempt verb
"""
