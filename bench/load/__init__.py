"""What a real kube-scheduler does in a second, with and without Gangwright beside it.

Lives here: three measurements on the plane of `bench.plane` (etcd, kube-apiserver, kube-scheduler as they are shipped),
and the pods and groups they submit. Never here: a claim that was not measured in the same run as what it is compared
with; machines differ, so every last line is a ratio.

    python -m bench.load throughput --nodes 1000 --pods 2000
        pods a second when everything waits already: pods per road, the roads taken in turns
    python -m bench.load gangs --gangs 20 --size 100 --nodes 1000
        seconds from the first create to the last bind, beside kube-scheduler's own gangs
    python -m bench.load floods
        how long the verb filter takes while others flood the other ports, beside a server that answers constants

    work → what is submitted         roads → who places it            start → the moment at which all may begin
    seen → what a watch of our own saw    figures → medians and ratios      throughput, gangs, floods → the measurements
    callers → the clients of a flood
"""
