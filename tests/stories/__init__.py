"""What Gangwright is for, told as stories on a real control plane: each test is one sentence that is true in a cluster.

Lives here: in `support`, `workloads` (what people submit), `people` (who asks, and with which rights), `cluster` (what a story does
and sees), `accountant` (who counts along and believes nobody), and the stories. Never here: anything of `scheduler`. A
story knows Gangwright as a user and an administrator do: by manifests/, pods, events, conditions and metrics.

    test_ffdl        the deadlock of gangs without a gang scheduler, and its end; one machine or two
    test_levels      racks and areas, required and preferred
    test_roles       parameter servers and workers; members above the quorum
    test_formats     gangs as other systems write them
    test_roads       pods with our gate, hard and soft           test_side_road   pods without it
    test_strangers   pods of other schedulers
    test_queue       who goes first, and who passes          test_shares      ceilings, and room that was lent
    test_preemption  room is made for a gang                 test_turns       Jobs suspended and resumed by turns
    test_bad_input   what people get wrong, and what they try
    test_kills       our process dies between any two writes
    test_accidents   nodes, pods and schedulers that fail in the middle of a gang
    test_outages     the API server stops, or forgets            test_replicas    one replica takes over from another
    test_cli         what people ask and do              test_status      the same of the status service, with rights
    test_moves       moves that would help, and drains   test_kubelets    logs of a gang; the service in its Pod
    elastic          jobs that change their size
    test_rights      what was done was allowed
"""
