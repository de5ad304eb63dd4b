"""Structured logs on standard error, also for libraries (apscheduler, urllib3).

Console lines are for people: they leave out empty and large fields, and cycles that change nothing. JSON has
everything. Neither has control characters, and an event is one line; JSON is ASCII. Exceptions are logged without the
values of variables, which structlog adds by default, because they contain whole clusters and tokens.
"""

import logging
import sys
from collections.abc import Mapping
from typing import Final, Literal, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, ExcInfo, Processor

from rebalancer.cli.errors import traceback_lines
from rebalancer.model.visible import visible

_MOST_FRAMES: Final = 20
"""Up to this many calls of an exception's traceback are logged."""

_MOST_FIELDS: Final = 8
"""Up to this many entries of a mapping are shown on a console; of a larger mapping, only the size."""


def configure_logs(*, level: str, form: Literal["json", "console"]) -> None:
    """Set up logging for the process."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[Processor] = (
        [
            structlog.processors.ExceptionRenderer(
                ExceptionDictTransformer(show_locals=False, max_frames=_MOST_FRAMES)
            ),
            structlog.processors.JSONRenderer(default=str),
        ]
        if form == "json"
        else [
            _shorten,
            _clean,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_print_exception),
        ]
    )
    own = [] if form == "json" else [_CycleFilter()]
    structlog.configure(
        processors=[*own, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for chatty in ("apscheduler", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class _CycleFilter:
    """Leaves out a cycle without a change since the last cycle."""

    def __init__(self) -> None:
        self._last: EventDict = {}

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:
        """Return an event, or raise DropEvent."""
        del logger, method
        if event["event"] == "cycle":
            if event == self._last:
                raise structlog.DropEvent
            self._last = dict(event)
        return event


def _shorten(logger: object, method: str, event: EventDict) -> EventDict:
    """Leave out empty values. Show a mapping as `name 2, other 1`, or as its size if it is large or nested."""
    del logger, method
    return {name: _shown(value) for name, value in event.items() if value or value == 0}


def _shown(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    if len(value) > _MOST_FIELDS or any(isinstance(one, Mapping | list | tuple) for one in value.values()):
        return f"{len(value)} fields"
    return ", ".join(f"{name} {one}" for name, one in value.items())


def _clean(logger: object, method: str, event: EventDict) -> EventDict:
    """Make control characters visible in every text of an event; a stack has only Rebalancer's own lines."""
    del logger, method
    return {visible(name): value if name == "stack" else _cleaned(value) for name, value in event.items()}


def _cleaned(value: object) -> object:
    match value:
        case str():
            return visible(value)
        case list() | set() | frozenset():
            return list(map(_cleaned, value))
        case tuple() if not any(isinstance(one, BaseException) for one in value):
            return tuple(map(_cleaned, value))
        case _:
            return value


def _print_exception(output: TextIO, exception: ExcInfo) -> None:
    """Write an exception below its line, indented."""
    output.writelines(f"\n    {visible(line)}" for line in traceback_lines(exception[1], most=_MOST_FRAMES))
