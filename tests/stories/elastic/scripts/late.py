"""Runs another script, unless the file that is named first is there already: then it sleeps for good, and never
trains.
"""

import runpy
import sys
import time
from pathlib import Path

while Path(sys.argv[1]).exists():
    time.sleep(3600)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
