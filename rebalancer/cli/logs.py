"""Structured logs on standard error, those of libraries (apscheduler, urllib3) in the same form.

Exceptions are logged without the values of variables, which structlog adds by default: these are whole clusters, and
tokens among them.
"""

import logging
import sys
import traceback
from typing import Final, Literal, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import ExcInfo, Processor

_MOST_FRAMES: Final = 20
"""Calls of an exception that are logged."""


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
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_print_exception)]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
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


def _print_exception(output: TextIO, exception: ExcInfo) -> None:
    traceback.print_exception(*exception, limit=-_MOST_FRAMES, file=output)
