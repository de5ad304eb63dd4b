"""The paths that probes and scrapes ask: /metrics, /healthz, /readyz."""

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry

from rebalancer.adapters.web.checks import Checks, run_checks
from rebalancer.adapters.web.routes import Request, Response, Route, text_response
from rebalancer.adapters.web.scrapes import MOST_SCRAPES, Scrapes, TooManyScrapes


def probe_routes(registry: CollectorRegistry, *, live: Checks, ready: Checks) -> Mapping[str, Route]:
    """Return the routes of a registry's metrics and of two sets of checks."""
    return {
        "/metrics": partial(_send_metrics, Scrapes(registry)),
        "/healthz": partial(_run_checks, "healthz", live),
        "/readyz": partial(_run_checks, "readyz", ready),
    }


def _send_metrics(scrapes: Scrapes, request: Request) -> Response:
    try:
        rendered = scrapes.render(request.accept, request.accept_encoding)
    except TooManyScrapes:
        return text_response(
            f"{MOST_SCRAPES} scrapes are waiting already; scrape less often\n", "503 Service Unavailable"
        )
    return Response(rendered.body, tuple(rendered.headers))


def _run_checks(name: str, checks: Checks, request: Request) -> Response:
    passed, text = run_checks(checks, name, verbose="verbose" in request.query)
    return text_response(text, "200 OK" if passed else "503 Service Unavailable")
