"""The description of the API, in OpenAPI 3.1, generated from the table of routes and the types of their answers.

Lives here: the description of a route. Never here: a route.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler import __version__
from scheduler.status import schemas
from scheduler.status.routes import PATH, ROUTES, Route, Word

JSON: Final = "application/json"

EVERYWHERE: Final[Mapping[int, str]] = {
    400: "The path, the query or the body is invalid.",
    401: "The credentials are missing or invalid.",
    403: "The caller lacks a required right.",
    413: "The body is too large.",
    415: "The body is not JSON, or is compressed.",
    429: "Too many requests, too many pods in dry runs, or a concurrent dry run. The text says which. See Retry-After.",
    500: "Gangwright failed.",
    503: "The API server does not answer, or the answer took too long.",
}
ELSEWHERE: Final[Mapping[int, str]] = {
    404: "The gang or node was not found.",
    409: "The action is not possible now. The text says why.",
}

SAID: Final = (
    "Pending gangs with the reason each is pending, running gangs with their nodes, and dry runs. Every replica "
    "answers from its own memory. A standby replica has no reasons, positions or forecasts. Names of gangs are null in "
    "namespaces where the caller may not list pods."
)


def description() -> Mapping[str, Any]:
    """The whole description, as JSON values."""
    types: set[type] = {
        schemas.Error,
        *(route.answer for route in ROUTES),
        *(r.body for r in ROUTES if r.body),
    }
    ordered = sorted(types, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gangwright status",
            "version": __version__,
            "description": SAID,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"certificate": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token for the API server."},
                "certificate": {
                    "type": "mutualTLS",
                    "description": "A client certificate signed by the cluster's authority.",
                },
            },
        },
    }


def _operation(route: Route) -> Mapping[str, Any]:
    inside = [_parameter(PATH[name], "path") for name in re.findall(r"{(\w+)}", route.path)]
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": route.said,
        "parameters": [*inside, *(_parameter(word, "query") for word in route.query)],
        "responses": _responses(route),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body)}
    return operation


def _parameter(word: Word, place: str) -> Mapping[str, Any]:
    return {
        "name": word.name,
        "in": place,
        "required": place == "path",
        "description": word.said,
        "schema": word.schema,
    }


def _responses(route: Route) -> Mapping[str, Any]:
    good: dict[str, Any] = {
        "200": {"description": "The answer.", "content": _content(route.answer)},
    }
    if route.method == "GET":
        good["200"]["headers"] = {
            "ETag": {"description": "The entity tag of this answer.", "schema": {"type": "string"}},
        }
        good["304"] = {"description": "The answer has not changed since If-None-Match."}
    told = {**EVERYWHERE, **{status: ELSEWHERE[status] for status in route.statuses}}
    bad = {
        str(status): {"description": text, "content": _content(schemas.Error)}
        for status, text in sorted(told.items())
    }
    return good | bad


def _content(kind: type) -> Mapping[str, Any]:
    return {JSON: {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
