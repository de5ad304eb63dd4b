"""Loggers that import structlog when something is logged.

A module that is imported by commands which log nothing uses them: structlog imports rich and asyncio, and takes an
eighth of the time until such a command sends its first request.
"""

from typing import Any


class DeferredLog:
    """A logger of structlog by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        """Return a method of the logger, such as `warning`."""
        import structlog  # noqa: PLC0415  # the reason for this module

        return getattr(structlog.get_logger(self._name), method)
