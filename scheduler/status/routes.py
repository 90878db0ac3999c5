"""The table of all routes: the common source of the server and the description, so that they cannot diverge.

Lives here: paths, parameters, bodies and answers by type. Never here: the content of an answer.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.model import names
from scheduler.status import accounting, move_schemas, node_schemas, schemas
from scheduler.status.endpoints import Ask, Endpoints


@dataclass(frozen=True, slots=True)
class Word:
    """A parameter: its name, valid values, and JSON Schema. default: used if it is omitted."""

    name: str
    said: str
    pattern: str = ""
    least: int = 0
    most: int = 0
    default: int | None = None

    @property
    def is_number(self) -> bool:
        return not self.pattern

    @property
    def schema(self) -> Mapping[str, Any]:
        if self.is_number:
            return {"type": "integer", "minimum": self.least, "maximum": self.most, "default": self.default}
        return {"type": "string", "pattern": self.pattern}

    def read(self, text: str) -> int | str:
        """The parameter's value. Raises ValueError with the valid values."""
        if not self.is_number:
            if not re.fullmatch(self.pattern.strip("^$"), text):
                raise ValueError(f"must match {self.pattern}")
            return text
        if not (
            text.isascii() and text.isdecimal() and len(text) < 19 and self.least <= int(text) <= self.most
        ):
            raise ValueError(f"must be an integer from {self.least} to {self.most}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Route:
    """One path and method. query: optional parameters. statuses: in addition to those of every route."""

    method: str
    path: str
    name: str
    summary: str
    said: str
    answer: type[schemas.Part]
    handler: Callable[[Endpoints, Ask], Awaitable[schemas.Part]]
    query: tuple[Word, ...] = ()
    body: type[schemas.Asked] | None = None
    statuses: tuple[int, ...] = ()


NAMESPACE: Final = Word("namespace", "A namespace.", f"^{names.NAMESPACE}$")
NODE: Final = Word("node", "The name of a node.", f"^{names.SUBDOMAIN}$")
NAME: Final = Word("name", "The `key` of a gang, or the name of a single pod.", r"^[-A-Za-z0-9_.:~]{1,253}$")
PATH: Final = {word.name: word for word in (NAMESPACE, NODE, NAME)}
"""The parameters in braces in a path."""

LABELS: Final = Word(
    "labelSelector",
    "Labels of a gang's first pod: KEY, !KEY, KEY=VALUE or KEY!=VALUE, separated by commas. If set, the answer omits "
    "gangs whose names the caller may not read, and gangs without pods.",
    f"^{names.LABEL_SELECTOR}$",
)

PAGES: Final = (
    Word("offset", "Number of entries to skip.", least=0, most=10_000_000, default=0),
    Word("limit", "Maximum number of entries.", least=1, most=1000, default=500),
)

LAST: Final = Word("limit", "Maximum number of entries.", least=1, most=1000, default=100)

ROUTES: Final = (
    Route(
        "GET",
        "/v1/queue",
        "queue",
        "List pending gangs in queue order",
        "Pending gangs in queue order, followed by incomplete and rejected gangs, which have no position.",
        schemas.GangList,
        Endpoints.queue,
        query=(LABELS, *PAGES),
    ),
    Route(
        "GET",
        "/v1/gangs",
        "gangs",
        "List all gangs",
        "All gangs. Gangs whose names the caller may not read come last, without names.",
        schemas.GangList,
        Endpoints.gangs,
        query=(NAMESPACE, LABELS, *PAGES),
    ),
    Route(
        "GET",
        "/v1/gangs/{namespace}/{name}",
        "gang",
        "Get one gang",
        "The gang's state and reason, the missing resources, and the nodes of its pods. Requires the right to list "
        "pods in its namespace.",
        schemas.GangDetail,
        Endpoints.gang,
        statuses=(404,),
    ),
    Route(
        "GET",
        "/v1/nodes",
        "nodes",
        "List nodes and the gangs on them",
        "All nodes with their domains, free resources, and gangs.",
        node_schemas.NodeList,
        Endpoints.nodes,
        query=PAGES,
    ),
    Route(
        "GET",
        "/v1/cluster",
        "cluster",
        "Get an overview of the cluster",
        "Totals, utilization, fragmentation, and whether this replica is active.",
        node_schemas.ClusterStatus,
        Endpoints.cluster,
    ),
    Route(
        "GET",
        "/v1/shares",
        "shares",
        "List the shares of namespaces",
        "Used, guaranteed, borrowed, ceiling and waiting, by namespace and resource. Namespaces whose pods the caller "
        "may not list are summed up in one row.",
        accounting.ShareList,
        Endpoints.shares,
    ),
    Route(
        "GET",
        "/v1/history",
        "history",
        "List gangs that ended",
        "The wait, run time, resource use and outcome of each gang, the last first. The replica keeps them in memory "
        "since it became active. Gangs in namespaces whose pods the caller may not list are omitted.",
        accounting.HistoryList,
        Endpoints.history,
        query=(NAMESPACE, LAST),
    ),
    Route(
        "POST",
        "/v1/simulate",
        "simulate",
        "Simulate pods",
        "Whether a gang of these pods would start now, its nodes, and its victims. Changes nothing. Requires the right "
        "to create pods in the namespace.",
        schemas.TrialAnswer,
        Endpoints.simulate,
        body=schemas.TrialRequest,
        statuses=(409,),
    ),
    Route(
        "POST",
        "/v1/nodes/{node}/drain",
        "drain",
        "Drain a node",
        "Moves gangs away from the node, only to nodes that are reserved first. Requires the rights to patch the node, "
        "and to evict pods in every namespace with gangs on it.",
        schemas.DrainAnswer,
        Endpoints.drain,
        body=schemas.Nothing,
        statuses=(404, 409),
    ),
    Route(
        "POST",
        "/v1/defrag",
        "defrag",
        "Free capacity for the first pending gang",
        "Moves smaller gangs and single pods to nodes that are reserved first, if their owners recreate them without "
        "counting a failure. The nodes for the pending gang are reserved too. Requires the right to list pods in all "
        "namespaces and, unless it is a dry run, to evict pods in every namespace with a gang that moves.",
        move_schemas.DefragAnswer,
        Endpoints.defrag,
        body=move_schemas.DefragRequest,
        statuses=(409,),
    ),
)
"""In the order of the description."""

REMOVED: Final = {
    f"/v1/gangs/{{namespace}}/{{name}}/{word}": f"this route was removed; run: gangwright {word} GANG"
    for word in ("suspend", "resume")
}
"""POST routes that answer 410 for one version, each with its replacement."""
