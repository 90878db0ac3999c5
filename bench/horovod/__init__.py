"""Real Horovod for tests, benches and the demo: TensorFlow 2.15.1 and Horovod 0.28.1 in a virtual environment of their
own.

`python()` gives the environment's interpreter, building it when it is not there (minutes, once; see `build`).
"""

from typing import Final

from bench.horovod.build import find, python

__all__ = ["SELDOM", "find", "python"]

SELDOM: Final = {"HOROVOD_CYCLE_TIME": "10"}
"""Milliseconds, where Horovod's default is 1: that often its workers ask each other for tensors to reduce, whether there
are any or not. Two that wait took 11 % of a core each for it, and take 3 % so. For tests and the demo, whose steps are
padded by far more; what the benches measure is Horovod as it comes.
"""
