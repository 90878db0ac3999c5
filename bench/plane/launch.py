"""Becomes another program that dies with its parent, if wanted under a hostname of its own.

Run as `python -I -S launch.py PARENT HOSTNAME PROGRAM ARGUMENT…`, by `processes.py` alone; an empty HOSTNAME means
none. A separate little program, because nothing but exec may safely happen between fork and exec in a process with
threads.
"""

import ctypes
import os
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
CLONE_NEWUTS = 0x04000000  # linux/sched.h


def main(parent: int, hostname: str, command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("launch: the parent is gone already")
    # Without the right to do so (not root) the program runs under the machine's own name.
    if hostname and libc.unshare(CLONE_NEWUTS) == 0:
        socket.sethostname(hostname)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
