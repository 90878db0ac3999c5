"""How a child ended, in words; and when it is as good as dead."""

import signal

import pytest

from scheduler.elastic.agent.liveness import Known, Sight, Watchdog, judge

FINE = Sight(stopped=False, silent=0.0, unheard=0.0, usual_step=0.1, training=True, collective=False)


@pytest.mark.parametrize(
    ("status", "tail", "known", "why", "culprit"),
    [
        (0, [], Known("me"), "finished", None),
        (0, [], Known("me", removed=True), "removed", None),
        (3 << 8, ["nothing said"], Known("me"), "exit code 3", "me"),
        (signal.SIGSEGV, [], Known("me"), "killed by SIGSEGV", "me"),
        (signal.SIGKILL, [], Known("me", out_of_memory=True), "killed by the kernel: out of memory", "me"),
        (signal.SIGKILL, [], Known("me", killed="stopped for 2.0 s"), "stopped for 2.0 s", "me"),
        (1 << 8, [], Known("me", gone="the checkpoint cannot be read"), "the checkpoint cannot be read", "me"),
        (
            1 << 8,
            ["Traceback (most recent call last):", "  File …", "OSError: No space left on device"],
            Known("me", gone="the training function returned", returned=True),
            "OSError: No space left on device",
            "me",
        ),
        (
            1 << 8,
            ["Traceback (most recent call last):", "  File …", "keras.errors.BuildError: no shape", "bye"],
            Known("me"),
            "keras.errors.BuildError: no shape",
            "me",
        ),
        (
            signal.SIGABRT,
            ["terminate called", "[gloo/transport/tcp/pair.cc:589] Read error [10.1.2.3]:5631: Connection reset"],
            Known("me"),
            "killed by SIGABRT",
            "10.1.2.3",
        ),
        (
            1 << 8,
            ["horovod.common.exceptions.HorovodInternalError: [pair.cc:588] Connection closed by peer [10.0.0.7]:80"],
            Known("me"),
            "horovod.common.exceptions.HorovodInternalError: [pair.cc:588] Connection closed by peer [10.0.0.7]:80",
            "10.0.0.7",
        ),
    ],
)  # fmt: skip
def test_an_end_has_a_reason_and_a_culprit(
    status: int, tail: list[str], known: Known, why: str, culprit: str | None
) -> None:
    """What we did ourselves comes first, then what the child said, then what its output shows; a lost peer is to
    blame.
    """
    ending = judge(status, tail, known)

    assert (ending.why, ending.culprit) == (why, culprit)


def test_a_signal_becomes_a_shells_code() -> None:
    """137 for SIGKILL, as everywhere."""
    assert judge(signal.SIGKILL, [], Known("me")).exit_code == 137
    assert judge(5 << 8, [], Known("me")).exit_code == 5


def test_a_stopped_child_is_condemned_after_the_limit() -> None:
    """Only when it stays stopped: a short halt begins the count anew."""
    dog = Watchdog(stopped_limit=2.0, silent_limit=60.0)
    stopped = FINE._replace(stopped=True)

    assert [dog.condemn(stopped, now) for now in (0.0, 1.9)] == [None, None]
    assert dog.condemn(FINE, 1.95) is None
    assert [dog.condemn(stopped, now) for now in (2.0, 3.9)] == [None, None]
    assert dog.condemn(stopped, 4.0) == "stopped for 2.0 s"


def test_threads_that_do_not_answer_condemn_a_child() -> None:
    """After the limit, or ten usual steps where those are longer."""
    dog = Watchdog(stopped_limit=2.0, silent_limit=60.0)

    assert dog.condemn(FINE._replace(unheard=59.0), 0.0) is None
    assert dog.condemn(FINE._replace(unheard=60.0), 0.0) == "none of its threads answered for 60 s"
    slow = FINE._replace(unheard=100.0, usual_step=30.0)
    assert dog.condemn(slow, 0.0) is None
    assert dog.condemn(slow._replace(unheard=300.0), 0.0) is not None


def test_a_silent_main_thread_is_told_once_and_spared() -> None:
    """Where it hangs tells who is to blame; a long validation looks the same from here, so nobody is killed."""
    dog = Watchdog(stopped_limit=2.0, silent_limit=60.0)
    silent = FINE._replace(silent=61.0)

    said = dog.doubt(silent)

    assert said is not None
    assert "the others wait for this worker" in said
    assert dog.doubt(silent) is None
    assert dog.condemn(silent, 0.0) is None
    assert dog.doubt(FINE) is None
    waiting = dog.doubt(silent._replace(collective=True))
    assert waiting is not None
    assert "it waits for another worker" in waiting
