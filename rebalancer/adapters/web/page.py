"""The status page: HTML that works without JavaScript, its style, and its content as JSON. All of it is read-only.

All names are escaped or made visible, and headers let the browser load and run nothing.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined

from rebalancer.adapters.web.page_address import REFRESH_SECONDS, PageAddress
from rebalancer.adapters.web.page_view import PageView
from rebalancer.adapters.web.routes import Request, Response, Route, text_response
from rebalancer.documents.document import to_json
from rebalancer.documents.overview import Selection
from rebalancer.documents.page import PageDocument
from rebalancer.model.visible import visible

_HEADERS: Final = (
    # Only the style is loaded, no script runs, and framing is forbidden.
    ("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
_LONGEST: Final = 4_096
"""Most characters of one value; an address with a filter of each kind has fewer."""

_VIEWS: Final = {
    "/": "overview",
    "/workloads": "workloads",
    "/workload": "workload",
    "/nodes": "nodes",
    "/node": "node",
    "/history": "history",
}
"""The template of each path."""


class ReadPage(Protocol):
    """Returns the content for a selection, None before the first; called by many threads."""

    def __call__(self, selection: Selection, /, *, with_report: bool) -> PageDocument | None:
        """Return the content; include the report of everything only with `with_report`."""


def page_routes(
    read: ReadPage,
    *,
    local: bool,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    refresh: int = REFRESH_SECONDS,
) -> Mapping[str, Route]:
    """Return the routes of the page. `local`: it listens on a loopback address, and answers only requests for one.

    A browser renews the page after `refresh` seconds while nothing moves.
    """
    environment = _make_environment()

    def show(path: str) -> Route:
        template = environment.get_template(f"{_VIEWS[path]}.html.j2")

        def answer(request: Request) -> Response:
            address = PageAddress(path, request.query)
            page = read(address.selection, with_report=False)
            if page is None:
                return _starting()
            view = PageView(page, address, now(), refresh)
            # With the address, because without it a browser that renews `…#plan` only scrolls, and loads nothing.
            renewal = (("Refresh", f"{view.seconds}; url={address.link()}"),) if address.refreshes else ()
            body = template.render(page=page, view=view, address=address).encode()
            return Response(body, (("Content-Type", "text/html; charset=utf-8"), *_HEADERS, *renewal))

        return answer

    def send_json(request: Request) -> Response:
        page = read(PageAddress("/status.json", request.query).selection, with_report=True)
        if page is None:
            return _starting()
        return Response(to_json(page), (("Content-Type", "application/json"), *_HEADERS))

    routes = {
        **{path: show(path) for path in _VIEWS},
        "/status.json": send_json,
        "/style.css": _send_style(environment),
    }
    # Without the guard, a foreign web page whose host name points to 127.0.0.1 could read this page.
    return {path: _guard(route) for path, route in routes.items()} if local else routes


def _make_environment() -> Environment:
    return Environment(
        loader=PackageLoader("rebalancer.adapters.web"),
        autoescape=True,
        finalize=_finish,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _starting() -> Response:
    return text_response("the controller is starting\n", "503 Service Unavailable", ("Retry-After", "5"))


def _send_style(environment: Environment) -> Route:
    assert environment.loader is not None
    style = environment.loader.get_source(environment, "style.css")[0].encode()
    return lambda _: Response(style, (("Content-Type", "text/css; charset=utf-8"),))


def _guard(answer: Route) -> Route:
    """Answer only requests for a loopback address."""

    def route(request: Request) -> Response:
        if not _is_local(request.host):
            return text_response("the page is served for localhost only\n", "403 Forbidden")
        return answer(request)

    return route


def _finish(value: object) -> object:
    """Return a value as a template writes it: text without control characters, and cut to a limit.

    Markup passes unchanged: macros consist of values that passed this function, and the trend's curve of numbers.
    """
    return visible(value, _LONGEST) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _is_local(host: str) -> bool:
    """Return whether a Host header names this machine, with or without a port."""
    name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return name in {"localhost", "127.0.0.1", "[::1]"}
