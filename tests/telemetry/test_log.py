"""How lines look, and which are left out."""

import io
import json
import logging
import warnings

import pytest
import stamina
import structlog

from scheduler.model.decision import Reason
from scheduler.settings import Log, LogFormat, LogLevel
from scheduler.telemetry import log


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def out():
    return io.StringIO()


def lines(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("_again", range(2))
def test_no_test_finds_what_another_set_up(_again):
    """Lines are as structlog has them until a test sets them up, however often that was done before."""
    assert not structlog.is_configured()

    log.configure(Log(level=LogLevel.ERROR))


def test_a_line_is_one_json_object(out):
    """Name, level, time, the words, the fields, and what is bound to the call."""
    log.configure(stream=out)
    structlog.contextvars.bind_contextvars(call=7)

    structlog.get_logger("extender").info("answered", reason=Reason.SEATED, odd={1}, text="a\nb\x1b[31m")

    (line,) = lines(out)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "answered",
        "level": "info",
        "logger": "extender",
        "reason": "Seated",
        "odd": [1],
        "text": "a\nb\x1b[31m",
        "call": 7,
    }
    assert out.getvalue().count("\n") == 1


def test_a_terminal_gets_lines_for_people():
    """`auto` is decided by the stream."""
    out = Terminal()
    log.configure(stream=out)

    structlog.get_logger().info("hello", name="x")

    assert "hello" in out.getvalue()
    assert not out.getvalue().startswith("{")


@pytest.mark.parametrize(("style", "stream"), [(LogFormat.JSON, Terminal), (LogFormat.CONSOLE, io.StringIO)])
def test_the_style_can_be_said(style, stream):
    """Whatever the stream is."""
    out = stream()
    log.configure(Log(format=style), stream=out)

    structlog.get_logger().info("hello")

    assert out.getvalue().startswith("{") is (style is LogFormat.JSON)


def test_lines_below_the_level_are_not_written(out):
    """Neither ours nor those of libraries."""
    log.configure(Log(level=LogLevel.ERROR), stream=out)

    structlog.get_logger().warning("no")
    logging.getLogger("aiohttp.server").warning("no")
    structlog.get_logger().error("yes")

    assert [line["event"] for line in lines(out)] == ["yes"]


def test_lines_of_libraries_look_the_same(out):
    """With their own name, formatted, and their exceptions as text."""
    log.configure(stream=out)

    try:
        raise RuntimeError("inside")
    except RuntimeError:
        logging.getLogger("aiohttp.server").exception("%s failed", "it")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", UserWarning, stacklevel=1)
    logging.getLogger("asyncio").info("chatter")

    first, second = lines(out)
    assert (first["logger"], first["level"], first["event"]) == ("aiohttp.server", "error", "it failed")
    assert first["exception"].endswith("RuntimeError: inside")
    assert second["logger"] == "py.warnings"


def test_a_second_try_is_a_line_of_ours(out):
    """It says what failed, and when it is tried again; not with which objects of the program it was called."""
    log.configure(stream=out)
    stamina.set_testing(True, attempts=2)

    @stamina.retry(on=OSError)
    def call(_client):
        raise OSError("no answer")

    try:
        with pytest.raises(OSError, match="no answer"):
            call(object())
    finally:
        stamina.set_testing(False)

    (line,) = lines(out)
    assert (line["event"], line["error"], line["seconds"]) == ("call failed, retrying", "no answer", 0.0)
    assert "object at" not in out.getvalue()


def test_only_a_terminal_gets_colours():
    """Lines for people hold no escapes where they go into a file."""
    out, terminal = io.StringIO(), Terminal()
    for stream in (out, terminal):
        log.configure(Log(format=LogFormat.CONSOLE), stream=stream)
        structlog.get_logger("extender").warning("refused")

    assert ("\x1b" in out.getvalue(), "\x1b" in terminal.getvalue()) == (False, True)


def test_secrets_are_not_written(out):
    """By the name of the field; and long texts are cut."""
    log.configure(stream=out)

    structlog.get_logger().info("asked", Authorization="Bearer abc", token="abc", text="x" * 5000)

    (line,) = lines(out)
    assert "abc" not in out.getvalue()
    assert (line["Authorization"], line["token"]) == ("***", "***")
    assert len(line["text"]) == log.LONGEST + 1


def test_repeated_lines_are_counted_instead(out):
    """The first few of a window are written; the next window's first says how many were not."""
    now = 0.0
    log.configure(stream=out, clock=lambda: now)
    logger = structlog.get_logger()

    for _ in range(log.BURST + 3):
        logger.error("it failed", cause="x")
    logger.error("something else")
    now = log.WINDOW
    logger.error("it failed", cause="x")
    logger.error("it failed", cause="x")

    written = lines(out)
    assert [line["event"] for line in written] == [
        *["it failed"] * log.BURST,
        "something else",
        "it failed",
        "it failed",
    ]
    assert [line.get("suppressed") for line in written[-2:]] == [3, None]


def test_lines_without_a_kind_always_pass(out):
    """What happened once each is told each time; a kind makes an information one of many."""
    log.configure(stream=out, clock=lambda: 0.0)
    logger = structlog.get_logger()

    for number in range(20):
        logger.info("placed", number=number)
        logger.info("refused", kind=("filter", "InsufficientResources"))

    written = [line["event"] for line in lines(out)]
    assert written.count("placed") == 20
    assert written.count("refused") == log.BURST
    assert "kind" not in out.getvalue()


def test_debug_leaves_nothing_out(out):
    """Whoever asks for every line gets the calls that were refused as before, and every error."""
    log.configure(Log(level=LogLevel.DEBUG), stream=out, clock=lambda: 0.0)
    logger = structlog.get_logger()

    for _ in range(3 * log.BURST):
        logger.info("refused", kind=("filter", "InsufficientResources"))
        logger.error("it failed")

    assert len(lines(out)) == 6 * log.BURST
    assert "kind" not in out.getvalue()


def test_every_level_of_the_settings_is_known():
    """Settings and the log agree on the words."""
    assert set(log.LEVELS) == set(LogLevel)


def test_the_memory_of_kinds_is_bounded():
    """Ever new words take no more than the table's size."""
    flood = log.Flood(lambda: 0.0)
    for number in range(3 * log.KINDS):
        flood(None, "error", {"event": f"error {number}"})

    assert len(flood._seen) == log.KINDS


@pytest.mark.parametrize("value", [2**70, "\ud800", float("nan"), object(), b"\xff", {"a": {1: object}}])
def test_whatever_is_logged_is_a_line(out, value):
    """A value that JSON does not know is shown as well as can be."""
    log.configure(stream=out)

    structlog.get_logger().info("odd", value=value)

    assert len(lines(out)) == 1


def test_a_stream_that_is_gone_stops_nothing(out):
    """A log that cannot be written is no reason to fail."""
    log.configure(stream=out)
    out.close()

    structlog.get_logger().info("unheard")

    assert out.closed
