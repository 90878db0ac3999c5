"""The table of all routes: what server and description are both made from, so that neither can drift.

Lives here: paths, parameters, bodies and answers by type. Never here: what an answer says.
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
    """A parameter: where it stands, what it may be, and its JSON Schema. default: None where it may be left out."""

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
        """The parameter's value. Raises ValueError, which says what would be right."""
        if not self.is_number:
            if not re.fullmatch(self.pattern.strip("^$"), text):
                raise ValueError(f"must match {self.pattern}")
            return text
        if not (
            text.isascii() and text.isdecimal() and len(text) < 19 and self.least <= int(text) <= self.most
        ):
            raise ValueError(f"must be a whole number from {self.least} to {self.most}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Route:
    """One path and method. query: may all be left out. statuses: beside those that every route may answer with."""

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
"""What stands in braces in a path."""

LABELS: Final = Word(
    "labelSelector",
    "Only gangs whose first pod has these labels: KEY, !KEY, KEY=VALUE or KEY!=VALUE, joined by commas. Gangs whose "
    "names the asker may not read are left out then, and gangs without pods.",
    f"^{names.LABEL_SELECTOR}$",
)

PAGES: Final = (
    Word("offset", "How many to leave out.", least=0, most=10_000_000, default=0),
    Word("limit", "How many to show at most.", least=1, most=1000, default=500),
)

LAST: Final = Word("limit", "How many to show at most.", least=1, most=1000, default=100)

ROUTES: Final = (
    Route(
        "GET",
        "/v1/queue",
        "queue",
        "Who waits, in order",
        "Gangs that wait for room, in the order in which they are asked about; behind them, without a position, those "
        "that are incomplete or refused.",
        schemas.GangList,
        Endpoints.queue,
        query=(LABELS, *PAGES),
    ),
    Route(
        "GET",
        "/v1/gangs",
        "gangs",
        "All gangs",
        "Every gang. Those whose names the asker may not read come last, without names.",
        schemas.GangList,
        Endpoints.gangs,
        query=(NAMESPACE, LABELS, *PAGES),
    ),
    Route(
        "GET",
        "/v1/gangs/{namespace}/{name}",
        "gang",
        "One gang, in full",
        "Why it is where it is, what it lacks, where its pods are. Needs the right to list pods in its namespace.",
        schemas.GangDetail,
        Endpoints.gang,
        statuses=(404,),
    ),
    Route(
        "GET",
        "/v1/nodes",
        "nodes",
        "Nodes, and who is on them",
        "Every node with its domains, its room, and the gangs on it.",
        node_schemas.NodeList,
        Endpoints.nodes,
        query=PAGES,
    ),
    Route(
        "GET",
        "/v1/cluster",
        "cluster",
        "The cluster at a glance",
        "Totals, use, fragmentation, and whether this replica acts.",
        node_schemas.ClusterStatus,
        Endpoints.cluster,
    ),
    Route(
        "GET",
        "/v1/shares",
        "shares",
        "What namespaces use, and may",
        "Used, guaranteed, borrowed, ceiling and waiting, by namespace and resource. Namespaces whose pods the asker may "
        "not list are one row of sums.",
        accounting.ShareList,
        Endpoints.shares,
    ),
    Route(
        "GET",
        "/v1/history",
        "history",
        "Gangs that ended",
        "How long each waited and ran, what it used, and how it ended, the last first. Kept in memory alone, since the "
        "replica began to act. Gangs of namespaces whose pods the asker may not list are left out.",
        accounting.HistoryList,
        Endpoints.history,
        query=(NAMESPACE, LAST),
    ),
    Route(
        "POST",
        "/v1/simulate",
        "simulate",
        "Try pods out",
        "Whether a gang of these pods would start now, where, and whom it would cost. Nothing is changed. Needs the "
        "right to create pods in the namespace.",
        schemas.TrialAnswer,
        Endpoints.simulate,
        body=schemas.TrialRequest,
        statuses=(409,),
    ),
    Route(
        "POST",
        "/v1/nodes/{node}/drain",
        "drain",
        "Move gangs away from a node",
        "Only onto seats that were found first. Needs the rights to patch the node, and to evict pods in every namespace "
        "that has gangs on it.",
        schemas.DrainAnswer,
        Endpoints.drain,
        body=schemas.Nothing,
        statuses=(404, 409),
    ),
    Route(
        "POST",
        "/v1/defrag",
        "defrag",
        "Make room for the first gang that waits, by moves",
        "Smaller gangs and single pods move onto seats that were found first, where their owners make them again at no "
        "cost; their seats, and those of the gang that waits, are kept. Needs the rights to list pods in all namespaces, "
        "and, unless it is a dry run, to evict pods in every namespace of which a gang moves.",
        move_schemas.DefragAnswer,
        Endpoints.defrag,
        body=move_schemas.DefragRequest,
        statuses=(409,),
    ),
)
"""In the order in which the description shows them."""

REMOVED: Final = {
    f"/v1/gangs/{{namespace}}/{{name}}/{word}": f"this route was removed; run: gangwright {word} GANG"
    for word in ("suspend", "resume")
}
"""POST routes that answer 410 for one version, each with what replaces it."""
