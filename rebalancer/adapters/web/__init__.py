"""A small HTTP server: probes and scrapes (/metrics, /healthz, /readyz), and the status page. It is read-only."""

from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.page_address import REFRESH_SECONDS
from rebalancer.adapters.web.probes import Check, Checks, probe_routes
from rebalancer.adapters.web.server import CannotListen, WebServer

__all__ = ["REFRESH_SECONDS", "CannotListen", "Check", "Checks", "WebServer", "page_routes", "probe_routes"]
