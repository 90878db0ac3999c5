"""Real Horovod for tests, benches and the demo: TensorFlow 2.15.1 and Horovod 0.28.1 in a virtual environment of their
own.

`python()` gives the environment's interpreter, building it when it is not there (minutes, once; see `build`).
"""

from tests.elastic.horovod.build import find, python

__all__ = ["find", "python"]
