"""What a query asks for: series, labels, and what it is grouped by. Reads what `promql_parser` made of it."""

from collections.abc import Iterable, Iterator
from typing import Any

import promql_parser

from tests.telemetry.rows import HISTOGRAM, PREFIX, Row


def exported(rows: Iterable[Row]) -> dict[str, set[str]]:
    """Series name → the labels that it has."""
    series: dict[str, set[str]] = {}
    for row in rows:
        histogram: dict[str, tuple[str, ...]] = {"_bucket": ("le",), "_sum": (), "_count": ()}
        parts = histogram if row.kind == HISTOGRAM else {"": ()}
        series |= {PREFIX + row.name + part: {*row.labels, *more} for part, more in parts.items()}
    return series


def selected(node: Any) -> Iterator[tuple[str, set[str]]]:
    """Each (series name, labels matched) below a node of a parsed query."""
    for selector in selectors(node):
        yield selector.name, {matcher.name for matcher in selector.matchers.matchers}


def selectors(node: Any) -> Iterator[Any]:
    """Each selector of series below a node of a parsed query."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    if isinstance(node, promql_parser.MatrixSelector):
        yield from selectors(node.vector_selector)
    for child in ("expr", "lhs", "rhs", "param"):
        if below := getattr(node, child, None):
            yield from selectors(below)
    for argument in getattr(node, "args", None) or []:
        yield from selectors(argument)


def grouped(node: Any) -> Iterator[tuple[set[str], set[str]]]:
    """Each (labels grouped by, series names) of the aggregations below a node."""
    if isinstance(node, promql_parser.AggregateExpr):
        labels = set(node.modifier.labels) if node.modifier else set()
        yield labels, {name for name, _ in selected(node.expr)}
    for child in ("expr", "lhs", "rhs"):
        if below := getattr(node, child, None):
            yield from grouped(below)
    for argument in getattr(node, "args", None) or []:
        yield from grouped(argument)
