"""What the page shows of an outage: each thing has one name and one sign, and is said once."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from html import unescape
from typing import NamedTuple

import pytest

from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.routes import Request
from rebalancer.controller.status import status_document
from rebalancer.documents.document import to_json
from rebalancer.documents.overview import RowState
from rebalancer.documents.page import PageDocument
from rebalancer.reporting.text.status import status_text
from tests.page.scenes import CLUSTER, SCENES, ZONES, read, scenes

VIEWS = ("/", "/workloads", "/nodes", "/history", "/workload")
_PAST = r"last (\d+|one) took about \d+s"
SHOWN: list[tuple[PageDocument, datetime]] = []
ROUTES = page_routes(lambda *_, **__: SHOWN[-1][0], local=False, now=lambda: SHOWN[-1][1])


class View(NamedTuple):
    """A view of a scene as HTML."""

    scene: str
    path: str
    html: str

    @property
    def text(self) -> str:
        """Its words, with one space between two."""
        return " ".join(unescape(re.sub("<[^>]*>", " ", self.html)).split())


def view(name: str, path: str = "/", **query: str) -> View:
    SHOWN[:] = [(read(scenes()[name], path, **query), scenes()[name].now)]
    return View(name, path, ROUTES[path](Request(query)).body.decode())


@pytest.fixture(params=[(name, path) for name in SCENES for path in VIEWS], ids=" ".join)
def one(request: pytest.FixtureRequest) -> View:
    """Each view of each scene in turn."""
    name, path = request.param
    return view(name, path, **({"namespace": "shop", "workload": "StatefulSet/db"} if path == "/workload" else {}))


def test_a_zone_has_one_name_on_a_screen(one: View) -> None:
    """Whole, and in a sentence after the word zone: no long key, and no name that lacks its begin."""
    assert "topology.kubernetes.io" not in one.text
    assert not re.search(r"(?<![\w-])1[abc](?![\w-])", one.text)
    assert "zone=" not in one.text
    for zone in ZONES:
        for before in re.findall(rf"(\S+) {zone}(?![\w-])", one.text):
            assert before not in {"domain", "topology"}


def test_there_is_one_triangle_of_one_size(one: View) -> None:
    """It is the sign of what is violated; no other triangle points up or down."""
    assert not set("▲△▼▽▴▵▾▿⚠") & set(one.text)
    drawn = [tag for tag in re.findall(r"<use [^>]*>", one.html) if '"#violated"' in tag]
    within = re.findall(r'<svg class="sign" ([^>]*)><use href="#violated"/></svg>', one.html)
    sizes = Counter(re.findall(r'(?:width|height)="(\d+)"', " ".join([*within, *(t for t in drawn if "width" in t)])))
    assert set(sizes) <= {"16"}
    assert len(within) + sum("width" in tag for tag in drawn) == len(drawn)
    assert ".mark" not in "".join(re.findall(r"<tspan[^>]*>", one.html))


def paragraphs(html: str) -> Iterator[str]:
    for cell in re.findall(r"<p(?: [^>]*)?>(.*?)</p>", html, re.DOTALL):
        yield " ".join(unescape(re.sub("<[^>]*>", " ", cell)).split())


def section(html: str, name: str) -> str:
    return html.partition(f'id="{name}"')[2].partition("</section>")[0]


@pytest.mark.parametrize("name", SCENES)
def test_what_several_rows_say_stands_once(name: str) -> None:
    """Causes, reasons and remedies; also what rows and steps of the plan say."""
    html = view(name).html
    said = [text for part in ("attention", "plan", "findings") for text in paragraphs(section(html, part))]
    sentences = Counter(text for text in said if len(text.split()) > 8 and "→" not in text)
    repeated = [text for text, number in sentences.items() if number > 1 and not text.startswith("then ")]
    assert repeated == []


def test_what_all_findings_of_a_kind_advise_stands_once() -> None:
    findings = section(view("lost-zone").html, "findings")
    assert findings.count("eu-west-1b has no node") > 1
    assert findings.count("Add a node in eu-west-1b, or list it in topology.ignore of the policy") == 1


def test_what_no_eviction_repairs_does_not_end_by_itself_as_status_says() -> None:
    """A limit that no placement satisfies has no repair that could wait."""
    overview = read(scenes()["lost-zone"]).overview
    assert overview is not None
    rows = overview.rows
    assert [(row.state, row.wait is None) for row in rows] == [
        (RowState.UNREPAIRABLE, False),
        (RowState.UNREPAIRABLE, True),
    ]
    assert [*paragraphs(section(view("lost-zone").html, "attention"))].count("does not end by itself") == len(rows)


def test_a_shared_sentence_says_of_how_many_rows() -> None:
    html = view("repairing").html
    shared = [
        text for text in paragraphs(section(html, "attention")) if "Kubernetes does not move running pods" in text
    ]
    assert shared[0] == (
        "DomainReturned Zone eu-west-1b began to take pods, or more of them, after these were placed. "
        "Kubernetes does not move running pods; evictions do. (4 of 5)"
    )


def test_a_reason_is_one_line_and_the_rest_is_folded() -> None:
    """Folded until somebody opens it, or asks in the address for all: that outlasts a renewal of the page."""
    html = section(view("repairing").html, "attention")
    lines = [" ".join(line.split()) for line in re.findall(r"<summary>(.*?)</summary>", html, re.DOTALL)]
    assert "SlowStart, DomainReturned" in lines
    assert "StepExceedsBudget" in lines, "it was violated before any zone was lost: nothing is known of its cause"
    assert all(len(line) < 80 for line in lines)
    assert "<details open>" not in html
    assert "why=all" in html
    opened = section(view("repairing", why="all").html, "attention")
    assert opened.count("<details open>") == html.count("<details>") > 0


def test_numbers_name_repairs_and_are_no_order() -> None:
    """Admission lets another repair be first in each cycle; a pod of a full zone may be kept by a budget, too."""
    html = view("repairing").html
    assert "A number names a repair, here and on the map. It is no order" in section(html, "plan")
    assert "<ol" not in section(html, "plan")
    legend = html.partition('class="legend"')[2].partition("</p>")[0]
    assert "landed, of repair 1" in legend
    assert "kept by a budget" in legend
    assert "step" not in legend


def test_how_long_the_last_moves_took_is_said_where_the_end_of_a_move_is_awaited() -> None:
    """At the figure, at the move itself, and at each wait in the list of workloads and in the plan."""
    shown = view("repairing")
    figures = shown.html.partition('aria-label="Figures"')[2].partition("</section>")[0]
    assert re.search(_PAST, figures)
    steps = re.findall(r'<li><span class="step.*?</li>', section(shown.html, "plan"), re.DOTALL)
    awaited = [step for step in steps if "has arrived" in step or ">now, for" in step]
    assert len(awaited) > 1
    assert all(re.search(_PAST, step) for step in awaited)
    assert not any(re.search(_PAST, step) for step in steps if "allows another eviction" in step)


def test_the_name_of_the_cluster_stands_in_title_head_and_status(one: View) -> None:
    """So that somebody who has the pages of several clusters open knows which one it is."""
    assert re.search(f"<title>{CLUSTER}: [^<]+ · Rebalancer</title>", one.html)
    head = one.html.partition("<header")[2].partition("</header>")[0]
    assert f'<bdi class="cluster">{CLUSTER}</bdi>' in head


@pytest.mark.parametrize("name", ["", CLUSTER])
def test_the_status_has_the_name_of_the_cluster_if_there_is_one(name: str) -> None:
    """In its first line and in JSON; without a name neither status nor page says anything of it."""
    scene = scenes()["ordinary"]
    state = replace(scene.state, process=replace(scene.state.process, cluster_name=name))
    status = status_document(state, "one", "policy.yaml")
    assert json.loads(to_json(status))["cluster"] == name
    assert status_text(status, scene.now).startswith(f"Cluster: {name}\nController: " if name else "Controller: ")
    SHOWN[:] = [(read(scene._replace(state=state)), scene.now)]
    html = ROUTES["/"](Request({})).body.decode()
    assert ("cluster" in html.partition("<main")[0]) == bool(name)
    assert html.partition("<title>")[2].startswith(f"{name}: 1 workload" if name else "1 workload")
