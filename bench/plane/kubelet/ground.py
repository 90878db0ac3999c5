"""What all pods of one stand-in kubelet stand on. Frozen but for the list of what went wrong."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.plane.client import Client
from bench.plane.kubelet.images import Image


@dataclass(frozen=True)
class Ground:
    api: Client
    folder: Path
    isolation: str
    """A row of `container.ISOLATIONS`."""
    images: Mapping[str, Image]
    cluster: Mapping[str, str]
    """Variables that tell every container where the API server is."""
    port: int
    """Where the API server finds the kubelet of every node."""
    host: str = "127.0.0.1"
    failures: list[BaseException] = field(default_factory=list)
    """Faults of the stand-in itself; whoever ends it raises them."""


AGAIN = 0.2
"""Seconds until what failed for want of a ConfigMap, a Secret or the API server is tried again."""


def now() -> str:
    """The time of day as the API writes it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
