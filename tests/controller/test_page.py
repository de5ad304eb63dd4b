"""The status page: what it shows of the loop's state, and what names may not do in it."""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files

import jsonschema
import pytest
from msgspec import structs

from rebalancer.adapters.web import CannotListen
from rebalancer.adapters.web.page_view import FIRST, MOODS, ROWS
from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.admission.pause import Pause
from rebalancer.assessment.findings import Finding
from rebalancer.controller.page import StatusPage
from rebalancer.controller.runner import Identity
from rebalancer.controller.state import Leadership, LoopState
from rebalancer.controller.status import status_document
from rebalancer.locations import Address
from rebalancer.model.moves import RefusedRequest
from rebalancer.model.reasons import FindingKind, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy, ScaleDownPrevention
from rebalancer.reporting.documents.document import document_schema
from rebalancer.reporting.documents.page import PageDocument
from rebalancer.reporting.documents.status import LeaseStatus
from rebalancer.reporting.text.layout import STATE_STYLES
from rebalancer.simulator import HOSTNAME, START, ZONE, SimulatedCluster
from rebalancer.simulator.builder import ClusterBuilder
from rebalancer.simulator.controller import SimulatedController
from tests.build import a_cluster, a_policy

POLICY = a_policy(
    """\
mode: Evict
groups:
  - name: all
    selector: {}
    groupBy: [Workload]
    limits: [{name: zone-half, topologyKey: topology.kubernetes.io/zone, maxShare: "<=1/2", severity: critical}]
"""
)
SKEWED = {"a-1": 3, "a-2": 3, "b-1": 1, "b-2": 1, "c-1": 0}
SCRIPT = "<script>alert('x')</script>"


def shop(workloads: int = 1) -> Snapshot:
    blueprint = a_cluster("abc", 2)
    for number in range(workloads):
        blueprint.deployment(f"web-{number}", namespace="shop", on=SKEWED, spread={ZONE: 1, HOSTNAME: 2})
    return blueprint.snapshot()


def state_of(
    snapshot: Snapshot, *, seconds: float = 0.0, pause: Pause | None = None, policy: Policy = POLICY
) -> LoopState:
    """Return the loop's state after cycles on a simulated cluster."""
    cluster = SimulatedCluster(snapshot)
    controller = SimulatedController(cluster, policy, name="leader-1")
    if pause is not None:
        cluster.pause = pause
        controller.read_pause()
    controller.run_cycle()
    cluster.advance(seconds)
    controller.run_cycle()
    return controller.state


class Browser:
    """Asks a page as a browser does."""

    def __init__(self, page: StatusPage) -> None:
        self.page = page

    def get(self, path: str = "/", host: str = "localhost") -> tuple[int, str, dict[str, str]]:
        with closing(http.client.HTTPConnection(*self.page.address, timeout=10)) as connection:
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())

    def text(self, path: str = "/") -> str:
        status, text, _ = self.get(path)
        assert status == 200, text
        return text


class Reader(HTMLParser):
    """The elements of a page, their identifiers, and the rows of each table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == [], "an element is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        if tag not in {"meta", "link", "input"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.fixture
def browser() -> Iterator[Browser]:
    page = StatusPage(Address("127.0.0.1", 0), Identity(name="leader-1", policy_source="test"))
    page.start()
    yield Browser(page)
    page.stop()


def test_it_says_what_the_controller_does_and_what_is_violated(browser: Browser) -> None:
    """Violated limits come first; each row has its counts, and what helps."""
    browser.page.show(state_of(shop()), ())
    text = browser.text()
    assert "mode Evict: the controller evicts" in text
    assert "leader leader-1" in text
    assert "0 of 1 constraint" not in text
    assert "limit all/zone-half" in text
    assert text.index("limit all/zone-half") < text.index("zone: skew 6, at most 1")
    assert "a 6, b 2, c 0" in re.sub("<[^>]*>", "", text)
    assert "6 of 8 (75%)" in text
    assert re.search(r"<td[^>]*share-3[^>]*>6</td>", text)


def test_what_waits_and_until_when_is_said_as_status_says_it(browser: Browser) -> None:
    state = state_of(shop(), seconds=5)
    assert state.cycle is not None
    browser.page.show(state, ())
    text = unescape(browser.text())
    waits = status_document(state, "leader-1", "test").waits
    assert waits
    for wait in waits:
        assert f"{wait.reason}: {wait.message}</li>" in text
        assert f"goes on {wait.ends_with}" in text


def test_the_plan_that_waits_for_approval_is_shown_with_its_command(browser: Browser) -> None:
    """With each pod, its destination and the deadline; what is approved is named so."""
    approving = POLICY.model_copy(update={"mode": Mode.APPROVE})
    state = state_of(shop(), seconds=125, policy=approving)
    proposal = state.memory.proposal
    assert proposal is not None
    browser.page.show(state, ())
    text = unescape(browser.text())
    assert f"To be approved: plan {proposal.hash}, {len(proposal.uids)} eviction" in text
    assert f"rebalancer approve {proposal.hash} shows it and asks" in text
    assert "; expires " in text
    assert re.search(
        r'<th scope="row">shop/web-[\w-]+</th><td class="whole">a-\d</td><td>zone b/c, node [^<]*</td>', text
    )
    approved = structs.replace(state.memory, proposal=structs.replace(proposal, approved=True))
    assert state.cycle is not None
    browser.page.show(replace(state, memory=approved, cycle=replace(state.cycle, memory=approved)), ())
    assert f"Approved: plan {proposal.hash}" in browser.text()


def test_moves_in_flight_and_the_reasons_for_waiting_are_shown(browser: Browser) -> None:
    state = state_of(shop(), seconds=125)
    assert state.memory.in_flight
    browser.page.show(state, ())
    text = browser.text()
    (move, *_) = state.memory.in_flight
    assert f"shop/{move.pod}" in text
    assert "Moves in flight" in text
    assert "Not evicted, by reason" in text


def test_states_have_the_colours_of_the_terminal() -> None:
    """Red is violated, magenta cannot be repaired, green is satisfied, yellow not known."""
    colours = {"31": "bad", "35": "stuck", "32": "good", "33": "caution"}
    assert {state: MOODS[state] for state in State} == {state: colours[STATE_STYLES[state]] for state in State}
    style = (files("rebalancer.adapters.web") / "templates/style.css").read_text()
    assert all(f".{name} {{ color: var(--{name});" in style for name in colours.values())
    assert all(style.count(f"--{name}: #") == 2 for name in colours.values())


def test_a_name_with_a_hyphen_is_not_broken(browser: Browser) -> None:
    """`eu-` at the end of a line and `west-1b 3` in the next is a name that does not exist."""
    blueprint = ClusterBuilder()
    blueprint.zones(["eu-west-1a", "eu-west-1b"], 1)
    blueprint.deployment("web", namespace="shop", on={"eu-west-1a-1": 3, "eu-west-1b-1": 0}, spread={ZONE: 1})
    browser.page.show(state_of(blueprint.snapshot()), ())
    shown = browser.get()[1]
    assert '<span class="whole">eu-west-1a 3,</span> <span class="whole">eu-west-1b 0</span>' in shown
    assert '<th scope="col" class="whole">eu-west-1a</th>' in shown
    assert ".whole { white-space: nowrap; }" in browser.get("/style.css")[1]


def test_a_namespace_in_which_nothing_is_evicted_is_named(browser: Browser) -> None:
    """With the workload whose replacement is not created, and the condition that says why."""
    state = state_of(shop(), seconds=125)
    moves = tuple(structs.replace(move, uncreated="exceeded quota: pods") for move in state.memory.in_flight)
    browser.page.show(replace(state, memory=structs.replace(state.memory, moves=moves)), ())
    text = browser.text()
    assert "Replacements that are overdue" in text
    assert "shop/web-0 (Deployment) has no pod in place of " in text
    assert "which was evicted: exceeded quota: pods; nothing is evicted in namespace shop until it has" in text
    browser.page.show(state, ())
    assert "Replacements that are overdue" not in browser.text()


def test_evictions_that_admission_control_refused_are_named(browser: Browser) -> None:
    """With the webhook, its words, which are text, and the time of the next request."""
    state = state_of(shop())
    assert state.cycle is not None
    request = RefusedRequest(
        "g", 1, state.cycle.context.now, timedelta(minutes=1), "admission webhook guard", SCRIPT, "a/b"
    )
    browser.page.show(replace(state, memory=structs.replace(state.memory, refused=(request,))), ())
    text = browser.text()
    assert "Evictions that admission control refused" in text
    assert f"a/b: admission webhook guard refused the eviction: {SCRIPT}; tried again at " in unescape(text)
    assert SCRIPT not in text
    browser.page.show(state, ())
    assert "Evictions that admission control refused" not in browser.text()


def test_a_pause_is_the_first_sentence(browser: Browser) -> None:
    pause = Pause(until=START + timedelta(hours=1), reason="an incident", by="ada")
    browser.page.show(state_of(shop(), pause=pause), ())
    first = re.search(r'<p class="acting caution">last cycle \w+ ago; ([^<]*)</p>', browser.text())
    assert first is not None
    assert first[1] == "paused by ada: an incident: the controller will not evict"


def test_a_guard_that_is_not_good_colours_the_first_sentence(browser: Browser) -> None:
    state = state_of(shop())
    for verdict, mood in ((Verdict.GOOD, ""), (Verdict.BAD, "caution")):
        answers = (GuardAnswer("errors", verdict, "the query returned 1 series"),)
        browser.page.show(replace(state, guards=replace(state.guards, answers=answers, wanted=True)), ())
        assert f'<p class="acting {mood}">' in browser.text()


def test_another_replica_names_the_leader_instead_of_old_figures(browser: Browser) -> None:
    browser.page.show(replace(state_of(shop()), leadership=Leadership()), ())
    text = browser.text()
    assert "this process does not lead" in text
    assert "Only the leader evaluates the cluster" in text
    assert "skew 6" not in text
    document = json.loads(browser.text("/status.json"))
    assert document["report"] is None
    assert document["totals"] is None


ENDED = START - timedelta(seconds=20)
FREE = "no controller runs"
FREE_SINCE = f"Lease free since {ENDED:%Y-%m-%d %H:%M:%SZ}"


@pytest.mark.parametrize(
    ("lease", "leads", "acting"),
    [
        (LeaseStatus(holder="leader-1"), True, "leader-1 leads, last cycle 30s ago; mode Evict: the controller evicts"),
        (LeaseStatus(free_since=ENDED), False, f"{FREE}: {FREE_SINCE}, last cycle 30s ago"),
        (
            LeaseStatus(free_since=ENDED, error="no answer"),
            False,
            f"{FREE} as far as this process knows: {FREE_SINCE}, last cycle 30s ago; no answer",
        ),
        (
            LeaseStatus(holder="leader-2"),
            False,
            "this process does not lead: leader-2 does, and this process is ready to take over",
        ),
    ],
)
@pytest.mark.parametrize("reported", [True, False])
def test_it_says_who_leads_before_the_loop_knows(lease: LeaseStatus, leads: bool, acting: str, reported: bool) -> None:
    """And never shows what a process that has lost the Lease would evict."""
    state = replace(state_of(shop()), leadership=Leadership(leads=leads if reported else True))
    document = shown(state, lease)
    assert (document.acting, document.leads, document.status.lease) == (acting, leads, lease)
    assert document.status.leader == lease.holder
    assert (document.report is not None) is leads


def test_a_process_that_holds_the_lease_and_may_not_lead_says_why() -> None:
    lease = LeaseStatus(holder="leader-1", error="the memory of the last leader cannot be read")
    document = shown(replace(state_of(shop()), leadership=Leadership()), lease)
    assert document.acting == f"this process holds the Lease and does not lead yet: {lease.error}"


def shown(state: LoopState, lease: LeaseStatus) -> PageDocument:
    """Return what the page of leader-1 shows 30 seconds after the last cycle."""
    assert state.cycle is not None
    now = state.cycle.context.now + timedelta(seconds=30)
    identity = Identity(name="leader-1", policy_source="test")
    page = StatusPage(Address("127.0.0.1", 0), identity, now=lambda: now, read_lease=lambda: lease)
    page.start()
    try:
        page.show(state, ())
        document = page.read()
    finally:
        page.stop()
    assert document is not None
    return document


def test_before_the_first_cycle_it_says_so(browser: Browser) -> None:
    status, text, headers = browser.get()
    assert (status, headers["Retry-After"]) == (503, "5")
    assert "starting" in text
    assert browser.get("/status.json")[0] == 503
    browser.page.show(replace(state_of(shop()), cycle=None), ())
    assert "the first cycle has not ended yet" in browser.text()
    assert "There is nothing to show yet." in browser.text()


def test_the_json_is_the_same_content(browser: Browser) -> None:
    """In the form of its schema: the report, the status and this cycle's evictions."""
    state = state_of(shop(), seconds=125)
    browser.page.show(state, ())
    document = json.loads(browser.text("/status.json"))
    jsonschema.validate(document, document_schema(PageDocument))
    assert document["status"]["leader"] == "leader-1"
    assert document["report"]["limits"][0]["limit"] == "zone-half"
    assert document["totals"]["evictions"] == document["status"]["plan"]["evictions"]


def test_what_names_contain_is_text(browser: Browser) -> None:
    """Markup in a name, in a search and in a message of somebody else is shown, not run."""
    finding = Finding(kind=FindingKind.SELECTOR_EMPTY, object=SCRIPT, message=SCRIPT)
    pause = Pause(until=None, reason=SCRIPT, by="<img src=x onerror=alert(1)>")
    browser.page.show(state_of(shop(), pause=pause), (finding,))
    for path in ("/", "/?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/?key=%3Cscript%3E&page=%3Cb%3E"):
        reader = Reader(browser.text(path))
        assert not {"script", "img", "b"} & set(reader.tags)
    assert "&lt;script&gt;" in browser.text()


def test_a_browser_may_load_and_run_nothing_else(browser: Browser) -> None:
    browser.page.show(state_of(shop()), ())
    _, text, headers = browser.get()
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    reader = Reader(text)
    assert not [link for link in reader.links if "//" in link]
    assert "style=" not in text
    status, style, headers = browser.get("/style.css")
    assert (status, headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert "url(" not in style


@pytest.mark.parametrize("path", ["/", "/status.json", "/style.css"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8081", 200),
        ("127.0.0.1:8081", 200),
        ("[::1]:8081", 200),
        ("evil.example", 403),
        ("localhost.evil.example:8081", 403),
        ("[::2]", 403),
    ],
)
def test_a_page_on_a_loopback_address_answers_nobody_who_calls_it_otherwise(
    browser: Browser, path: str, host: str, status: int
) -> None:
    """A website that has its own name resolve to 127.0.0.1 reads nothing."""
    browser.page.show(state_of(shop()), ())
    assert browser.get(path, host)[0] == status


def test_on_another_address_any_name_is_answered() -> None:
    page = StatusPage(Address("", 0), Identity(name="leader-1", policy_source="test"))
    page.start()
    try:
        page.show(state_of(shop()), ())
        with closing(http.client.HTTPConnection("127.0.0.1", page.address[1], timeout=10)) as connection:
            connection.request("GET", "/", headers={"Host": "rebalancer.example"})
            assert connection.getresponse().status == 200
    finally:
        page.stop()


def test_an_address_in_use_is_an_error_at_the_start(browser: Browser) -> None:
    with pytest.raises(CannotListen):
        StatusPage(Address(*browser.page.address), Identity(name="other", policy_source="test"))


def test_it_is_renewed_by_itself_unless_somebody_stops_that(browser: Browser) -> None:
    browser.page.show(state_of(shop()), ())
    _, text, headers = browser.get("/?q=web")
    assert headers["Refresh"] == "30"
    (stop,) = (link for link in Reader(text).links if "refresh=off" in link)
    assert "q=web" in stop
    _, text, headers = browser.get(stop.removeprefix("."))
    assert "Refresh" not in headers
    assert "refresh=off" not in "".join(link for link in Reader(text).links if link.endswith("q=web"))


def test_every_page_is_bounded_and_everything_can_be_found(browser: Browser) -> None:
    """120 workloads are three pages of the grid; each is found by its name."""
    browser.page.show(state_of(shop(120)), ())
    first, third = browser.text(), browser.text("/?page=3")
    assert len(re.findall(r'<td class="cell', first)) == 3 * ROWS
    assert len(re.findall(r'<td class="cell', third)) == 3 * 20
    assert "Page 1 of 3" in first
    assert "page=2#domains" in first
    assert "and 335 more" in first, "120 limits and 240 constraints are violated, 25 are shown"
    assert first.count('id="shop/') == FIRST
    selected = browser.text("/?q=shop/web-77")
    assert "web-77 (Deployment)" in selected
    assert "web-78 (Deployment)" not in selected
    assert "Show all" in selected
    assert "Page 1 of" not in selected
    nothing = browser.text("/?q=nosuch")
    assert "No constraint of these." in nothing
    assert "No limit of these" in nothing


@pytest.mark.parametrize("page", ["0", "-1", "99", "x", "1" * 400])
def test_a_page_that_does_not_exist_is_the_nearest(browser: Browser, page: str) -> None:
    browser.page.show(state_of(shop(60)), ())
    assert re.search("Page [12] of 2", browser.text(f"/?page={page}"))


def test_the_grid_is_that_of_a_key_that_can_be_chosen(browser: Browser) -> None:
    """The key with the fewest domains by default; another by a link."""
    browser.page.show(state_of(shop()), ())
    assert '<th scope="col">a-1</th>' not in browser.text()
    text = browser.text(f"/?key={HOSTNAME}")
    assert '<th scope="col" class="whole">a-1</th>' in text
    assert f"<strong>{HOSTNAME}</strong>" in text


def test_of_many_domains_the_fullest_have_a_column(browser: Browser) -> None:
    on = {f"{zone}-{number}": 1 for zone in "abcdefgh" for number in range(1, 9)}
    browser.page.show(state_of(a_cluster("abcdefgh", 8, on, namespace="shop", spread={HOSTNAME: 1}).snapshot()), ())
    text = browser.text()
    assert len(re.findall(r'<td class="cell', text)) == 30
    assert "34 pods in 34" in text


def test_every_address_within_the_page_leads_somewhere(browser: Browser) -> None:
    """Sections, pages, keys and files."""
    browser.page.show(state_of(shop(60), seconds=125), ())
    reader = Reader(browser.text("/?q=shop"))
    assert len(set(reader.ids)) == len(reader.ids), "two elements have one identifier"
    for link in reader.links:
        path, _, fragment = link.partition("#")
        assert not fragment or fragment in reader.ids or path
        assert browser.get(f"/{path.removeprefix('./')}")[0] == 200


def test_five_thousand_workloads_do_not_break_it(browser: Browser) -> None:
    """Pages stay small, whatever there is."""
    state = state_of(shop(1))
    browser.page.show(state, ())
    report = browser.page.read()
    assert report is not None
    assert report.report is not None
    rows = tuple(
        structs.replace(row, namespace=f"shop-{number}") for number in range(5_000) for row in report.report.constraints
    )
    assert state.cycle is not None
    browser.page._report = state.cycle, structs.replace(report.report, constraints=rows)
    text = browser.text()
    assert len(text) < 200_000
    assert "Page 1 of 100" in text
    assert "shop-4321/web-0" in browser.text("/?q=shop-4321")


def test_errors_of_the_policy_and_the_state_of_prevention_are_shown(browser: Browser) -> None:
    state = state_of(shop())
    steering = replace(
        state.reported.prevention,
        mode=ScaleDownPrevention.STEER,
        workloads=3,
        ordered=2,
        waiting=1,
        stopped="no policy",
    )
    errors = replace(state.in_force, policy_error="line 3: mode: found Evcit", team_problems={"shop": "too loose"})
    state = replace(state, in_force=errors, reported=replace(state.reported, prevention=steering))
    browser.page.show(state, ())
    text = browser.text()
    assert "line 3: mode: found Evcit" in text
    assert "Team policy of shop: too loose" in text
    assert "Steer: deletion costs in order for 2 of 3 workloads, 1 patch to send; stopped: no policy" in text
