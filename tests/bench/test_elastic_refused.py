"""What the bench makes of two looks at a master whose jobs are refused."""

from bench.elastic.refused import line, summary
from bench.plane.scrape import Metrics

BEFORE = """# TYPE gangwright_elastic_writes counter
gangwright_elastic_writes_total{what="start",result="forbidden"} 10
gangwright_elastic_writes_total{what="status",result="done"} 7
# EOF
"""


def test_a_minute_in_rates():
    """Processor time as part of a core, writes a second of each kind that there were."""
    after = Metrics.parsed(BEFORE.replace(" 10\n", " 40\n"))

    assert line(6, 1.5, 60.0, Metrics.parsed(BEFORE), after) == {
        "minute": 6,
        "core_percent": 2.5,
        "writes_per_s": {"start forbidden": 0.5},
    }


def test_the_last_minute_counts():
    """The first ones are those in which every job is new."""
    first = {"minute": 1, "core_percent": 20.0, "writes_per_s": {}}

    assert summary([first, {**first, "minute": 2, "core_percent": 2.0}])["missed"] == []
    assert summary([first])["missed"] == ["core_percent"]
