"""`python -m scheduler.elastic.agent -- COMMAND…`."""

from __future__ import annotations

import signal
import sys

# The kubelet sends SIGTERM once, and the kernel discards it if process 1 has no handler yet. A blocked signal stays
# pending until the agent handles it.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})

from .main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
