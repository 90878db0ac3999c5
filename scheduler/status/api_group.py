"""The status API as a group of the Kubernetes API: names that its server and the command line share.

Lives here: only names. Never here: a route, which does not depend on how it is reached (`routes`).
"""

from enum import StrEnum
from typing import Final

API_PREFIX: Final = "/apis/status.gangwright.io"
"""The prefix of each route's path when the API server forwards requests to the status API."""

REPLICA: Final = "Gangwright-Replica"
"""The header of every answer with the state of its replica: a `Standing`."""


class Standing(StrEnum):
    """The state of a replica: the first that applies."""

    READING = "reading"
    """It has not read the cluster yet."""
    STANDBY = "standby"
    """Another replica is active. This one has no reasons, positions or forecasts."""
    STALE = "stale"
    """It has lost the API server, so its cache may be stale."""
    ACTIVE = "active"
