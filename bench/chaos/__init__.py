"""What the death of its programs costs a cluster, and what it never does: wrong seats.

Lives here: a program that breaks the plane of `tests.plane` again and again while Jobs come, and what counts along.
Never here: anything of `scheduler`. What the accountant says must not rest on what it judges.

    python -m bench.chaos --kills 30 --freezes 6 --outages 4
        a line a kind of fault: seconds to the next bind; then what was wrong. It ends with 1 if anything was

    accounts → what must never be, on whole pictures    schedule → which faults, in which order
    keeper → kubelet's part: restarts and liveness      faults → one fault, and the seconds to the next bind
    jobs → what is submitted                            running → all of it, from the first node to the last gang
"""
