"""A real browser: Debian's Chromium without a window, driven by Playwright.

Nothing but the page of the test is reachable for it: it would look for updates otherwise.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

_FLAGS = (
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_SERIOUS = frozenset({"serious", "critical"})

DESKTOP, PHONE = (1100, 760), (390, 844)
LARGEST_PICTURE = 200 * 1024


class Opened(NamedTuple):
    """A page, and what the browser complained about."""

    page: Page
    complaints: list[str]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser; the test is skipped where there is none, an error in CI."""
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError("chromium is not installed")
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
    scripts: bool = True,
) -> Iterator[Opened]:
    """Open a page; without `scripts` the browser runs none."""
    viewport: Any = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=scripts)
    try:
        page = context.new_page()
        complaints: list[str] = []

        def complain(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                complaints.append(message.text)

        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"not loaded: {request.url}"))
        page.goto(url)
        yield Opened(page, complaints)
    finally:
        context.close()


def serious_findings(page: Page) -> list[str]:
    """Return what axe finds wrong with the accessibility of a page, without minor things."""
    violations = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['help']}" for one in violations if one["impact"] in _SERIOUS]


def keep(page: Page, name: str) -> None:
    """Take a picture of what a person sees first; it is kept where REBALANCER_PICTURES names a folder."""
    picture = page.screenshot()
    assert len(picture) <= LARGEST_PICTURE
    folder = os.environ.get("REBALANCER_PICTURES")
    if folder:
        (Path(folder) / f"{name}.png").write_bytes(picture)
