"""The status page of an outage in a real browser: of a simulated cluster, so that each picture has a past.

`make pictures` keeps the pictures in `docs/pictures`.
"""

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from tests.cluster.browser import PHONE, browser, keep, opened, serious_findings
from tests.controller.test_page import many_nodes, new_browser, state_of
from tests.page.scenes import SCENES, scenes, shown

WIDE = (1280, 840)
PICTURES: tuple[tuple[str, str, tuple[int, int], Literal["light", "dark"]], ...] = (
    ("status-light", "repairing", WIDE, "light"),
    ("status-dark", "repairing", WIDE, "dark"),
    ("status-phone", "repairing", PHONE, "light"),
    ("status-paused", "paused", WIDE, "light"),
    ("status-lost-zone", "lost-zone", (1280, 740), "light"),
    ("status-lost-zone-phone", "lost-zone", (390, 1286), "light"),
)

CUT = """() => [...document.querySelectorAll("svg text")]
  .filter((text) => text.getBoundingClientRect().width)
  .filter((text) => {
    const words = text.getBoundingClientRect(), whole = text.closest("svg").getBoundingClientRect();
    return words.left < whole.left - 1 || words.right > whole.right + 1;
  })
  .map((text) => text.textContent)"""
"""Finds the words of drawings that reach beyond their edges."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def width_beyond(page: Page) -> int:
    """Return by how much the page is wider than the screen."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.mark.caught("routes of the plan were wider than a phone, and the head of a lost zone was cut there")
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", SCENES)
def test_nothing_of_an_outage_is_cut_on_any_screen(name: str, size: tuple[int, int], chromium: Browser) -> None:
    """Every word of a drawing lies within it, the page scrolls down only, and axe finds nothing serious."""
    paths = (
        "?",
        "?why=all&",
        "workloads?",
        "nodes?",
        "history?",
        "workload?namespace=shop&workload=StatefulSet/db&",
    )
    still = "refresh=off"  # a page that renews itself while the next one is asked for ends that request
    with shown(scenes()[name]) as url, opened(chromium, f"{url}?{still}", size=size) as (page, complaints):
        for path in paths:
            page.goto(f"{url}{path}{still}")
            assert width_beyond(page) <= 0, f"/{path} scrolls sideways"
            assert page.evaluate(CUT) == []
            assert serious_findings(page) == []
        assert complaints == []


@pytest.mark.caught("the sign above the zones of many nodes was as wide as a zone")
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_sign_of_what_is_violated_has_one_size_on_the_screen(size: tuple[int, int], chromium: Browser) -> None:
    """In a headline, a figure, a row, a bar, the map and above the zones of many nodes."""
    with new_browser() as served:
        served.page.show(state_of(many_nodes(21, 6, 2)), ())
        with opened(chromium, f"http://localhost:{served.page.address[1]}/", size=size) as (page, _):
            assert page.get_by_role("heading", name="Zones").is_visible()
            signs = "[...document.querySelectorAll('svg.sign')].map((one) => one.getBoundingClientRect().width)"
            assert {round(width) for width in page.evaluate(signs) if width} == {16}
            assert width_beyond(page) <= 0


@pytest.mark.parametrize(("picture", "name", "size", "scheme"), PICTURES, ids=[one[0] for one in PICTURES])
def test_a_picture_has_a_past(
    picture: str, name: str, size: tuple[int, int], scheme: Literal["light", "dark"], chromium: Browser
) -> None:
    """A headline, a map with every zone, a trend that has risen and fallen, and what has happened."""
    with shown(scenes()[name]) as url, opened(chromium, url, size=size, scheme=scheme) as (page, _):
        assert page.get_by_role("heading", level=1).is_visible()
        assert "at most 5 in this time" in (page.locator("svg.trend desc").text_content() or "")
        assert page.locator("ol.past li").count() > 5
        assert name != "lost-zone" or page.get_by_role("heading", name="Zone eu-west-1b lost at", level=1).is_visible()
        keep(page, picture)
