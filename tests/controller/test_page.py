"""The status page: what it shows of the loop's state, and what names may not do in it."""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from rebalancer.adapters.web import CannotListen
from rebalancer.adapters.web.page_address import PageAddress
from rebalancer.adapters.web.page_view import MOVING_SECONDS, SIGNS, PageView
from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.admission.pause import Pause
from rebalancer.assessment.findings import Finding
from rebalancer.controller.page import StatusPage
from rebalancer.controller.runner import Identity
from rebalancer.controller.state import Leadership, LoopState
from rebalancer.controller.status import status_document
from rebalancer.documents.document import document_schema
from rebalancer.documents.history import AsOf, TrendDocument, TrendSample, history_document
from rebalancer.documents.overview import ROWS, RowState
from rebalancer.documents.page import PageDocument
from rebalancer.documents.status import LeaseStatus
from rebalancer.documents.waits import RepairWait
from rebalancer.locations import Address
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.moves import MoveState, RefusedRequest
from rebalancer.model.reasons import FindingKind
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy, ScaleDownPrevention
from rebalancer.reporting.headline import Sign
from rebalancer.reporting.text.layout import Style
from rebalancer.reporting.text.status import status_text
from rebalancer.simulator import HOSTNAME, START, ZONE, SimulatedCluster
from rebalancer.simulator.builder import ClusterBuilder
from rebalancer.simulator.controller import SimulatedController
from rebalancer.surge.report import SurgeReport
from tests.build import a_cluster, a_policy
from tests.controller.simulated import Simulation
from tests.drawing import scaled
from tests.history.build import HISTORY
from tests.planning.clusters import policy as generous
from tests.reports import page_of
from tests.surge.build import under_way

DISRUPTED = "karpenter.sh/disrupted"
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
        if tag not in {"meta", "link", "input", "br"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@contextmanager
def new_browser() -> Iterator[Browser]:
    identity = Identity(name="leader-1", policy_source="test")
    page = StatusPage(Address("127.0.0.1", 0), identity, now=lambda: START + timedelta(seconds=5))
    page.start()
    yield Browser(page)
    page.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Serve one page for all tests, which compiles its templates once; each test shows a state of its own."""
    with new_browser() as browser:
        yield browser


def plain(text: str) -> str:
    """Return the words of a page, one space between two."""
    return " ".join(unescape(re.sub("<[^>]*>", " ", text)).split())


def test_it_says_what_the_controller_does_and_what_is_violated(browser: Browser) -> None:
    """First what it does, then what comes next; each row has its counts against the bound, and what helps."""
    browser.page.show(state_of(shop()), ())
    text = plain(browser.text().partition("<main")[2])
    assert text.index("mode Evict: the controller evicts") < text.index("3 evictions wait")
    assert "Violated 1 of 1 workload; 2 of 2 constraints, 1 of 1 limit" in text
    assert text.index("limit all/zone-half (maxShare <=1/2 per zone)") < text.index("also zone, maxSkew 1")
    assert "6 of 8 (75%), headroom -2 pods" in text
    assert "a holds 6, at most 4, 2 above; b holds 2, at most 4; c holds 0, at most 4" in text


def test_what_waits_and_until_when_is_said_as_status_says_it(browser: Browser) -> None:
    state = state_of(shop(), seconds=5)
    assert state.cycle is not None
    browser.page.show(state, ())
    text = plain(browser.text())
    waits = status_document(state, "leader-1", "test").waits
    assert waits
    for wait in waits:
        assert f"{wait.reason} {wait.message}" in text
        assert wait.until is not None
        assert f"in 1m55s {wait.until:%Y-%m-%d %H:%M:%SZ}" in text


def test_the_plan_that_waits_for_approval_is_shown_with_its_command(browser: Browser) -> None:
    """With each pod, its destination and the deadline; what is approved is named so."""
    approving = POLICY.model_copy(update={"mode": Mode.APPROVE})
    state = state_of(shop(), seconds=125, policy=approving)
    proposal = state.memory.proposal
    assert proposal is not None
    browser.page.show(state, ())
    text = unescape(browser.text())
    assert "A plan of 1 eviction (up to 3 with later steps) waits for approval until " in text
    assert f"To be approved: plan {proposal.hash}, {len(proposal.uids)} eviction" in text
    assert f"rebalancer approve {proposal.hash} shows it and asks" in text
    assert "; expires " in text
    assert re.search(
        r'<th scope="row"><bdi>shop/web-[\w-]+</bdi></th><td class="whole"><bdi>a-\d</bdi></td>'
        r"<td><bdi>zone b/c, node [^<]*</bdi></td>",
        text,
    )
    approved = structs.replace(state.memory, proposal=structs.replace(proposal, approved=True))
    assert state.cycle is not None
    browser.page.show(replace(state, memory=approved, cycle=replace(state.cycle, memory=approved)), ())
    assert f"Approved: plan {proposal.hash}" in browser.text()


def test_moves_in_flight_and_the_reasons_for_waiting_are_shown(browser: Browser) -> None:
    """With the number of the step, and where the pod goes; once, though the plan of the cycle still has it."""
    state = state_of(shop(), seconds=125)
    browser.page.show(state, ())
    text = plain(browser.text())
    (move,) = state.memory.in_flight
    assert "Repairing: 1 pod is moving" in text
    assert f"1 now, for 0s shop/{move.pod} {move.node} \N{RIGHTWARDS ARROW} zone b/c, node b-1/b-2/c-1/c-2" in text
    assert text.count(f"shop/{move.pod} {move.node}") == 1
    assert unescape(browser.text()).count('class="step moving"') == 1
    assert "Not evicted, by reason" in text


def test_every_state_has_a_sign_of_its_own_and_the_colours_of_the_terminal() -> None:
    """Red is violated, magenta cannot be repaired, green is satisfied, yellow waits, blue moves."""
    assert SIGNS.keys() == set(RowState)
    assert len(set(SIGNS.values())) == len(SIGNS)
    colours = {"31": "violated", "35": "unrepairable", "32": "good", "33": "waiting", "34": "moving"}
    named = {Style.BAD: "31", Style.STUCK: "35", Style.GOOD: "32", Style.CAUTION: "33", Style.MOVING: "34"}
    assert all(style == code and colours[code] in set(Sign) for style, code in named.items())
    templates = files("rebalancer.adapters.web") / "templates"
    style, signs = (templates / "style.css").read_text(), (templates / "signs.svg.j2").read_text()
    assert all(f'<symbol id="{sign}"' in signs for sign in Sign)
    assert all(style.count(f"--{colour}: #") == 2 for colour in ("red", "blue", "amber", "violet", "green"))


def test_a_name_with_a_hyphen_is_not_broken(browser: Browser) -> None:
    """A zone has its whole name beside a bar; `eu-` at the end of a line names none."""
    blueprint = ClusterBuilder()
    blueprint.zones(["eu-west-1a", "eu-west-1b"], 1)
    blueprint.deployment("web", namespace="shop", on={"eu-west-1a-1": 3, "eu-west-1b-1": 0}, spread={ZONE: 1})
    browser.page.show(state_of(blueprint.snapshot()), ())
    shown = browser.get()[1]
    assert re.search(r'<text class="label"[^>]*>eu-west-1a</text>', shown)
    assert "eu-west-1a holds 3, at most 1, 2 above" in shown
    assert ".whole, .word { white-space: nowrap; }" in browser.get("/style.css")[1]


def test_a_namespace_in_which_nothing_is_evicted_is_named(browser: Browser) -> None:
    """With the workload whose replacement is not created, and the condition that says why."""
    state = state_of(shop(), seconds=125)
    moves = tuple(structs.replace(move, uncreated="exceeded quota: pods") for move in state.memory.in_flight)
    browser.page.show(replace(state, memory=structs.replace(state.memory, moves=moves)), ())
    text = browser.text()
    assert 'role="alert">CannotCreate: shop/web-0 (Deployment) has no pod in place of ' in text
    assert "which was evicted: exceeded quota: pods; nothing is evicted in namespace shop until it has one" in text
    browser.page.show(state, ())
    assert 'role="alert"' not in browser.text()


def test_evictions_that_admission_control_refused_are_named(browser: Browser) -> None:
    """With the webhook, its words, which are text, and the time of the next request."""
    state = state_of(shop())
    assert state.cycle is not None
    request = RefusedRequest(
        "g", 1, state.cycle.context.now, timedelta(minutes=1), "admission webhook guard", SCRIPT, "a/b"
    )
    browser.page.show(replace(state, memory=structs.replace(state.memory, refused=(request,))), ())
    text = browser.text()
    assert f"a/b: admission webhook guard refused the eviction: {SCRIPT}; tried again at " in unescape(text)
    assert SCRIPT not in text
    browser.page.show(state, ())
    assert "admission webhook guard" not in browser.text()


def test_surges_are_listed_with_what_each_waits_for_and_what_a_pause_leaves(browser: Browser) -> None:
    """And the page is renewed as fast as while pods move."""
    state = state_of(shop(), seconds=125)
    state = replace(state, memory=structs.replace(state.memory, moves=()))
    browser.page.show(state, ())
    assert ">Surges</h2>" not in browser.text()
    report = SurgeReport(under_way=(under_way(f"until {SCRIPT} is Ready"),))
    browser.page.show(replace(state, reported=replace(state.reported, surges=report)), ())
    text = browser.text()
    assert "shop/web (Deployment) 2 pods web-1 and web-2 go Waiting 6 of 8" in plain(text)
    assert SCRIPT not in text
    assert "more than wanted" not in text
    assert browser.get("/")[2]["Refresh"] == f"{MOVING_SECONDS}; url=./"
    pause = Pause(by="ada")
    paused = replace(state, in_force=replace(state.in_force, pause=pause))
    stopped = report._replace(stopped=pause.message)
    browser.page.show(replace(paused, reported=replace(state.reported, surges=stopped)), ())
    assert "2 pods more than wanted stay until the pause ends." in browser.text()


def test_a_pause_is_the_first_sentence(browser: Browser) -> None:
    pause = Pause(until=START + timedelta(hours=1), reason="an incident", by="ada")
    browser.page.show(state_of(shop(), pause=pause), ())
    first = re.search(r'<p class="acting">last cycle \w+ ago; ([^<]*)</p>', browser.text())
    assert first is not None
    assert first[1] == "paused by ada: an incident: the controller will not evict"
    assert f"Paused by ada until {START + timedelta(hours=1):%H:%M:%S} UTC" in plain(browser.text())


def test_a_guard_that_is_not_good_is_the_headline(browser: Browser) -> None:
    state = state_of(shop())
    for verdict, said in ((Verdict.GOOD, False), (Verdict.BAD, True)):
        answers = (GuardAnswer("errors", verdict, "the query returned 1 series"),)
        browser.page.show(replace(state, guards=replace(state.guards, answers=answers, wanted=True)), ())
        text = plain(browser.text())
        assert ("No eviction now: not every guard is good (errors)" in text) is said
        assert "Guards 0 of 1 good; errors: the query returned 1 series" in text if said else "1 of 1 good" in text


def test_another_replica_names_the_leader_instead_of_old_figures(browser: Browser) -> None:
    browser.page.show(replace(state_of(shop()), leadership=Leadership()), ())
    text = browser.text()
    assert "this process does not lead" in text
    assert "This replica has evaluated nothing" in text
    assert "skew 6" not in text
    document = json.loads(browser.text("/status.json"))
    assert document["report"] is None
    assert document["totals"] is None


ENDED = START - timedelta(seconds=20)
WAIT = RepairWait(
    namespace="shop",
    workloads=(),
    reason="NodeSettling",
    message="node c-1 settles",
    until=START + timedelta(minutes=1),
    ends_with="",
    usual=None,
    then=None,
)
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
    assert (document.overview is not None) is leads


RAN_OUT = f"the Lease of leader-1 ran out at {ENDED:%Y-%m-%d %H:%M:%SZ}"
SILENT = START + timedelta(seconds=5)
UNKNOWN = f"nothing is known since {SILENT:%Y-%m-%d %H:%M:%SZ} (25s ago): no answer"


@pytest.mark.parametrize(
    ("lease", "acting"),
    [
        (
            LeaseStatus(holder="leader-1", renewed=SILENT, error="no answer", unread_since=SILENT),
            f"leader-1 leads, last renewed 25s ago, last cycle 30s ago; mode Evict, but {UNKNOWN}",
        ),
        (
            LeaseStatus(
                last_holder="leader-1", renewed=SILENT, free_since=ENDED, error="no answer", unread_since=SILENT
            ),
            f"{FREE} as far as this process knows: {RAN_OUT}, {UNKNOWN}; last cycle 30s ago",
        ),
    ],
)
def test_while_the_api_server_says_nothing_a_leader_says_since_when_nothing_is_known(
    lease: LeaseStatus, acting: str
) -> None:
    """Before its Lease has run out and after it: nothing goes on at a time, and nothing moves now."""
    state = state_of(shop())
    assert state.cycle is not None
    now = state.cycle.context.now + timedelta(seconds=30)
    document = shown(state, lease)
    assert document.acting == acting
    assert document.status.figures is not None
    soon = structs.replace(document.status.figures, next_at=now + timedelta(seconds=12))
    status = structs.replace(document.status, figures=soon, waits=(WAIT,))
    view = PageView(structs.replace(document, status=status), PageAddress("/", {}), now)
    assert [one.text for one in (view.headline, *view.below)] == [
        f"Who leads and what happens is not known since {SILENT:%H:%M:%S} UTC"
    ]
    assert view.old
    assert {step.when for step in view.steps.entries if step.sign is not Sign.MOVING} <= {"not known"}
    assert document.overview is None or not any("next" in figure.detail for figure in view.figures)
    text = status_text(status, now)
    assert "WAITING IN THE LAST CYCLE" in text
    assert "goes on" not in text
    assert "next in" not in text


def test_without_a_leader_it_shows_the_pause_that_stands() -> None:
    """A replica that waits reads the kill switch: the next leader begins with what that says."""
    for until, stands in ((None, True), (START - timedelta(hours=1), False)):
        state = state_of(shop())
        pause = Pause(until=until, reason="zone b", by="ada")
        paused = replace(state, leadership=Leadership(), in_force=replace(state.in_force, pause=pause))
        assert (shown(paused, LeaseStatus(free_since=ENDED)).status.paused is not None) is stands


@pytest.mark.parametrize(
    ("lease", "helped"),
    [(LeaseStatus(free_since=ENDED, error="HTTP 403"), True), (LeaseStatus(holder="leader-2"), False)],
)
def test_who_finds_that_nobody_leads_reads_what_to_do(lease: LeaseStatus, helped: bool) -> None:
    """Why this process does not, and what to ask the cluster, with its own namespace; else nothing of that."""
    identity = Identity(name="leader-1", policy_source="test")
    page = StatusPage(Address("127.0.0.1", 0), identity, now=lambda: START, read_lease=lambda: lease, namespace="ours")
    page.start()
    try:
        page.show(replace(state_of(shop()), leadership=Leadership()), ())
        text = plain(Browser(page).text())
        document = page.read()
    finally:
        page.stop()
    assert ("What to do" in text) is helped
    assert ("This process is there and does not lead: HTTP 403." in text) is helped
    command = "kubectl auth can-i update leases -n ours --as system:serviceaccount:ours:rebalancer"
    assert (command in text) is helped
    assert document is not None
    assert (command in document.commands) is helped


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
        document = page.read(with_report=False)
    finally:
        page.stop()
    assert document is not None
    return document


def test_before_the_first_cycle_it_says_so() -> None:
    with new_browser() as browser:
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
    moving = document["status"]["figures"]["moving"]
    assert document["totals"]["evictions"] == document["status"]["plan"]["evictions"] + moving


def test_what_names_contain_is_text(browser: Browser) -> None:
    """Markup in a name, in a search and in a message of somebody else is shown, not run."""
    finding = Finding(kind=FindingKind.SELECTOR_EMPTY, object=SCRIPT, message=SCRIPT)
    pause = Pause(until=None, reason=SCRIPT, by="<img src=x onerror=alert(1)>")
    browser.page.show(state_of(shop(), pause=pause), (finding,))
    attack = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
    for path in ("/", f"/?q={attack}", f"/?namespace={attack}&state={attack}&reason={attack}&page={attack}"):
        assert not {"script", "img"} & set(Reader(browser.text(path)).tags)
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
    browser: Browser, host: str, status: int
) -> None:
    """A website that has its own name resolve to 127.0.0.1 reads nothing."""
    browser.page.show(state_of(shop()), ())
    for path in ("/", "/workloads", "/workload", "/nodes", "/node", "/history", "/status.json", "/style.css"):
        assert browser.get(path, host)[0] == status, path


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
    assert headers["Refresh"] == "30; url=./?q=web"
    assert "every 30 s" in text
    (stop,) = (link for link in Reader(text).links if "refresh=off" in link)
    assert "q=web" in stop
    _, text, headers = browser.get(stop.removeprefix("."))
    assert "Refresh" not in headers
    assert "refresh=off" not in "".join(link for link in Reader(text).links if link.endswith("q=web"))


def test_it_is_renewed_sooner_while_something_moves(browser: Browser) -> None:
    browser.page.show(state_of(shop(), seconds=125), ())
    assert browser.get("/")[2]["Refresh"] == f"{MOVING_SECONDS}; url=./"


def test_every_page_is_bounded_and_everything_can_be_found(browser: Browser) -> None:
    """50 workloads are three pages; each is found by its name, its namespace, its state or its reason."""
    browser.page.show(state_of(shop(50)), ())
    first, third = browser.text(), browser.text("/?page=3")
    assert first.count('id="shop/') == ROWS
    assert third.count('id="shop/') == 50 - 2 * ROWS
    assert "Page 1 of 3" in first
    assert "page=2" in first
    assert "Needs attention: 50 50 violated; most pods above the bound first: rows 1 to 20 of 50" in plain(first)
    selected = plain(browser.text("/?q=shop/web-37"))
    assert "shop/web-37 (Deployment)" in selected
    assert "shop/web-38 (Deployment)" not in selected
    assert "Show all" in selected
    assert "Page 1 of" not in selected
    for nothing in ("q=nosuch", "namespace=nosuch", "state=satisfied", "reason=nosuch"):
        assert "No workload with rules is selected." in browser.text(f"/?{nothing}")
    for some in ("namespace=shop", "state=violated", "state=waiting", "reason=NotPersistent"):
        assert "Page 1 of 3" in browser.text(f"/?{some}")


def test_a_filter_holds_for_list_plan_moves_and_json(browser: Browser) -> None:
    """Nothing of another workload is left, in any view."""
    browser.page.show(state_of(shop(3), seconds=125), ())
    everything = browser.text()
    assert all(f"web-{number}" in everything for number in range(3))
    for view in ("/", "/workloads"):
        assert "web-0" not in browser.text(f"{view}?q=web-1")
    document = json.loads(browser.text("/status.json?q=web-1"))
    assert [row["of"] for row in document["overview"]["rows"]] == ["web-1 (Deployment)"]
    assert {one["workload"]["name"] for one in (*document["evictions"], *document["waiting"])} == {"web-1"}


def test_pods_that_wait_for_a_node_are_named_although_nothing_is_violated(browser: Browser) -> None:
    """The status names them, too."""
    blueprint = a_cluster("ab", on={"a-1": 2, "b-1": 2, "c-1": 1}, spread={ZONE: 1}, replicas=6)
    blueprint.node("c-1", zone="c", cpu=100)
    simulation = Simulation(SimulatedCluster(blueprint.snapshot(), seed=1), generous())
    simulation.cycles(2)  # the sixth pod is created
    browser.page.show(simulation.runner.state, ())
    shown = plain(browser.text())
    assert "Needs attention: 0" in shown
    assert re.search(r"default/web \(Deployment\): .*NoCapacity: ", shown)


def test_the_trend_ends_with_the_figure_beside_it() -> None:
    """Also in the moment in which the sample of the last cycle is not stored yet."""
    state = state_of(shop(), seconds=125)
    assert state.cycle is not None
    samples = [
        TrendSample(at=START - timedelta(minutes=at), violated=violated, above=0, skew=0)
        for at, violated in ((30, 4), (5, 2))
    ]
    page = structs.replace(page_of(state), trend=tuple(samples))
    assert page.overview is not None
    assert page.overview.figures.violated == 1
    trend = PageView(page, PageAddress("/", {}), state.cycle.context.now).trend
    assert (trend.last, trend.sentence) == (1, "Now 1 violated, at most 4 in this time")


def test_the_page_has_what_happened_and_the_trend(browser: Browser) -> None:
    """The newest first; a filter holds for both what concerns a workload and what concerns the cluster."""
    state = state_of(shop(), seconds=125)
    samples = tuple(
        TrendSample(at=START - timedelta(minutes=minutes), violated=violated, above=0, skew=0)
        for minutes, violated in ((90, 0), (30, 4), (5, 1))
    )
    past = history_document(HISTORY, total=len(HISTORY), as_of=AsOf(START, START)), TrendDocument(samples=samples)
    identity = Identity(name="leader-1", policy_source="test")
    page = StatusPage(Address("127.0.0.1", 0), identity, now=lambda: START, read_past=lambda: past)
    page.start()
    try:
        page.show(state, ())
        other = Browser(page)
        text = plain(other.text())
        newest = [entry.text for entry in past[0].entries][:-11:-1]
        assert [text.index(words) for words in newest] == sorted(text.index(words) for words in newest)
        everything = plain(other.text("/history"))
        assert f"as of {START:%Y-%m-%d %H:%M:%S} UTC; rebalancer history" in everything
        assert all(entry.text in everything for entry in past[0].entries)
        only = plain(other.text("/history?q=cart").partition("What happened")[2])
        assert "cart" in only
        assert "paused" not in only
        assert "shop/db (StatefulSet) and 2 more workloads" in plain(other.text("/history?q=db-proxy"))
        assert "approved by alice" in plain(other.text("/history?q=alice"))
        assert "Now 1 violated, at most 4 in this time" in plain(other.text("/?trend=7d"))
        jsonschema.validate(json.loads(other.text("/status.json")), document_schema(PageDocument))
    finally:
        page.stop()
    browser.page.show(state, ())
    assert "nothing yet" in plain(browser.text("/history"))
    assert "Violated, 2h" not in plain(browser.text())


def test_the_nodes_that_take_no_pods_come_first_with_the_reason(browser: Browser) -> None:
    snapshot = shop()
    changed: dict[str, dict[str, Any]] = {
        "b-2": {"unschedulable": True, "cordoned_by": "kubectl-cordon", "lost_since": START - timedelta(minutes=3)},
        "c-1": {"ready": False, "ready_since": None},
        "c-2": {"ready_since": START - timedelta(seconds=84)},
    }
    nodes = tuple(structs.replace(node, **changed.get(node.name, {})) for node in snapshot.nodes)
    browser.page.show(state_of(replace(snapshot, nodes=nodes)), ())
    text = plain(browser.text("/nodes").partition("<main")[2])
    assert "Nodes 1 not ready, 1 cordoned, 2 closed, 2 ready" in text
    assert text.index("c-1 zone c not ready its Ready condition is not True") < text.index("b-2 zone b cordoned")
    assert "it is cordoned by kubectl-cordon since 2025-12-31 23:57:00 UTC (3m ago)" in text
    assert "lately (nodes.settle) since 2025-12-31 23:58:36 UTC (1m ago) takes replacements in 3m31s" in text
    assert "a-1" not in plain(browser.text("/nodes?q=c").partition("<main")[2])
    assert "No such node." in browser.text("/nodes?q=nosuch")


@pytest.mark.parametrize("seconds", [84, 3_600])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"taints": (Taint("gpu", TaintEffect.NO_SCHEDULE, "yes"),)}, "pods that tolerate gpu=yes:NoSchedule"),
        ({"taints": (Taint("busy", TaintEffect.PREFER_NO_SCHEDULE),)}, ""),
        ({"taints": (Taint(DISRUPTED, TaintEffect.NO_SCHEDULE),)}, "an autoscaler is about to remove it"),
        ({"deleted": START}, "it is being deleted"),
        ({"problem": "KernelDeadlock"}, "lasting problem (condition KernelDeadlock)"),
        ({"draining": "Drained"}, "its condition Drained says"),
        ({"unschedulable": True}, "it is cordoned"),
    ],
)
def test_no_node_takes_pods_that_its_taints_or_what_becomes_of_it_keep_away(
    browser: Browser, changed: dict[str, Any], said: str, seconds: int
) -> None:
    """Whether it settles or is ready."""
    snapshot = shop()
    fields = {"ready_since": START - timedelta(seconds=seconds), **changed}
    nodes = tuple(structs.replace(node, **(fields if node.name == "c-2" else {})) for node in snapshot.nodes)
    browser.page.show(state_of(replace(snapshot, nodes=nodes)), ())
    text = plain(browser.text("/node?node=c-2").partition("<main")[2])
    assert said in text.replace("replacements", "pods")
    settles = seconds < 300 and not changed.get("unschedulable")
    takes = not said or "tolerate" in said
    assert (f"takes {(said or 'pods').replace('pods', 'replacements')} in " in text) is (settles and takes)
    assert ("takes replacements in" in text) is (settles and not said)
    assert ("no replacement is to land on it" in text) is (not takes and not changed.get("unschedulable"))


def test_a_node_has_a_view_with_the_workloads_on_it(browser: Browser) -> None:
    """And no other; the list of nodes leads there."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("web", namespace="shop", on={"a-1": 2, "b-1": 0}, spread={ZONE: 1})
    blueprint.deployment("db", namespace="shop", on={"a-2": 1, "b-2": 1}, spread={ZONE: 1})
    browser.page.show(state_of(blueprint.snapshot()), ())
    (link,) = (one for one in Reader(browser.text("/nodes")).links if "node=a-1" in one)
    text = plain(browser.text(link.removeprefix(".")).partition("<main")[2])
    assert "Node Node State Why, and since when Pods a-1 zone a ready" in text
    assert "shop/web (Deployment)" in text
    assert "shop/db" not in text
    assert "There is no such node." in browser.text("/node?node=gone")


def test_where_nothing_is_violated_the_page_shows_what_is_closest_to_it(browser: Browser) -> None:
    """The three with least room, drawn and mapped; none of them while something is violated."""
    blueprint = a_cluster("abc", 1)
    for number, on in enumerate(({"a-1": 2, "b-1": 1, "c-1": 1}, {"a-1": 1, "b-1": 1, "c-1": 1})):
        blueprint.deployment(f"web-{number}", namespace="shop", on=on, spread={ZONE: 1})
    blueprint.deployment("wide", namespace="shop", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 5})
    browser.page.show(state_of(blueprint.snapshot(), policy=a_policy("mode: Evict\n")), ())
    text = plain(browser.text().partition("<main")[2])
    assert "Nothing is violated, nothing moves" in text
    near = text.partition("Closest to a bound")[2]
    assert near.index("shop/web-0 (Deployment)") < near.index("shop/wide (Deployment)")
    assert "Map of the cluster" in text
    browser.page.show(state_of(shop()), ())
    assert "Closest to a bound" not in browser.text()


def test_what_is_closest_to_a_bound_is_shown_by_the_rule_with_least_room(browser: Browser) -> None:
    """Not by the one that is written first, nor by limits before constraints."""
    blueprint = a_cluster("abc", 1)
    blueprint.deployment("web", namespace="shop", on={"a-1": 2, "b-1": 1, "c-1": 1}, spread={ZONE: 1})
    blueprint.deployment("db", namespace="shop", on={"a-1": 3, "b-1": 1, "c-1": 1}, spread={ZONE: 5})
    limits = "".join(
        f"      - {{name: {name}, topologyKey: {ZONE}, maxPods: {most}}}\n" for name, most in (("wide", 9), ("near", 4))
    )
    policy = a_policy(f"groups:\n  - name: all\n    selector: {{}}\n    limits:\n{limits}")
    browser.page.show(state_of(blueprint.snapshot(), policy=policy), ())
    near = plain(browser.text()).partition("Closest to a bound")[2]
    web, db = near.index("shop/web (Deployment)"), near.index("shop/db (Deployment)")
    assert web < near.index("zone, maxSkew 1") < near.index("also limit all/near") < near.index("also limit all/wide")
    assert db < near.index("limit all/near (maxPods 4 per zone)", db) < near.index("also zone, maxSkew 5")


def test_a_workload_has_a_view_with_every_rule_its_proof_and_what_comes_next(browser: Browser) -> None:
    """Nothing of another workload is in it; its row of the overview leads there."""
    browser.page.show(state_of(shop(3), seconds=125), ())
    (link,) = (one for one in Reader(browser.text()).links if "web-1" in one)
    text = plain(browser.text(link.removeprefix(".")))
    assert "shop/web-1 (Deployment): 1 moving, 2 to go" in text
    assert "Violated since 2026-01-01 00:00:00 UTC" in text
    assert all(rule in text for rule in ("limit all/zone-half", "zone, maxSkew 1", "node, maxSkew 2"))
    assert "with at most 3 per zone (a:6), 3 pods are above" in text
    assert "rebalancer explain deployment/web-1 --namespace shop" in text
    assert "web-0" not in text
    assert "web-2" not in text
    assert "No such workload has" in browser.text("/workload?namespace=shop&workload=Deployment/gone")


@pytest.mark.parametrize("page", ["0", "-1", "99", "x", "1" * 400])
def test_a_page_that_does_not_exist_is_the_nearest(browser: Browser, page: str) -> None:
    browser.page.show(state_of(shop(30)), ())
    assert re.search("Page [12] of 2", browser.text(f"/?page={page}"))


def test_a_limit_on_labels_is_repaired_as_any_other(browser: Browser) -> None:
    """Its row says what waits, and is found by workload and by node."""
    rules = """\
mode: Evict
groups:
  - name: all
    selector: {}
    groupBy: [app]
    limits: [{name: zone-half, topologyKey: topology.kubernetes.io/zone, maxShare: "<=1/2", action: Evict}]
"""
    blueprint = a_cluster("abc", 1)
    blueprint.deployment("web", namespace="shop", on={"a-1": 4, "b-1": 1, "c-1": 1})
    browser.page.show(state_of(blueprint.snapshot(), policy=a_policy(rules)), ())
    text = plain(browser.text().partition("Needs attention")[2])
    assert "shop/all app=web" in text
    assert "1 moving" in text
    assert "only reported" not in text
    for view in ("/workload?namespace=shop&workload=Deployment/web", "/node?node=a-1"):
        assert "app=web" in browser.text(view)


def test_a_cluster_without_nodes_has_every_view(browser: Browser) -> None:
    blueprint = ClusterBuilder()
    blueprint.deployment("web", namespace="shop", on={}, replicas=2, spread={ZONE: 1})
    browser.page.show(state_of(blueprint.snapshot()), ())
    for path in ("/", "/workloads", "/workload?namespace=shop&workload=Deployment/web", "/nodes", "/history"):
        assert browser.get(path)[0] == 200


def test_what_somebody_makes_up_is_in_no_link(browser: Browser) -> None:
    """Nor more of a known parameter than a name is long: each link would repeat it."""
    browser.page.show(state_of(shop()), ())
    usual = len(browser.text("/nodes"))
    _, text, headers = browser.get(f"/nodes?x={'%FF' * 2_000}&namespace={'a' * 6_000}")
    assert "x=" not in headers["Refresh"]
    assert len(text) < usual + 60 * 253


def test_what_is_refused_is_not_said_to_go_now(browser: Browser) -> None:
    """Before the next cycle as after it; and what moves is not to be evicted once more."""
    state = state_of(shop(), seconds=125)
    (move,) = state.memory.in_flight
    browser.page.show(state, ())
    assert "To be evicted 2" in plain(browser.text())
    assert "3 evictions (the proved minimum): 1 sent, 2 waiting" in plain(browser.text())
    refused = structs.replace(move, state=MoveState.REFUSED)
    browser.page.show(replace(state, memory=structs.replace(state.memory, moves=(refused,))), ())
    assert 'class="step moving"' not in browser.text()


def test_of_many_domains_those_are_drawn_that_are_off(browser: Browser) -> None:
    """And it is said how many are within their bounds."""
    on = {f"{zone}-{number}": 1 for zone in "abcdefgh" for number in range(1, 9)} | {"a-1": 4}
    browser.page.show(state_of(a_cluster("abcdefgh", 8, on, namespace="shop", spread={HOSTNAME: 1}).snapshot()), ())
    text = browser.text("/?state=violated")
    assert "a-1 holds 4, at most 2, 2 above" in text
    assert "and 63 more domains within their bounds" in text


def test_every_address_within_the_page_leads_somewhere(browser: Browser) -> None:
    """Sections, pages, keys and files."""
    browser.page.show(state_of(shop(ROWS + 5), seconds=125), ())
    reader = Reader(browser.text("/?q=shop"))
    assert any("page=2" in link for link in reader.links)
    assert len(set(reader.ids)) == len(reader.ids), "two elements have one identifier"
    for link in set(reader.links):
        path, _, fragment = link.partition("#")
        assert not fragment or fragment in reader.ids or path
        assert browser.get(f"/{path.removeprefix('./')}")[0] == 200


def test_many_workloads_do_not_break_it(browser: Browser) -> None:
    """Pages stay small, whatever there is; the largest cluster is a benchmark's."""
    count = scaled(300)
    browser.page.show(state_of(shop(count), seconds=125), ())
    assert len(browser.text()) < 100_000
    assert f"shop/web-{count - 22}" in browser.text(f"/?q=web-{count - 22}")


def many_nodes(nodes: int, workloads: int, violated: int) -> Snapshot:
    """Three zones, and workloads over them; of the violated ones six of eight pods are in zone a."""
    blueprint = a_cluster("abc", nodes)
    for number in range(workloads):
        names = [f"{zone}-{1 + number % nodes}" for zone in "abc"]
        counts = (6, 2, 0) if number < violated else (1, 1, 1)
        on = dict(zip(names, counts, strict=True))
        blueprint.deployment(f"web-{number}", namespace=f"shop-{number % 47}", on=on, spread={ZONE: 1, HOSTNAME: 6})
    return blueprint.snapshot()


def test_a_cluster_of_many_nodes_has_its_zones_in_numbers(browser: Browser) -> None:
    """With a bar and squares, named for a screen reader, and as a table; of a filter its pods and all nodes."""
    state = state_of(many_nodes(21, 30, 25), seconds=125, policy=a_policy("mode: Evict\n"))
    browser.page.show(state, ())
    text = browser.text()
    zones = text.partition('aria-labelledby="zones"')[2].partition("</section>")[0]
    assert "Zones 63 nodes in 3 zones; each square is a node" in plain(zones)
    document = json.loads(browser.text("/status.json"))["zones"]
    for zone in document["zones"]:
        assert f"<title>Pods of violated workloads in zone {zone['name']}</title><desc>{zone['pods']} pod" in zones
        assert f"<title>Nodes of zone {zone['name']}</title><desc>21 nodes: " in zones
    assert sum(zone["pods"] for zone in document["zones"]) == 25 * 8
    assert text.index('id="zones"') < text.index('id="facets"') < text.index('id="map"')
    assert "<table" not in zones
    (link,) = (one for one in Reader(text).links if "table=zones" in one)
    table = browser.text(link.removeprefix(".").partition("#")[0])
    assert table.count('aria-label="The zones as a table"') == 1
    assert 'aria-label="The map as a table"' not in table
    assert 'aria-label="The zones as a table"' not in browser.text("/?table=map")
    one = browser.text("/?q=web-3")
    assert "63 nodes in 3 zones; each square is a node, those with something to say first; pods of what is" in one
    assert sum(zone["pods"] for zone in json.loads(browser.text("/status.json?q=web-3"))["zones"]["zones"]) == 8


def test_zones_in_which_nothing_is_violated_are_their_nodes(browser: Browser) -> None:
    """With an end of the wait for those that settle, and without bars."""
    snapshot = many_nodes(21, 3, 0)
    young = structs.replace(snapshot.nodes[0], ready_since=START - timedelta(seconds=84))
    browser.page.show(state_of(replace(snapshot, nodes=(young, *snapshot.nodes[1:]))), ())
    zones = browser.text().partition('aria-labelledby="zones"')[2].partition("</section>")[0]
    assert "zone a 21 nodes: 1 closed, the last until 00:03:36" in plain(zones)
    assert "violated workloads" not in zones
    assert "will move" not in zones


def test_zones_that_are_not_drawn_are_counted(browser: Browser) -> None:
    blueprint = ClusterBuilder()
    blueprint.zones([f"z{number:02}" for number in range(25)], 3)
    browser.page.show(state_of(blueprint.snapshot()), ())
    text = plain(browser.text())
    assert "Zones 75 nodes in 25 zones" in text
    assert "and 1 more zone " in text


def test_few_nodes_are_columns_of_the_map_and_not_squares(browser: Browser) -> None:
    browser.page.show(state_of(many_nodes(20, 3, 1)), ())
    assert 'id="zones"' not in browser.text("/?table=zones")
    assert json.loads(browser.text("/status.json"))["zones"] is None


def test_five_thousand_workloads_on_a_thousand_nodes_are_a_small_page(browser: Browser) -> None:
    browser.page.show(state_of(many_nodes(334, 5_000, 300), policy=a_policy("mode: Evict\n")), ())
    text = browser.text("/?table=zones")
    assert "1,002 nodes in 3 zones" in text
    assert len(text.encode()) < 100_000


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
    assert "Steer: deletion costs in order for 2 of 3 workloads, 1 patch to send; stopped: no policy" in plain(text)
