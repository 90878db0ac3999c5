"""The one clock of a process: seconds since the epoch, and never back.

Why not the wall clock: a step of it would end holds and leases early, or never. Why not the bare monotonic clock:
waits and runs began at times that the API server wrote down, before this process did.  So the wall clock is read once,
and the monotonic one counts from there; a later step of the wall clock shifts what people read, and nothing else.
"""

import time
from datetime import UTC, datetime
from typing import Final

_BEGAN: Final = datetime.now(UTC).timestamp() - time.monotonic()


def steady() -> float:
    """Seconds since the epoch as this process counts them; each reading is no earlier than the one before."""
    return _BEGAN + time.monotonic()
