"""The strict reading of values that strangers wrote."""

import pytest

from scheduler.objects import parsing
from scheduler.objects.parsing import PodMetadata, Unfit

DURATIONS = {
    "90s": 90.0,
    "5m": 300.0,
    "1h30m": 5400.0,
    "1.5h": 5400.0,
    "90": 90.0,
    "2.5": 2.5,
    "1500ms": 1.5,
    "1h0m1s": 3601.0,
}
HOSTILE = (
    "",
    "0",
    "-1",
    "1e9",
    "NaN",
    "nan",
    "inf",
    "Infinity",
    "5\n",
    " 5",
    "5 ",
    "٥",
    "0x5",
    "5_0",
    "1e3",
    "999999999",
    "9" * 200_000,
    "\ud800",
    "None",
    "[]",
)
"""No count and no sensible duration in any spelling that Python or Go might take for one."""


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    """Or as a plain number of seconds."""
    assert parsing.timeout(text) == seconds


@pytest.mark.parametrize(
    "text", [*HOSTILE, "5 m", "m", "5d", "5m5", "-5m", "1e3s", "0.001s", "8d", "200h", "..5s"]
)
def test_wrong_durations_are_refused(text: str) -> None:
    """Not finite, below a second, above a week, or no duration at all."""
    with pytest.raises(Unfit):
        parsing.timeout(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_wrong_counts_are_refused(text: str) -> None:
    """A count is a whole number in plain digits, at least one and not beyond any cluster."""
    with pytest.raises(Unfit):
        parsing.count(text)


@pytest.mark.parametrize("text", ["", "a b", "a/b", "uid:1", "-a", "a-", "ä", "a\n", "a" * 254, "\u202ea"])
def test_wrong_names_are_refused(text: str) -> None:
    """A name has no colon, so no gang can be called like a gang of one."""
    with pytest.raises(Unfit):
        parsing.name(text)


@pytest.mark.parametrize("text", ["a", "A_1.b-2", "a" * 253])
def test_names_are_taken_as_labels_have_them(text: str) -> None:
    """Label values and object names both pass."""
    assert parsing.name(text) == text


@pytest.mark.parametrize("text", ["True", "yes", "1", "", "TRUE", "true "])
def test_flags_are_true_or_false(text: str) -> None:
    """No other spelling is guessed at."""
    with pytest.raises(Unfit):
        parsing.flag(text)


def test_long_values_are_not_even_parsed() -> None:
    """What is longer than the limit is refused by its length, which counts bytes."""
    sheet = PodMetadata(None, {"a": "9" * 257, "b": "ä" * 129, "c": "x" * 256})
    parsed: list[str] = []

    def note(text: str) -> str:
        parsed.append(text)
        return text

    assert [sheet.annotation(key, note) for key in "abc"] == [None, None, "x" * 256]
    assert parsed == ["x" * 256]
    assert [c.field for c in sheet.complaints] == ["a", "b"]


def test_what_is_shown_is_short_and_on_one_line() -> None:
    """Line breaks, terminal escapes and right-to-left marks cannot reach a terminal or a log."""
    shown = parsing.shown("a\n\x1b[31m\u202e\ud800" + "x" * 200_000)
    assert shown.startswith("a\\n\\x1b[31m\\u202e\\ud800xxx")
    assert shown.isprintable()
    assert len(shown) < 100


def test_a_missing_value_is_no_complaint() -> None:
    """None is the answer, and nothing is said."""
    sheet = PodMetadata(None, None)
    assert sheet.annotation("a", parsing.count) is None
    assert sheet.label("a", parsing.count) is None
    assert not sheet.complaints


def test_the_bounds_of_a_duration_can_be_read() -> None:
    """Whoever writes a wrong one is told the bounds as he would write them."""
    with pytest.raises(parsing.Unfit, match="from 1s to 26280h"):
        parsing.runtime("2 hours")
