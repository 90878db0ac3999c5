"""How a measurement ends that a person, or whoever started it, stops: what it began is taken down first."""

import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn


def run(app: Callable[[], Any], *faults: type[Exception]) -> None:
    """Runs it to its end. SIGTERM is as good as Ctrl-C; one of these faults is told in a line, and is no crash."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except faults as error:
        sys.exit(f"bench: {error}")


def _leave(_number: int, _frame: Any) -> NoReturn:
    raise KeyboardInterrupt
