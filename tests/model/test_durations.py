"""Durations: one text means the same wherever a person writes it."""

import pytest

from scheduler.elastic.job import decode_spec
from scheduler.errors import SettingsError
from scheduler.model.durations import LONGEST, seconds, written
from scheduler.objects import parsing
from scheduler.settings import load

POD = {"spec": {"containers": [{"name": "worker", "image": "train"}]}}
RIGHT = {"1500ms": 1.5, "30s": 30, "1m30s": 90, "1.5m": 90, "2h": 7200, "1h0.1s": 3600.1, "0.001h": 3.6}
WRONG = ["", "s", "5", "5d", "-5s", "+5s", "5 s", "5S", "1e3s", ".5s", "5.s", "٣s", "1s\n", "5s" * LONGEST]


def in_a_job(text):
    """The spec of an elastic job that is saved as often, and what is wrong with it."""
    return decode_spec({"minWorkers": 1, "maxWorkers": 1, "template": POD, "checkpoint": {"every": text}})


@pytest.mark.parametrize(("text", "meant"), RIGHT.items())
def test_a_duration_means_the_same_everywhere(text, meant):
    """In a setting, in an annotation of a pod, and in an elastic job."""
    found = {
        seconds(text),
        load(text=f"gangs: {{timeout: {text}}}", environ={}).gangs.timeout,
        parsing.duration(1, 86400)(text),
        in_a_job(text)[0].checkpoint.every,
    }

    assert found == {meant}


@pytest.mark.parametrize("text", ["45s", "1m30s", "8h", "1h0.5s", "26280h"])
def test_a_duration_is_written_as_it_is_read(text):
    """In hours, minutes and seconds, without parts that are none."""
    assert written(seconds(text)) == text


@pytest.mark.parametrize("text", WRONG, ids=ascii)
def test_what_is_none_is_none_anywhere(text):
    """A text without a unit, with a sign or of another form. An annotation alone takes a plain number of seconds."""
    assert seconds(text) is None
    with pytest.raises(SettingsError, match="must be a duration"):
        load(environ={}, flags={"gangs.timeout": repr(text)})
    assert in_a_job(text)[0] is None
    if text != "5":
        with pytest.raises(parsing.Unfit):
            parsing.duration(1, 86400)(text)
