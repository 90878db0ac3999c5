"""The parts of `gangwright serve`, assembled and kept running until the process is stopped."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy.ma  # noqa: F401 - np.unique imports it at its first call, which would delay a call by 50 ms
import structlog

from scheduler.clock import steady
from scheduler.engine import Engine
from scheduler.extender.extender_app import Limits, build_app, limits, serve
from scheduler.kube.actions import ANNOUNCERS, Actions, Outcome
from scheduler.kube.client import SPARE, Client
from scheduler.kube.credentials import find_access
from scheduler.kube.lease_follower import Follower
from scheduler.kube.lease_record import LeaseName
from scheduler.kube.watch import Freshness, Reflector
from scheduler.kube.watch_probe import UNGUARDED, Pace
from scheduler.model.effects import Evict
from scheduler.model.events import EffectDone, EffectFailed, Event
from scheduler.objects.watched_resources import RESOURCES
from scheduler.service import aggregated_api, operator_actions
from scheduler.service.forecast_loop import keep_foreseeing
from scheduler.service.gauges import Gauges, begin_all
from scheduler.service.informers import Informers
from scheduler.service.operator_actions import OperatorActions
from scheduler.service.service import Service
from scheduler.service.settings_reload import keep_reading
from scheduler.service.status_server import StatusService
from scheduler.serving import probes
from scheduler.serving.component import component
from scheduler.serving.probes import neighbor
from scheduler.serving.server import url
from scheduler.settings import Settings
from scheduler.telemetry.metrics import Metrics

STALLED: Final = 10.0
"""Seconds without a turn of the planning loop after which Gangwright is not ready. The longest plan takes 0.1 s."""

RESERVE: Final = 8
"""Connections to the API server for occasional calls: reads of the Lease, and requests of users."""

KUBE_SCHEDULER: Final = "kube-scheduler"
"""The program that is useless without Gangwright: /livez/kube-scheduler is its liveness probe."""

_log = structlog.get_logger("service")


@dataclass(frozen=True, slots=True)
class Source:
    """The source of settings: how to read them, and a stamp that changes when they do."""

    read: Callable[[], Settings]
    stamp: Callable[[], object]


def connections(settings: Settings) -> int:
    """Connections to the API server: enough that concurrent writes delay neither a watch nor the Lease."""
    return len(RESOURCES) + SPARE + settings.api.concurrent_writes + ANNOUNCERS + RESERVE


async def run(
    settings: Settings, listening: Callable[[Mapping[str, str]], None], source: Source | None = None
) -> None:
    """Serve until canceled. `listening` receives the URLs of verbs, probes and status by these names once they answer.

    source: how to reload the settings when their file changes; None: never.

    Returns when another replica leads. Raises SettingsError, in a group, for settings that cannot be used.
    """
    metrics = Metrics()
    begin_all(metrics)
    access = await find_access(settings.api.kubeconfig, settings.api.context)
    async with Client(access, connections=connections(settings)) as client:
        parts = _parts(settings, client, metrics)
        service = parts.service
        tasks = [
            keep_foreseeing(service.engine, steady, metrics.forecast_duration_seconds.observe),
            parts.follower.run(),
            parts.actions.run(),
            *(reflector.run() for reflector in parts.reflectors.values()),
        ]
        if source is not None:
            tasks.append(keep_reading(service.engine, source.read, source.stamp, service.observe))
        app = build_app(service, settings.verbs, metrics, lambda: _limit(service, settings))
        operator = OperatorActions(
            service.engine,
            service.clock,
            partial(operator_actions.drain_node, service),
            partial(operator_actions.make_moves, service),
        )
        people = StatusService(
            settings.status,
            service.engine,
            client,
            metrics,
            lambda: parts.gauges.fragments,
            operator,
            parts.intake.volumes,
            parts.intake.devices,
        )
        if settings.aggregation.serve:
            tasks.append(
                aggregated_api.keep_serving(settings.aggregation, people, client, settings.lease.namespace)
            )
        async with (
            neighbor(KUBE_SCHEDULER, settings.probes.kube_scheduler) as beside,
            component(
                metrics,
                settings.probes,
                tasks,
                refresh=parts.gauges.refresh,
                ready=partial(_checks, parts, settings),
                beside={KUBE_SCHEDULER: beside},
            ) as probed,
            serve(
                app,
                settings.verbs.host,
                settings.verbs.port,
                settings=settings.verbs,
                metrics=metrics,
                ends=metrics.certificate_end_timestamp_seconds,
            ) as verbs,
            people.serving() as status,
        ):
            places = {
                "verbs": url(settings.verbs.host, verbs, tls=bool(settings.verbs.cert)),
                "probes": probed,
            }
            listening(places | ({"status": status} if status else {}))
            await service.run()


class _Parts(NamedTuple):
    service: Service
    actions: Actions
    intake: Informers
    follower: Follower
    reflectors: Mapping[str, Reflector[Any]]
    sight: Freshness
    gauges: Gauges


def _parts(settings: Settings, client: Client, metrics: Metrics) -> _Parts:
    """The service and its helpers, not started yet."""
    engine = Engine(settings.policy)
    lease = LeaseName(settings.lease.namespace, settings.lease.name) if settings.lease.follow else None
    follower = Follower(client, lease, settings.lease.hostname)
    service = Service(
        engine,
        acting=follower.acting,
        passed_on=lambda: follower.passed_on,
        blind=lambda now: sight.blind_for(now),
        blind_after=settings.api.silent_after,
        planned=metrics.plan_duration_seconds.observe,
    )
    service.actions = actions = Actions(
        client,
        lambda outcomes: _outcomes(service, metrics, outcomes),
        at_once=settings.api.concurrent_writes,
        acting=service.leads,
        gone=engine.ledger.registry.is_gone,
    )
    intake = Informers(
        settings.policy.levels,
        lambda events: listed(service, events),
        lambda: whole(service),
        lambda kind: metrics.unreadable_objects_total.labels(kind).inc(),
    )
    reflectors = reflectors_of(intake, client)
    sight = Freshness(client, {name: reflectors[name] for name in intake.decisive})
    return _Parts(service, actions, intake, follower, reflectors, sight, Gauges(engine, metrics, reflectors))


def reflectors_of(intake: Informers, client: Client) -> dict[str, Reflector[Any]]:
    """The reflector of each kind, by name."""
    return {
        name: Reflector(client, resource, sink, probe_pace=guarded(intake, name))
        for name, (resource, sink) in intake.watches().items()
    }


def guarded(intake: Informers, name: str) -> Pace:
    """The probing pace of a watch. Only a watch that scheduling depends on is worth the extra calls."""
    return Pace() if name in intake.decisive else UNGUARDED


def listed(service: Service, events: Sequence[Event]) -> None:
    """Take in events. While lists are read, what was read is not searched for garbage with each page again."""
    service.observe(events)
    if not service.engine.ledger.synced:
        gc.freeze()


def whole(service: Service) -> None:
    """Every list has been read. What was read lives long, and reading leaves no cycles but some hundred small closures:
    the garbage collector never looks at any of it, because one look delays a call by half a second.
    """
    gc.freeze()
    service.synced()


def _outcomes(service: Service, metrics: Metrics, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        result = outcome.kind.value if isinstance(outcome, EffectFailed) else "done"
        metrics.effects_total.labels(type(outcome.effect).__name__, result).inc()
        if isinstance(outcome.effect, Evict):
            metrics.evictions_total.labels(result).inc()
    events: list[EffectDone | EffectFailed] = list(outcomes)
    service.observe(events)


def _limit(service: Service, settings: Settings) -> Limits:
    ledger = service.engine.ledger
    found = limits(len(ledger.nodes), ledger.registry.count, settings.verbs.body_limit)
    # Until all nodes are listed, kube-scheduler knows more of them than Gangwright does.
    return found if ledger.synced else Limits(found.body)


def _checks(parts: _Parts, settings: Settings) -> list[probes.Check]:
    service, intake, sight = parts.service, parts.intake, parts.sight
    now = service.clock()
    turned = now - service.last_turn
    return [
        probes.Check("synced", intake.synced, f"still reading: {', '.join(intake.missing()) or 'nothing'}"),
        probes.Check("fresh", sight.blind_for(now) <= settings.api.silent_after, sight.told(now)),
        probes.Check(
            "lease",
            service.leads() or not service.engine.ledger.acting,
            "the Lease of this replica's kube-scheduler expired",
        ),
        probes.Check("planning", turned <= STALLED, f"the planning loop last turned {turned:.0f} s ago"),
    ]
