"""The status API as a group of the Kubernetes API: what its server and the command line agree on.

Lives here: names alone. Never here: a route, which is the same by every road (`routes`).
"""

from enum import StrEnum
from typing import Final

API_PREFIX: Final = "/apis/status.gangwright.io"
"""Where the API server passes the status API on to us: this path before each path of the routes."""

REPLICA: Final = "Gangwright-Replica"
"""The header of every answer that says how its replica stands: a `Standing`."""


class Standing(StrEnum):
    """How a replica stands; the first that holds."""

    READING = "reading"
    """It has not read the cluster yet."""
    STANDBY = "standby"
    """Another replica decides. This one knows no reasons, positions and forecasts."""
    STALE = "stale"
    """It does not see the API server, so what it knows may be the past."""
    ACTIVE = "active"
