"""What the death of its programs costs a cluster, and what it never costs: a wrong seat.

Lives here: a program that breaks the plane of `bench.plane` again and again while Jobs come, and what counts along.
Never here: anything of `scheduler`. What the accountant says must not rest on what it judges.

    python -m bench.chaos --kills 30 --freezes 6 --outages 4
        a line a kind of fault: seconds to the next bind; then what was counted. It ends with 1 if anything was wrong

    accounts → what must never be    picture → the cluster as the accountant sees it    jobs → what is submitted
    keeper → kubelet's part: restarts and liveness    faults → which, in which order, and one carried out
    running → all of it, from the first node to the last gang
"""
