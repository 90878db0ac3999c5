"""The one clock of a process: seconds since the epoch, which never go back.

Why not the wall clock: if it is stepped, holds and leases end early or never. Why not the bare monotonic clock: the API
server recorded when waits and runs began, before this process started. So the wall clock is read once, and the
monotonic clock counts from there. A later step of the wall clock only shifts the times that users read.
"""

import time
from datetime import UTC, datetime
from typing import Final

_BEGAN: Final = datetime.now(UTC).timestamp() - time.monotonic()


def steady() -> float:
    """Seconds since the epoch as this process counts them. No reading is earlier than the previous one."""
    return _BEGAN + time.monotonic()
