"""How a measurement ends."""

import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from bench.ending import run


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Whatever SIGTERM did before a test, it does after it."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def crash() -> None:
    raise ValueError("no such figure")


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        signal.pause()


@pytest.mark.parametrize(
    ("app", "code"), [(crash, "bench: no such figure"), (stopped, 130), (lambda: sys.exit(3), 3)]
)
def test_ends_in_a_line(app: Callable[[], None], code: int | str) -> None:
    """A fault that was foreseen is told in a line, SIGTERM is as Ctrl-C, and what the command says itself stays."""
    with pytest.raises(SystemExit) as ended:
        run(app, ValueError)

    assert ended.value.code == code


def test_a_fault_of_ours_is_a_crash() -> None:
    """What nobody foresaw shows where it happened."""
    with pytest.raises(ValueError, match="no such figure"):
        run(crash)
