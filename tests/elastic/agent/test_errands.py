"""Calls in threads of their own, where there may be none to be had."""

import threading

import pytest

from scheduler.elastic.agent.retry import BackgroundCalls


def test_what_finds_no_thread_is_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the pod's limit of processes a call is kept, once, until a thread can be started."""
    done = threading.Event()
    errands = BackgroundCalls()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", _refused)
        errands.run("leave", done.set)
        errands.again()
    assert not done.is_set()

    errands.again()
    assert done.wait(10)
    done.clear()
    errands.again()
    assert not done.wait(0.05)


def _refused(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
