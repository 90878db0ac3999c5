"""Calls `torch.distributed.init_process_group` as a script of DistributedDataParallel does, without Horovod; then it would
train for ten minutes.

PyTorch is no more than its names here, in a folder that is made for it.
"""

import importlib
import sys
import tempfile
from pathlib import Path

MODULES = {
    "__init__.py": "",
    "distributed/__init__.py": "from .distributed_c10d import *",
    "distributed/distributed_c10d.py": "import time\ndef init_process_group(backend): time.sleep(600)",
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in MODULES.items():
            place = Path(folder, "torch", name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        sys.path.insert(0, folder)
        importlib.import_module("torch.distributed").init_process_group("gloo")


if __name__ == "__main__":
    main()
