"""Pods of the openb traces arrive one by one, some for a share of a GPU, and each goes to single devices of one node.

The rules are those of the published runs of FGD (Weng et al., USENIX ATC '23): no pod departs, and a pod that fits on no
node is dropped. Lives here: the tables, one run of Gangwright's planner, and one run of each published policy.
Never here: a decision for Gangwright. The planner chooses the node, and its own rule chooses the device inside.

    mixes     the tables: nodes, pods, orders of arrival, published curves
    curve     one run, and the allocated GPUs by arrived demand
    planned   a cluster whose nodes the planner chooses
    books     the free capacity of a cluster as arrays, and which nodes fit a pod
    policies  the published scores and device rules
    fgd       the score of FGD
    replica   a cluster whose nodes a published policy chooses
    runs      one run by mix, seed, and policy or strategy

    python -m bench.openb --mix default --seed 42 --by cosine
"""
