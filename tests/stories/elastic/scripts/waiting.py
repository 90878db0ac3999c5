"""Runs another script; the first that finds the file that is named first when it meets others, and is not rank 0,
stands at Horovod's `init`: until rank 0 is inside, removes the file, and goes in when it is there again.
"""

import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from horovod.common.basics import HorovodBasics

LONGEST = 60.0
"""Seconds that it waits for either; then it fails, for what was to be tried was not."""

marked = Path(sys.argv[1])
init = HorovodBasics.init


def begin(self, *words, **named):
    if int(os.environ.get("HOROVOD_RANK", "0")) and marked.exists():
        until(inside)
        marked.unlink()
        until(marked.exists)
        marked.unlink()
    return init(self, *words, **named)


def inside() -> bool:
    """Whether rank 0 has told the name of its host, with which gloo's first mesh begins."""
    place = "http://{HOROVOD_GLOO_RENDEZVOUS_ADDR}:{HOROVOD_GLOO_RENDEZVOUS_PORT}/global".format(**os.environ)
    try:
        urlopen(f"{place}/rank_0").close()
    except HTTPError:
        return False
    return True


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + LONGEST
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError(f"not within {LONGEST:g} s: {holds.__qualname__}")
        time.sleep(0.05)


HorovodBasics.init = begin
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
