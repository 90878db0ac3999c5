"""The main program of `gangwright elastic`: assembles the parts and runs them until the process is asked to stop."""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Never, get_args

import structlog

from scheduler.clock import steady
from scheduler.elastic.controller.autoscaler import keep_sizing
from scheduler.elastic.controller.job_metrics import JobMetrics
from scheduler.elastic.controller.job_registry import JOBS, NODES, PODS, JobRegistry, WorkerHandler
from scheduler.elastic.controller.pod_control import Site
from scheduler.elastic.controller.pod_template import Kit
from scheduler.elastic.controller.request_retry import COUNTED, RequestRetry, What
from scheduler.elastic.reconciler.round_transition import BEGINS
from scheduler.elastic.reconciler.round_triggers import TABLE
from scheduler.elastic.reconciler.timeouts import Timeouts
from scheduler.elastic.rendezvous.rendezvous_server import Rendezvous, rendezvous
from scheduler.elastic.rendezvous.worker_messages import ORDINARY, Reason
from scheduler.kube.client import SPARE, Client
from scheduler.kube.credentials import find_access
from scheduler.kube.leader_election import LeaderElection
from scheduler.kube.lease_record import LeaseName
from scheduler.kube.watch import INACTIVITY, Freshness, Reflector, answered
from scheduler.serving import probes
from scheduler.serving.component import component
from scheduler.serving.listener import Cause
from scheduler.settings import Settings
from scheduler.telemetry.elastic_metrics import ElasticMetrics
from scheduler.telemetry.metrics import begin

LOOK: Final = 0.1
"""Seconds between two checks of leadership, and of whether everything has been read."""

SIGHT: Final = 1.0
"""Seconds between two checks of the pod watches."""

TOLD_WITHIN: Final = 10.0
"""Upper bound in seconds for reporting a failed watch to the jobs, however busy the event loop is."""

BESIDE: Final = 64
"""Connections to the API server besides those of watches: writes, statuses, the Lease, and token reviews."""

_log = structlog.get_logger("elastic")


async def run(settings: Settings, listening: Callable[[Mapping[str, str]], None]) -> None:
    """Manage elastic jobs until cancelled. `listening` receives the URLs of rendezvous and probes once this one leads.

    Returns when the Lease is lost: another master is active, or the Lease could not be renewed. Raises SettingsError
    for invalid settings, in a group.
    """
    metrics = ElasticMetrics()
    begin_all(metrics)
    own = settings.elastic
    counting = JobMetrics(metrics, own.reported)
    master = JobRegistry(
        counting, namespaces=own.namespaces, taints=own.doomed_taints, limits=limits_of(settings)
    )
    access = await find_access(settings.api.kubeconfig, settings.api.context)
    async with Client(access, connections=connections(master)) as client:
        by_chance = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        identity = own.identity or os.environ.get("POD_NAME") or by_chance
        holder = LeaderElection(client, LeaseName(own.lease_namespace, own.lease_name), identity)

        def leading() -> bool:
            return holder.leading(steady())

        reflectors = {
            name: Reflector(client, resource, sink) for name, (resource, sink) in master.watches().items()
        }
        pods = Freshness(client, {name: each for name, each in reflectors.items() if name.startswith(PODS)})
        tasks = [
            holder.run(),
            keep_seeing(master, pods, settings.api.silent_after),
            *(reflector.run() for reflector in reflectors.values()),
        ]
        trying = RequestRetry(
            client,
            asyncio.Semaphore(settings.api.concurrent_writes),
            least=own.retry,
            most=own.retry_limit,
            counted=lambda what, result: metrics.writes_total.labels(what, result).inc(),
            acting=leading,
        )
        async with component(
            metrics,
            settings.probes,
            tasks,
            refresh=lambda now: counting.refresh(now, reflectors, leading=holder.leading(now)),
            ready=partial(_checks, master, holder, client, settings),
        ) as probed:
            await _until(lambda: master.synced and leading())
            handler = WorkerHandler(master, leading, lambda: pods.stands(steady()), settings.rendezvous.beat)
            async with rendezvous(
                handler, client, settings.rendezvous, metrics, namespace=own.lease_namespace
            ) as meeting:
                site = _site(settings, trying, meeting)
                took = metrics.sizing_duration_seconds.observe
                try:
                    master.begin(site)
                    listening({"probes": probed, "rendezvous": site.kit.master})
                    sizing = keep_sizing(
                        master, site.kit, own.sizing_every, took, short_first=own.short_first
                    )
                    await _while(leading, sizing, _keep_written(master, own.status_every))
                finally:
                    master.end()
                    await holder.release()
            _log.info("lease lost")


def connections(master: JobRegistry) -> int:
    """Connections to the API server. Watches of many namespaces leave the others enough."""
    return len(master.watches()) + SPARE + BESIDE


def _site(settings: Settings, trying: RequestRetry, meeting: Rendezvous) -> Site:
    """What all jobs share."""
    kit = Kit(
        settings.workers.address or meeting.address,
        meeting.authority,
        settings.cluster.scheduler_names[0],
        settings.rendezvous.audience,
        settings.workers,
    )
    return Site(trying, kit, steady, meeting.values)


def limits_of(settings: Settings) -> Timeouts:
    """The time-outs of the reconciler that follow from the settings; the others have their defaults."""
    own = settings.elastic
    return Timeouts(
        unseen=INACTIVITY + settings.api.silent_after + TOLD_WITHIN,
        silent=settings.rendezvous.silent_after,
        grace=max(Timeouts().grace, 2.5 * settings.rendezvous.beat),  # two beats, even if both are late
        collective=settings.workers.gloo_timeout,
        start=own.start_limit,
        trouble=own.trouble_limit,
        hang=own.hang_limit,
        save=own.save_limit,
        release=own.release_limit,
    )


async def _while(holds: Callable[[], bool], *work: Coroutine[Any, Any, Never]) -> None:
    """Run the work as long as the condition holds."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        await _until(lambda: not holds())
        for task in tasks:
            task.cancel()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the condition depends on the clock as well
        await asyncio.sleep(LOOK)


async def keep_seeing(
    master: JobRegistry,
    pods: Freshness,
    after: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Never:
    """Report to the jobs which pod watches are down. after: seconds without a watch that are tolerated.

    Other answers of the API server do not count. They arrive even while pods alone are rejected, throttled or too many
    to be read in time. Pods would then be created without being seen, again and again.
    """
    before: dict[str, str] = {}
    while True:
        now = pods.blind(steady(), after) if master.synced else {}
        for name in now.keys() - before.keys():
            _log.warning("pod watch down, no workers are started", watch=name, error=now[name])
        for name in before.keys() - now.keys():
            _log.info("pod watch recovered", watch=name)
        if now.keys() != before.keys():
            master.sight_turned(now)
        before = now
        await sleep(SIGHT)


async def _keep_written(master: JobRegistry, every: float) -> Never:
    while True:
        for controller in list(master.controllers.values()):
            controller.refresh()
            await asyncio.sleep(0)
        await asyncio.sleep(every)


def _checks(
    master: JobRegistry, holder: LeaderElection, client: Client, settings: Settings
) -> list[probes.Check]:
    now = steady()
    quiet = now - client.last_answer
    return [
        probes.Check("synced", master.synced, f"still reading: {', '.join(master.missing()) or 'nothing'}"),
        probes.Check("fresh", quiet <= settings.api.silent_after, answered(quiet)),
        probes.Check("leading", holder.leading(now), f"the Lease is held by {holder.holder or 'no replica'}"),
    ]


def begin_all(metrics: ElasticMetrics) -> None:
    """Start every counter with a closed list of labels at 0: Prometheus sees no growth in one that begins above 0."""
    begin(metrics.connections_closed_total, get_args(Cause))
    begin(metrics.refusals_total, [reason for reason in Reason if reason not in ORDINARY])
    begin(metrics.token_reviews_total, ["yes", "no", "away"])
    begin(metrics.rounds_total, [BEGINS, *(cause.name for cause in TABLE)])
    begin(metrics.writes_total, get_args(What), COUNTED)
    begin(metrics.unreadable_objects_total, [JOBS, PODS, NODES])
