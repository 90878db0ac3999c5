"""The tests mirror `scheduler/` and `bench/`, one folder a room.

support     in any folder: what its tests share and is no test; fixtures are in conftest.py
stories     told on the local control plane of `bench.plane`; in stories/elastic, everything that trains with Horovod
"""
