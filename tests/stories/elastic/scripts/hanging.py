"""Runs another script; on SIGUSR1 its main thread stands still for good, while all other threads go on."""

import runpy
import signal
import sys
import time


def hang(*_):
    while True:
        time.sleep(3600)


signal.signal(signal.SIGUSR1, hang)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
