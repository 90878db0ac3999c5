"""What the measurements say of themselves, and of words that they do not know."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.extended

MEASUREMENTS = {
    "micro": ("plan_64_5000_ms", "no arguments"),
    "sizing": ("sizing policy finds its size", "no arguments"),
    "queue": ("How long gangs wait", "--clusters"),
    "load": ("A real kube-scheduler", "throughput"),
    "elastic": ("how long a change of size takes", "resize"),
}
"""By module: words of what it measures, and of what it can be told."""


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """A process of its own; none of these measures anything in so short a time."""
    command, wide = [sys.executable, "-m", *words], {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=wide)


@pytest.mark.parametrize(("module", "told"), MEASUREMENTS.items(), ids=MEASUREMENTS.keys())
def test_help_says_what_is_measured(module: str, told: tuple[str, str]) -> None:
    """And what it can be told; nothing is measured."""
    done = ran(f"bench.{module}", "--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert [word for word in told if word not in done.stdout] == []


@pytest.mark.parametrize("word", ["--nope", "nope"])
@pytest.mark.parametrize("module", MEASUREMENTS)
def test_unknown_words_are_refused(module: str, word: str) -> None:
    """The word is named, and nothing is measured."""
    done = ran(f"bench.{module}", word)

    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr
