"""The description of the API: what it says, and whether the service keeps to it, whatever it is asked."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from scheduler.status.openapi import description
from scheduler.status.routes import ROUTES
from tests.status.support.reviewing import ADMIN, everybody
from tests.status.support.scene import a_scene
from tests.status.support.scripted import Scripted
from tests.status.support.served import served


def described():
    return json.loads(json.dumps(description()))


def test_every_route_is_described():
    """Method, path, answer and body, and nothing that is no route."""
    told = {(method.upper(), path) for path, methods in described()["paths"].items() for method in methods}

    assert told == {(route.method, route.path) for route in ROUTES}


def test_every_reference_is_there():
    """Each $ref names a schema of the description."""
    found = described()
    text = json.dumps(found)
    names = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}

    assert names <= set(found["components"]["schemas"])
    assert "GangRow" in names


def test_every_field_that_is_sent_is_required():
    """A reader may count on each: what is not known is null."""
    for name, schema in described()["components"]["schemas"].items():
        if not name.startswith("Trial") and schema["type"] == "object":
            assert set(schema["required"]) == set(schema["properties"]), name


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """The service on a loop of its own, in a thread: schemathesis asks it over the socket, from outside."""
    ready, ended = threading.Event(), threading.Event()
    found: list[str] = []

    async def stand() -> None:
        world = a_scene()
        async with served(
            world.engine, everybody(), now=world.now, operator=Scripted(), endless=True
        ) as running:
            found.append(running.url)
            ready.set()
            while not ended.is_set():
                await asyncio.sleep(0.05)

    thread = threading.Thread(target=asyncio.run, args=(stand(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    yield found[0]
    ended.set()
    thread.join(30)


api = schemathesis.openapi.from_dict(described())
for check in (api.config.checks.negative_data_rejection, api.config.checks.positive_data_acceptance):
    check.expected_statuses = [*check.expected_statuses, "413"]  # how large a body may be, no schema can say


@pytest.mark.slow
@api.parametrize()
@settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_the_service_keeps_to_its_description(case, place):
    """No answer is a surprise: statuses, types and bodies are as described, and wrong requests are refused."""
    case.call_and_validate(base_url=place, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=10)
