"""The archive's `sitecustomize`: runs at the start of every Python that the training command starts.

Lives here: the activation of `runtime`, the chain to the image's own sitecustomize, and the request to end with the
agent. Never here: anything that can break the start of an unrelated interpreter, or that costs it more than a few
milliseconds. In the archive this file is at the top level, next to `gangwright_agent`, hence the absolute names.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

OURS = "GANGWRIGHT_PACK"


def enter() -> None:
    """Runs at the start of every interpreter below the agent."""
    try:
        _chain()
    finally:
        if os.environ.get("GANGWRIGHT_SHIM"):
            if os.environ.get("GANGWRIGHT_PARENT") == str(os.getppid()):
                import_module("gangwright_agent.agent.procfs").die_with_parent()
            import_module("gangwright_agent.runtime").activate()


def _chain() -> None:
    """Run the sitecustomize that would have run without the agent, under its own name."""
    ours = os.environ.get(OURS, "")
    places = [place for place in sys.path if place != ours]
    found = PathFinder.find_spec("sitecustomize", places)
    if found is None or found.loader is None:
        return
    module = module_from_spec(found)
    sys.modules["sitecustomize"] = module
    found.loader.exec_module(module)


if __name__ == "sitecustomize":
    enter()
