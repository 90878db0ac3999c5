"""Stories of elastic jobs on the whole real way: API object, master, gated pods, kube-scheduler, extender, process,
Horovod.

Pods run as processes of this machine (`bench.plane.kubelet`), the master under the account that manifests/ gives it,
and Horovod trains for real, or its stand-in does (`jobs.REAL`, `jobs.STANDIN`).
Stories see what a user sees: the job's object, its pods, their logs, events, metrics.

In `horovod` processes train around a master in the test, without a cluster. `scripts` has what trains.
"""
