"""Runs another script; the first that finds the file that is named first when it meets others, and is not rank 0, is
killed as it enters Horovod's `init`, before it has told the others anything."""

import os
import runpy
import signal
import sys
from pathlib import Path

from horovod.common.basics import HorovodBasics

marked = Path(sys.argv[1])
init = HorovodBasics.init


def begin(self, *words, **named):
    if int(os.environ.get("HOROVOD_RANK", "0")) and marked.exists():
        marked.unlink()
        print("killed inside init", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return init(self, *words, **named)


HorovodBasics.init = begin
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
