"""`python -m scheduler.elastic.agent -- COMMAND…`."""

from __future__ import annotations

import signal
import sys

# The kubelet says once that a pod has to go, and to a first process that does not listen yet the kernel does not even
# tell it. Blocked, the word waits until the agent does.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})

from .main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
