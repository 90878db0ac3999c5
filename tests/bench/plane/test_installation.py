"""Gangwright on the plane: what its metrics say, that its ports stay, and what is left when it does not come up."""

import asyncio
import socket

import pytest

from bench.plane import Plane
from bench.plane.errors import DescriptionError, NotReadyError
from bench.plane.installation import Installation, _kept
from bench.plane.ports import HOST
from bench.plane.scrape import Metrics

SCRAPE = """
# TYPE gangwright_answers_total counter
gangwright_answers_total{reason="Seated",verb="filter"} 3.0
gangwright_answers_total{reason="InsufficientResources",verb="filter"} 2.0
gangwright_answers_total{reason="Bound",verb="preempt"} 1.0
# TYPE gangwright_acting gauge
gangwright_acting 1.0
"""


def test_metrics_are_summed_by_label() -> None:
    """A scrape gives the sum over the samples whose labels hold the named ones, and 0 where there is none."""
    seen = Metrics.parsed(SCRAPE)

    assert seen.value("gangwright_answers_total", verb="filter") == 5
    assert seen.value("gangwright_answers_total", verb="filter", reason="InsufficientResources") == 2
    assert seen.value("gangwright_acting") == 1
    assert seen.value("gangwright_answers_total", verb="prioritize") == 0


async def test_kept_port_can_be_opened_again_and_again() -> None:
    """A kept port is opened by asyncio's own server, closed, and opened once more, while it stays kept."""
    kept = _kept()
    port = kept.getsockname()[1]
    for _ in range(2):
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), HOST, port)
        _, writer = await asyncio.open_connection(HOST, port)
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
    kept.close()


def test_kept_port_is_given_to_nobody_else() -> None:
    """While a port is kept and nobody listens on it, nobody who does not ask for it by name can open it."""
    with _kept() as kept, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(kept.getsockname())


@pytest.mark.plane
def test_a_start_that_fails_leaves_nothing_behind(plane: Plane) -> None:
    """A setting that is wrong is told with the end of the extender's log, and no program of it is left."""
    programs = set(plane.programs)

    with pytest.raises(NotReadyError, match=r"gangs\.timeout"):
        Installation(plane, manifests=None, set_={"gangs.timeout": "never"}).start()
    assert set(plane.programs) == programs


@pytest.mark.plane
def test_two_of_one_name_are_refused(plane: Plane) -> None:
    """Two installations cannot have one name on one plane."""
    with pytest.raises(DescriptionError, match="kube-scheduler"):
        Installation(plane, name="kube-scheduler")
