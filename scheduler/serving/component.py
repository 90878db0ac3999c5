"""The parts of every program: background tasks, gauges that are kept current, and probes.

Lives here: how these start and end together. Never here: the work of a task, or the meaning of ready. Each program
lists its own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Never

from scheduler.clock import steady
from scheduler.serving import probes
from scheduler.serving.server import serve, url
from scheduler.settings import Probes

REFRESH: Final = 2.0
"""Seconds between two refreshes of the gauges; Prometheus scrapes every 15 to 60."""


@asynccontextmanager
async def component(
    metrics: probes.Metrics,
    settings: Probes,
    tasks: Iterable[Coroutine[Any, Any, None]],
    *,
    refresh: Callable[[float], None],
    ready: Callable[[], Sequence[probes.Check]],
    beside: Mapping[str, probes.Beside] | None = None,
) -> AsyncIterator[str]:
    """Run the tasks and serve the probes while the context lasts. Yields the URL of the probes.

    When a task fails, all of them end, and the context with them. refresh: updates the gauges; called with the time.
    ready, beside: as in `probes.build_app`. Raises SettingsError, in a group, if the address cannot be listened on.
    """
    app = probes.build_app(metrics, ready, beside)
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(task) for task in (*tasks, _keep_current(refresh))]
        try:
            async with serve(app, settings.host, settings.port, section="probes") as port:
                yield url(settings.host, port)
        finally:
            for task in running:
                task.cancel()


async def _keep_current(refresh: Callable[[float], None]) -> Never:
    while True:
        refresh(steady())
        await asyncio.sleep(REFRESH)
