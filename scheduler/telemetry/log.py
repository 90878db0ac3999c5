"""The format of log lines: one canonical line per call, JSON unless standard error is a terminal.

Lives here: the setup of structlog, once, for lines of Gangwright and of libraries; what is shortened, hidden and
suppressed. Never here: a line. Lines go to standard error, because standard output belongs to commands.

Why lines are suppressed: a client that can cause failures could flood the log. Lines of one kind (a warning with the
same words, or a rejection by the same endpoint for the same reason) are written `BURST` times in `WINDOW` seconds, then
counted. The next line that is written holds the count. At level debug every line is written.
"""

import json
import logging
import math
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final, TextIO

import msgspec
import structlog
from stamina.instrumentation import RetryDetails, set_on_retry_hooks
from structlog.typing import EventDict, Processor, WrappedLogger

from scheduler.settings import Log, LogFormat, LogLevel

BURST: Final = 5
WINDOW: Final = 60.0
"""Seconds."""

KINDS: Final = 256
"""Kinds of lines that are tracked at a time. The least recent is dropped."""

LONGEST: Final = 2000
"""Maximum characters of one text, except tracebacks."""

SECRET: Final = frozenset(
    {"authorization", "token", "password", "secret", "cookie", "api_key", "client_key_data"}
)
"""Fields whose values are never written."""

LEVELS: Final = {level: logging.getLevelNamesMapping()[level.upper()] for level in LogLevel}

_DEFAULTS: Final = Log()


class Flood:
    """A processor that lets the first `most` lines of one kind pass and counts the rest.

    A line's kind is its field `kind`, which is not written. The kind of a warning or error without that field is its
    event text. Lines without a kind always pass.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: float = BURST) -> None:
        self._clock = clock
        self._most = most
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def __call__(self, _logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
        kind = line.pop("kind", None)
        if kind is None and method in {"warning", "error", "critical", "exception"}:
            kind = str(line.get("event"))[:64]
        if kind is None:
            return line
        now = self._clock()
        began, count = self._seen.pop((method, kind), (now, 0))
        over = now - began >= WINDOW
        if over and count > self._most:
            line["suppressed"] = count - self._most
        self._seen[method, kind] = (now, 1) if over else (began, count + 1)
        if len(self._seen) > KINDS:
            self._seen.popitem(last=False)
        if not over and count >= self._most:
            raise structlog.DropEvent
        return line


def hide(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Replace secrets by `***` and shorten long texts."""
    for name, value in line.items():
        if name.lower() in SECRET:
            line[name] = "***"
        elif isinstance(value, str) and len(value) > LONGEST and name != "exception":
            line[name] = f"{value[:LONGEST]}…"
    return line


class Foreign(logging.Handler):
    """Writes log lines of libraries in the format of Gangwright."""

    def emit(self, record: logging.LogRecord) -> None:
        level = min((value for value in LEVELS.values() if value >= record.levelno), default=40)
        logger = structlog.get_logger(record.name)
        logger.log(level, record.getMessage(), exc_info=record.exc_info or None)


def tried_again(details: RetryDetails) -> None:
    """Log a failed call that is retried. Its error names it; stamina's own hook would write out the arguments."""
    structlog.get_logger("calls").warning(
        "call failed, retrying", error=str(details.caused_by), seconds=round(details.wait_for, 1)
    )


def configure(
    chosen: Log = _DEFAULTS,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Set up logging for this process. Lines go to `stream`, by default standard error."""
    out = stream or sys.stderr
    level = LEVELS[chosen.level]
    if chosen.format is LogFormat.CONSOLE or (chosen.format is LogFormat.AUTO and out.isatty()):
        plain = structlog.dev.plain_traceback
        last: list[Processor] = [
            hide,
            structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain),
        ]
    else:
        renderer = structlog.processors.JSONRenderer(serializer=_json)
        last = [structlog.processors.format_exc_info, hide, renderer]
    structlog.configure(
        processors=[
            Flood(clock, math.inf if level == logging.DEBUG else BURST),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _add_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *args: _Line(out, *args),
        cache_logger_on_first_use=False,  # loggers created before the setup follow it
    )
    set_on_retry_hooks([tried_again])
    root = logging.getLogger()
    root.handlers = [Foreign()]
    root.setLevel(max(level, logging.WARNING))
    logging.captureWarnings(capture=True)


class _Line:
    """Writes finished lines to a stream, one call per line, so that lines of two threads do not mix."""

    def __init__(self, out: TextIO, name: str = "") -> None:
        self._out = out
        self.name = name

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a log that cannot be written must not stop the work
            self._out.write(f"{line}\n")
            self._out.flush()

    debug = info = warning = error = critical = exception = log = msg


def _add_name(logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    if logger.name:
        line.setdefault("logger", logger.name)
    return line


def _json(line: EventDict, **_: Any) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=repr).decode()
    except (ValueError, OverflowError):  # lone surrogates, integers beyond 64 bits
        return json.dumps(line, default=repr)
