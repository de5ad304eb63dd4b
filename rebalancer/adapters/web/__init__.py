"""A small HTTP server for machines: /metrics, /healthz, /readyz. Nothing is ever written through it."""

from rebalancer.adapters.web.checks import Check, Checks
from rebalancer.adapters.web.server import CannotListen, WebServer

__all__ = ["CannotListen", "Check", "Checks", "WebServer"]
