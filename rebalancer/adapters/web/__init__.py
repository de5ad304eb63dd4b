"""A small HTTP server for probes and scrapes: /metrics, /healthz, /readyz. It is read-only."""

from rebalancer.adapters.web.checks import Check, Checks
from rebalancer.adapters.web.server import CannotListen, WebServer

__all__ = ["CannotListen", "Check", "Checks", "WebServer"]
