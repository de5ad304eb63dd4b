"""The status page of a controller that works on a real control plane, in a real browser.

`make pictures` keeps the pictures in `docs/pictures`, beside those of `test_pictures.py`.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import urllib3
from playwright.sync_api import Browser, Page

from tests.cluster.browser import DESKTOP, PHONE, browser, keep, opened, serious_findings
from tests.cluster.controller import NAMESPACE, Controller, hide, install, policy
from tests.cluster.test_observing import skewed
from tests.control_plane.api import wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, lay_out_owned, nodes, pdb, spread
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane

POD = "rebalancer-5d9c7b6f4-x2k8q"
"""The name that the controller's pod would have; the pictures show it."""

GROUPS = [
    {
        "name": "workloads",
        "selector": {},
        "groupBy": ["Workload"],
        "limits": [
            {"name": "zone-half", "topologyKey": ZONE, "maxShare": "<=1/2", "severity": "critical"},
            {"name": "node-third", "topologyKey": HOSTNAME, "maxShare": "<=1/3"},
        ],
    }
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def spread_twice(name: str, placed: list[str]) -> Workload:
    """Return a Deployment of the shop that is to be spread over zones and nodes."""
    constraints = [spread(key, labels={"app": name}) for key in (ZONE, HOSTNAME)]
    return deployment(name, placed, namespace="shop", topologySpreadConstraints=constraints)


def lay_out_shop(plane: ControlPlane) -> None:
    """Four workloads in three zones: one even, two skewed, one of them with a budget that allows nothing."""
    on = ["a-0", "b-0", "c-0", "a-1", "b-1", "c-1"]
    bad = ["a-0", "a-1", "b-0", "a-0", "a-1", "b-1"]
    lay_out(
        plane,
        [
            *nodes({"a": 2, "b": 2, "c": 2}),
            *(spread_twice(*one) for one in (("web", on), ("cart", bad), ("search", bad), ("mail", on))),
            pdb("cart", {"app": "cart"}, namespace="shop", max_unavailable=0),
        ],
    )


PAIRS = [
    {
        "name": "pairs",
        "selector": {},
        "limits": [
            {"name": "zone-half", "when": {"total": ">=2"}, "topologyKey": ZONE, "maxShare": "<=1/2"},
        ],
    }
]


def observing(plane: ControlPlane, folder: Path, **changes: Any) -> Controller:
    """Return a controller whose policy is the installation's ConfigMap, with limits."""
    return acting(plane, folder, "Observe", **changes)


def set_policy(plane: ControlPlane, mode: str, **changes: Any) -> str:
    """Put a policy with the limits into the installation's ConfigMap, and return it."""
    text = policy(mode, **{"groups": GROUPS, **changes})
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy"
    plane.api.patch(path, {"data": {"policy.yaml": text}})
    return text


def acting(plane: ControlPlane, folder: Path, mode: str, **changes: Any) -> Controller:
    """Return a controller whose policy is the installation's ConfigMap, with limits."""
    text = set_policy(plane, mode, **changes)
    launcher = (sys.executable, "-m", "tests.cluster.launch", f"--host={POD}")
    return Controller(plane, folder, text, f"--policy=configmap:{NAMESPACE}/rebalancer-policy", command=launcher)


def page_url(controller: Controller, *, timeout: float = 60.0) -> str:
    """Wait until there is something to show, and return the page's address."""
    controller.wait_for("cycle", count=1, timeout=timeout)
    (line,) = controller.log("serving the status page")
    return f"http://localhost:{line['port']}/"


def test_a_person_sees_what_is_violated_and_why_it_is_not_repaired(
    cluster: ControlPlane, chromium: Browser, tmp_path: Path
) -> None:
    """Light, dark and on a phone; nothing is loaded or complained about, and axe finds nothing serious."""
    install(cluster, "base", "evict")
    lay_out_shop(cluster)
    with observing(cluster, tmp_path) as controller:
        url = page_url(controller)
        looks: tuple[tuple[tuple[int, int], Literal["light", "dark"]], ...] = (
            (DESKTOP, "light"),
            (DESKTOP, "dark"),
            (PHONE, "light"),
        )
        for size, scheme in looks:
            with opened(chromium, url, size=size, scheme=scheme) as (page, complaints):
                assert page.get_by_text("mode Observe: the controller will not evict").is_visible()
                assert page.get_by_role("heading", level=1).is_visible()
                attention = page.get_by_role("region", name="Needs attention")
                assert attention.get_by_text("shop/cart (Deployment)").first.is_visible()
                assert attention.get_by_text("StepExceedsBudget").first.is_visible()
                bars = attention.get_by_role("img", name="Pods by domain against the bound").first
                assert "a holds 4, at most 3, 1 above" in (bars.text_content() or "")
                width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert width <= 0, "the page scrolls sideways"
                assert serious_findings(page) == []
                assert complaints == []


def test_a_person_sees_a_repair_from_its_approval_to_its_end(
    cluster: ControlPlane, chromium: Browser, tmp_path: Path
) -> None:
    """What waits for approval, what moves, what is left and why, and what has happened; of one workload, too."""
    install(cluster, "base", "evict")
    lay_out_shop(cluster)
    quick = {"interval": "5s", "spread": {"for": "0s"}, "budgets": {"maxUnavailable": 1, "slowStart": False}}
    with acting(cluster, tmp_path, "Approve", **quick) as controller:
        url = page_url(controller)
        with opened(chromium, url) as (page, complaints):
            asks = page.get_by_role("heading", name="waits for approval until", level=1)
            wait_until(lambda: asks.is_visible() or not page.reload(), what="a plan to approve", timeout=60)
            command = page.get_by_text("rebalancer approve ").first.text_content() or ""
            assert serious_findings(page) == []
            keep(page, "status-approve")
            set_policy(cluster, "Evict", **quick)
            moves = page.get_by_role("heading", name=re.compile("Repairing: . pods? (is|are) moving"))
            wait_until(lambda: moves.is_visible() or not page.reload(), what="a move", timeout=60)
            keep(page, "status-moving")
            left = page.get_by_role("heading", name="1 workload violated and cannot be repaired", level=1)
            wait_until(lambda: left.is_visible() or not page.reload(), what="the end of the repair", timeout=120)
            assert page.get_by_text("StepExceedsBudget").first.is_visible()
            page.get_by_role("link", name="History").click()
            assert page.get_by_text(
                re.compile("shop/search .*: evicted search-.* is Ready as predicted")
            ).first.is_visible()
            assert page.get_by_text("leads").first.is_visible()
            keep(page, "status-history")
            page.goto(f"{url}workload?namespace=shop&workload=Deployment/cart")
            assert page.get_by_role("heading", name="shop/cart (Deployment): cannot be repaired", level=1).is_visible()
            keep(page, "status-workload")
            assert "rebalancer approve " in command
            assert complaints == []


def test_a_person_sees_that_there_is_nothing_to_do_and_that_nobody_leads(
    cluster: ControlPlane, chromium: Browser, tmp_path: Path
) -> None:
    """Before there is a workload, when all are even, and where no process may take the Lease."""
    install(cluster, "base", "evict")
    cluster.api.apply(nodes({"a": 2, "b": 2, "c": 2}))
    with (
        observing(cluster, tmp_path, interval="5s") as controller,
        opened(chromium, page_url(controller)) as (page, complaints),
    ):
        see_heading(page, "No workload has a spread constraint or a limit yet")
        keep(page, "status-empty")
        even = [f"{zone}-{number}" for number in (0, 1) for zone in "abc"]
        lay_out(cluster, [spread_twice(name, even) for name in ("web", "cart", "search")])
        see_heading(page, "Nothing is violated, nothing moves")
        assert page.get_by_role("region", name="Closest to a bound").is_visible()
        assert serious_findings(page) == []
        keep(page, "status-quiet")
        assert complaints == []
    hide(cluster, "leases")
    (tmp_path / "second").mkdir()
    with observing(cluster, tmp_path / "second", interval="5s") as follower:
        wait_until(lambda: follower.log("serving the status page"), what="the page", timeout=60)
        (line,) = follower.log("serving the status page")
        with opened(chromium, f"http://localhost:{line['port']}/") as (page, _):
            refused = page.get_by_role("region", name="What to do").get_by_text("is forbidden")
            wait_until(lambda: refused.is_visible() or not page.reload(), what="why it does not lead", timeout=60)
            assert page.get_by_text("This replica does not lead.").is_visible()
            assert page.get_by_role("region", name="Figures").is_visible()
            assert serious_findings(page) == []
            keep(page, "status-no-leader")


def see_heading(page: Page, words: str) -> None:
    """Wait until the page's heading has these words."""
    heading = page.get_by_role("heading", name=words, level=1)
    wait_until(lambda: heading.is_visible() or not page.reload(), what=f"the heading {words!r}", timeout=60)


def test_it_works_without_scripts_and_follows_links(cluster: ControlPlane, chromium: Browser, tmp_path: Path) -> None:
    """A search finds a workload, a filter can be taken away, and the JSON has the same numbers."""
    install(cluster, "base", "evict")
    lay_out_shop(cluster)
    with (
        observing(cluster, tmp_path) as controller,
        opened(chromium, page_url(controller), scripts=False) as (page, complaints),
    ):
        page.get_by_label("Namespace or workload").fill("cart")
        page.get_by_role("button", name="Find").click()
        cart = page.get_by_role("rowheader", name="shop/cart (Deployment)")
        # Without scripts a page stays as it was when it was asked for, perhaps before the first cycle was shown.
        wait_until(lambda: cart.is_visible() or not page.reload(), what="the workload in the list", timeout=20)
        assert cart.is_visible()
        assert not page.get_by_role("rowheader", name="shop/search (Deployment)").is_visible()
        page.get_by_role("link", name="Workloads").click()
        assert cart.is_visible()
        assert page.get_by_label("Namespace or workload").input_value() == "cart"
        page.get_by_role("link", name="Show all").click()
        assert page.get_by_role("rowheader", name="shop/web (Deployment)").is_visible()
        page.get_by_role("link", name="JSON").click()
        document = json.loads(page.locator("body").inner_text())
        assert document["kind"] == "Page"
        assert document["totals"]["blocked"] > 0
        assert complaints == []


@pytest.mark.caught("a browser that renews an address with a fragment loads nothing")
def test_a_renewal_loses_neither_the_open_table_nor_the_place(
    cluster: ControlPlane, chromium: Browser, tmp_path: Path
) -> None:
    """What somebody has chosen stands in the address, and a browser that renews a page stays where it was."""
    install(cluster, "base", "evict")
    lay_out_shop(cluster)
    with observing(cluster, tmp_path) as controller, opened(chromium, page_url(controller)) as (page, complaints):
        page.get_by_role("link", name="The map as a table").click()
        page.evaluate("window.scrollTo(0, 300)")
        page.wait_for_event("load", timeout=45_000)
        assert page.evaluate("scrollY") == 300
        assert page.get_by_role("region", name="The map as a table").is_visible()
        assert complaints == []


def test_a_label_with_a_script_is_shown_as_text(cluster: ControlPlane, chromium: Browser, tmp_path: Path) -> None:
    """A zone, and a reason of a pause, with markup in them."""
    install(cluster, "base", "evict")
    skewed(cluster)
    script = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
    control = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-control"
    cluster.api.patch(control, {"data": {"pause.yaml": json.dumps({"reason": script})}})
    try:
        with (
            Controller(cluster, tmp_path, policy("Evict")) as controller,
            opened(chromium, page_url(controller)) as (page, complaints),
        ):
            assert page.locator("p.acting", has_text=script).is_visible()
            assert page.title().endswith("Rebalancer")
            assert page.locator("script, img").count() == 0
            assert complaints == []
    finally:
        cluster.api.patch(control, {"data": {"pause.yaml": None}})


@pytest.mark.thorough
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("workloads", "pages"), [(500, 3), (5_000, 25)])
def test_thousands_of_workloads_do_not_break_it(
    workloads: int, pages: int, cluster: ControlPlane, chromium: Browser, tmp_path: Path
) -> None:
    """On 1,000 nodes, every tenth skewed: the page is small, answered within a second, and every workload is found."""
    install(cluster, "base", "evict")
    per_zone = 334
    lay_out_owned(
        cluster,
        nodes({"a": per_zone, "b": per_zone, "c": per_zone - 2}),
        [
            deployment(
                f"web-{number:04}",
                [f"a-{number % per_zone}", *([f"a-{(number + 1) % per_zone}"] if number % 10 == 0 else ())],
                namespace=f"shop-{number % 7}",
                cpu="1m",
                topologySpreadConstraints=[spread(ZONE, labels={"app": f"web-{number:04}"})],
            )
            for number in range(workloads)
        ],
        timeout=1200,
    )
    with (
        observing(cluster, tmp_path, groups=PAIRS, interval="60s") as controller,
        opened(chromium, page_url(controller, timeout=300)) as (page, complaints),
    ):
        assert len(page.content()) < 100_000
        assert page.get_by_text(f"Page 1 of {pages}").is_visible()
        assert page.get_by_text(f"{workloads // 10} of {workloads} constraints").is_visible()
        assert serious_findings(page) == []
        keep(page, f"status-{workloads}")
        page.get_by_role("link", name="next").click()
        assert page.get_by_text(f"Page 2 of {pages}").is_visible()
        page.get_by_label("Namespace or workload").fill("web-0321")
        page.get_by_role("button", name="Find").click()
        assert page.get_by_role("rowheader", name="shop-6/web-0321 (Deployment)").first.is_visible()
        page.get_by_role("link", name="Show all").click()
        assert page.get_by_text(f"Page 1 of {pages}").is_visible()
        assert complaints == []
        seconds = answer_times(page_url(controller))
        print(f"\nseconds until the page is answered: {seconds}")
        assert max(sorted(times)[len(times) // 2] for times in seconds.values()) < 1.0


def answer_times(url: str) -> dict[str, list[float]]:
    """Return how long each of five requests took, by path: of the page, of a page of the grid, a search, the JSON."""
    times: dict[str, list[float]] = {}
    for path in ("", "?page=2", "?q=web-0321", "status.json"):
        for _ in range(5):
            began = time.monotonic()
            assert urllib3.request("GET", url + path, timeout=30.0, retries=False).status == 200
            times.setdefault(path, []).append(round(time.monotonic() - began, 2))
    return times
