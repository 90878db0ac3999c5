"""How long gangs wait under each order of the queue, and how well their start is foretold, on real traces.

Lives here: which clusters and queues are compared (cases), one run (running), what is claimed of them (bars), pictures
(plots), forecasts held against what came true (foretold). Never here: a decision; every run is the service's own
engine in `bench.simulator`.

    python -m bench.queue              one line of JSON a cluster and queue; the last: ratios and bars
    python -m bench.queue forecast     starts foretold at submission, and how far they were off
"""
