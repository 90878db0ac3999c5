"""A stand-in for the kubelet: pods that are bound to its nodes run as processes of this machine.

So a pod goes its whole way without a container engine: object, scheduler, bind, process, status, deletion. Like the
rest of the plane it imports nothing of the product.

    images, environment, status       what pods say and what is told of them, pure
    enter                             the little program that becomes a container's first process
    container, volumes, orders, probes    processes and folders
    life, telling, machine            a pod's life, what is told of it, a node
    serving                           logs and ports, for the API server
    kubelet                           all of it behind a few calls

What is real: process, mount and host-name namespaces where the machine permits them (a container's command is process
1, a signal it has no handler for passes it by, its mounts exist for it alone), the environment a pod asks for and
nothing else, tokens bound to the pod by the API server, SIGTERM, grace, SIGKILL, exit codes, probes, restarts, the
status a kubelet writes, node leases, `kubectl logs` through the API server. Where namespaces are not permitted, mount
paths in the pod's words are replaced by folders.

What is not: an image is a search path and no files of its own; pods share the machine's network, so their ports are its
ports, and are forwarded over WebSockets alone, not as kubectl does; memory and processor time are not limited; users,
capabilities and security contexts are not heeded; volumes of storage classes, sidecars (init containers that go on
running), lifecycle hooks, the times of a log's lines are not there.
"""

from bench.plane.kubelet.images import OURS, PLAIN, Image
from bench.plane.kubelet.kubelet import Kubelet

__all__ = ["OURS", "PLAIN", "Image", "Kubelet"]
