"""How long one decision about the sizes of many elastic jobs takes, in milliseconds of CPU time.

Every job has the policy `offer`, two of at most 64 workers, and measurements at three sizes. Every node has free devices.
What counts is what the master does at each decision: it reads what a worker of each job asks for and what the nodes have
free, and divides that.
"""

import gc
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from bench.micro import canned
from scheduler.elastic.controller.node_usage import NodeUsage
from scheduler.elastic.sizing import JobView, Measured, size
from scheduler.objects import api

SHAPES = 4
"""Kinds of workers."""


def decision(jobs: int, nodes: int, tries: int = 5) -> float:
    """Of the best try. Raises RuntimeError where no job grows."""
    usage = cluster(nodes)
    return min(_once(usage, jobs) for _ in range(tries))


def cluster(nodes: int) -> NodeUsage:
    """Nodes of which each runs two pods."""
    usage = NodeUsage()
    for number in range(nodes):
        usage.node_seen(msgspec.convert(canned.node(number), api.Node))
    for number in range(2 * nodes):
        pod = canned.pod(number)
        pod["spec"]["nodeName"] = canned.node(number % nodes)["metadata"]["name"]
        usage.pod_seen(msgspec.convert(pod, api.Pod))
    return usage


def view(number: int) -> JobView:
    """A job that trains with two workers."""
    rates = {2: 100.0, 4: 180.0 + number % 7, 8: 300.0 + number % 11}
    measured = {workers: Measured(mean=rate, count=20.0) for workers, rate in rates.items()}
    return JobView(name=f"team/j{number:04}", min=2, max=64, size=2, held=2, want=2, measured=measured)


def worker(number: int) -> Mapping[str, Any]:
    """A worker's pod, as the master would make it."""
    pod = canned.pod(0)
    asked = {"cpu": f"{2 + number % SHAPES}", "memory": "8Gi", "nvidia.com/gpu": "1"}
    pod["spec"]["containers"][0]["resources"] = {"requests": asked}
    pod["spec"]["nodeSelector"] = {"kubernetes.io/arch": "amd64"}
    del pod["spec"]["nodeName"]
    return pod


def _once(usage: NodeUsage, jobs: int) -> float:
    pods = {one.name: worker(number) for number, one in enumerate(map(view, range(jobs)))}
    views = list(map(view, range(jobs)))
    gc.collect()
    began = time.process_time()
    free, asked = usage.offer(pods)
    wants = size(
        [
            msgspec.structs.replace(one, worker=asked[one.name].amounts, kind=asked[one.name].kind)
            for one in views
        ],
        free,
    )
    took = 1000 * (time.process_time() - began)
    if not all(want.size > 2 for want in wants.values()):
        raise RuntimeError("every job was to grow")
    return took
