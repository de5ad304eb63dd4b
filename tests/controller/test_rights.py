"""The API server is asked where this account may evict: when the mode comes into force, and after a refusal."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.access import may_evict
from rebalancer.adapters.kubernetes.transport import ClusterError, Unreachable
from rebalancer.admission.rights import Rights
from rebalancer.controller.rights import RightsReader
from rebalancer.controller.state import Clocks, LoopEvent, LoopState, RightsRead
from rebalancer.controller.status import status_document
from rebalancer.policy import Mode
from rebalancer.reporting.acting import describe_status
from rebalancer.reporting.headline import headline
from rebalancer.simulator import ZONE, SimulatedCluster
from rebalancer.tracking.backoff import record_failure, record_refusal
from tests.adapters.kubernetes.fake_server import answer, served
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager


def test_the_question_names_the_right_and_the_namespace() -> None:
    """An answer that is none counts as no answer."""
    asked = []

    def handle(request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        attributes = body["spec"]["resourceAttributes"]
        asked.append((request.command, request.path, attributes))
        answer(request, 201, {"status": {"allowed": True}} if attributes["namespace"] == "shop" else {})

    with served(handle) as transport:
        assert may_evict(transport, "shop")
        with pytest.raises(Unreachable, match="cannot be read"):
            may_evict(transport, "")
    method, path, attributes = asked[0]
    assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    assert attributes == {"namespace": "shop", "verb": "create", "resource": "pods", "subresource": "eviction"}


class Asked:
    """A simulated controller over two skewed workloads, with rights that the test sets, and what was asked."""

    def __init__(self, may: Mapping[str, bool], mode: Mode = Mode.EVICT) -> None:
        blueprint = a_cluster("abc", 2)
        for namespace in ("one", "two"):
            blueprint.deployment("web", on={"a-1": 3, "a-2": 3}, spread={ZONE: 1}, namespace=namespace)
        self.cluster = SimulatedCluster(blueprint.snapshot())
        self.simulation = Simulation(self.cluster, eager(mode))
        self.runner = self.simulation.runner
        self.runner.state = replace(
            self.runner.state, queue=replace(self.runner.state.queue, rights=Rights(everywhere=False))
        )
        self.may = dict(may)
        self.asked: list[str] = []
        clocks = Clocks(now=lambda: self.cluster.now, monotonic=self.cluster.seconds)
        self.fails = False
        self.reader = RightsReader(ask=self.ask, get_state=lambda: self.runner.state, tell=self.tell, clocks=clocks)

    def ask(self, namespace: str) -> bool:
        self.asked.append(namespace)
        if self.fails:
            raise ClusterError("no answer")
        return self.may.get(namespace, False)

    def tell(self, event: LoopEvent) -> None:
        assert isinstance(event, RightsRead)
        self.runner.tell(event)

    def poll(self) -> list[str]:
        """Poll once; return what was asked."""
        self.asked.clear()
        self.reader.poll()
        self.runner.drain()
        return list(self.asked)

    @property
    def state(self) -> LoopState:
        return self.runner.state

    def evicted(self) -> set[str]:
        """Return the namespaces in which something was evicted."""
        return {move.namespace for move in self.state.memory.moves}

    def headline(self) -> str:
        status = status_document(self.state, "test", "test")
        return headline(status, status.figures, self.cluster.now).text


def test_one_question_is_enough_where_it_may_evict_everywhere() -> None:
    """It is asked again each ten seconds: that it was taken away is seen before the next request is refused."""
    case = Asked({"": True})
    assert case.poll() == [""]
    assert case.state.queue.rights == Rights()
    assert case.poll() == []
    case.simulation.cycles(3)
    assert case.poll() == [""]
    assert case.simulation.evictions > 0
    case.may = {"one": True}
    case.cluster.advance(10)
    assert case.poll() == ["", "one", "two"]
    assert case.state.queue.rights.missing.keys() == {"two"}
    assert case.state.queue.forbidden == {}


def test_else_it_is_asked_of_each_namespace_in_which_something_is_to_be_evicted() -> None:
    """What is missing is asked again each ten seconds, what is granted is not; nothing is requested meanwhile."""
    case = Asked({"one": True})
    assert case.poll() == [""], "there is no plan yet"
    case.simulation.cycles(1, apart=0)
    assert case.simulation.evictions == 0, "no answer yet"
    assert case.poll() == ["one", "two"]
    assert case.poll() == []
    case.simulation.cycles(1, apart=1)
    assert case.evicted() == {"one"}
    case.cluster.advance(10)
    assert case.poll() == ["", "two"]
    case.may["two"] = True
    case.cluster.advance(10)
    assert case.poll() == ["", "two"]
    assert case.state.queue.rights.missing == {}


def test_a_missing_right_is_the_headline() -> None:
    """With the way out, in status and page, as a hold, and not in mode Observe."""
    case = Asked({"one": False})
    case.simulation.cycles(1, apart=1)
    case.poll()
    case.simulation.cycles(1, apart=1)
    status = status_document(case.state, "test", "test")
    assert status.missing_rights == ("one", "two")
    apply = "apply deploy/components/evict-rights/cluster-role.yaml, or deploy/namespace there"
    assert case.headline() == f"No right to evict in one, two: {apply}"
    assert describe_status(status) == f"mode Evict, but no right to evict in one, two: {apply}"
    assert {(hold.scope, hold.reason) for hold in status.holds} == {
        ("namespace one", "Forbidden"),
        ("namespace two", "Forbidden"),
    }
    observed = replace(case.state, in_force=replace(case.state.in_force, policy=eager(Mode.OBSERVE)))
    status = status_document(observed, "test", "test")
    assert (status.missing_rights, status.holds) == ((), ())


def test_a_refused_request_has_it_asked_at_once() -> None:
    """A right that was taken away is known a second later, and its way out is the headline."""
    case = Asked({"": True})
    case.poll()
    case.may = {"one": True}
    case.runner.tick()
    queue = replace(case.state.queue, forbidden={"two": "pods is forbidden"})
    case.runner.state = replace(case.state, queue=queue)
    assert case.poll() == ["", "one", "two"]
    assert case.poll() == []
    assert case.state.queue.rights.missing.keys() == {"two"}
    case.may = {"": True}
    case.cluster.advance(10)
    assert case.poll() == [""]
    assert case.state.queue.forbidden == {}, "what was refused there is over"


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_right_that_is_taken_away_again_is_missing_since_then(*, everywhere: bool) -> None:
    """Not since it was missing for the first time: it was granted in between, in all namespaces or in that one."""
    case = Asked({"one": True})
    case.simulation.cycles(1, apart=0)
    case.poll()
    first = case.state.queue.rights.missing["two"]
    case.cluster.advance(10)
    case.poll()
    assert case.state.queue.rights.missing == {"two": first}, "it has been missing all the time"
    case.may = {"": True} if everywhere else {"one": True, "two": True}
    case.cluster.advance(10)
    case.poll()
    assert case.state.queue.rights.missing == {}
    case.may = {"one": True}
    case.cluster.advance(10)
    case.runner.state = replace(
        case.state, queue=replace(case.state.queue, forbidden={} if everywhere else {"two": "pods is forbidden"})
    )
    case.poll()
    assert case.state.queue.rights.missing == {"two": case.cluster.now}


def test_a_right_that_is_taken_away_while_a_repair_backs_off_is_named_before_the_back_off_ends() -> None:
    """Nothing is requested meanwhile whose answer would say so; status, page and plan name the right, not a time."""
    case = Asked({"one": True, "two": True})
    case.simulation.cycles(1, apart=0)
    case.poll()
    cycle = case.state.cycle
    assert cycle is not None
    memory = case.state.memory
    for component in cycle.plan.components:
        memory = record_failure(memory, component.name, case.cluster.now)
    case.runner.state = replace(case.state, memory=memory)
    case.simulation.cycles(1, apart=1)
    assert {wait.reason for wait in status_document(case.state, "test", "test").waits} == {"BackOff"}
    case.may = {"one": True}
    case.cluster.advance(10)
    case.poll()
    waits = {wait.namespace: wait for wait in status_document(case.state, "test", "test").waits}
    assert {name: wait.reason for name, wait in waits.items()} == {"one": "BackOff", "two": "Forbidden"}
    assert (waits["two"].until, waits["two"].ends_with) == (None, "when the controller's account may evict in two")
    case.may = {"one": True, "two": True}
    case.cluster.advance(10)
    case.poll()
    assert case.state.queue.rights.missing == {}


def test_what_the_missing_right_has_refused_does_not_back_off_once_it_is_back() -> None:
    """A budget's refusal and that of a webhook go on to count."""
    case = Asked({"": True})
    case.simulation.cycles(1, apart=0)
    case.may = {"one": True}
    case.runner.state = replace(case.state, queue=replace(case.state.queue, forbidden={"two": "pods is forbidden"}))
    case.poll()
    cycle, memory = case.state.cycle, case.state.memory
    assert cycle is not None
    names = {one.component.namespace: one.name for one in cycle.plan.components}
    for group, words in ((names["one"], ""), (names["two"], ""), ("two by a budget", "a budget")):
        memory = record_refusal(memory, group, case.cluster.now, timedelta(minutes=1), words=words)
    case.runner.state = replace(case.state, memory=memory)
    case.may = {"one": True, "two": True}
    case.cluster.advance(10)
    case.poll()
    assert {one.group for one in case.state.memory.refused} == {names["one"], "two by a budget"}


def test_in_observe_nothing_is_asked_and_what_was_known_is_forgotten() -> None:
    """The mode may come into force again much later."""
    case = Asked({"": True})
    case.poll()
    policy = case.state.in_force.policy
    case.runner.state = replace(case.state, in_force=replace(case.state.in_force, policy=eager(Mode.OBSERVE)))
    assert case.poll() == []
    assert case.state.queue.rights == Rights(everywhere=False), "nothing is sent before the next answer"
    case.runner.state = replace(case.state, in_force=replace(case.state.in_force, policy=policy))
    assert case.poll() == [""]


def at_rest(may: Mapping[str, bool]) -> Asked:
    """Return a case in which nothing is violated, in two namespaces with constraints."""
    blueprint = a_cluster("abc", 2)
    for namespace in ("calm", "quiet"):
        blueprint.deployment("web", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1}, namespace=namespace)
    case = Asked(may)
    case.simulation = Simulation(SimulatedCluster(blueprint.snapshot()), eager())
    case.runner = case.simulation.runner
    case.simulation.cycles(1)
    return case


def test_an_account_that_may_evict_nowhere_is_seen_before_something_is_to_be_evicted() -> None:
    """It may have to be somewhere: an installation for some namespaces is nobody's fault."""
    case = at_rest({})
    assert case.poll() == ["", "calm", "quiet"]
    assert case.state.queue.rights.missing.keys() == {"calm", "quiet"}
    case = at_rest({"quiet": True})
    assert case.poll() == ["", "calm", "quiet"]
    assert (case.state.queue.rights.missing, case.headline()) == ({}, "Nothing is violated, nothing moves")
    case.cluster.advance(20)
    assert case.poll() == [""]


def test_however_many_namespaces_there_are_each_has_its_turn() -> None:
    """Twenty in a second, those first that were asked about longest ago: the last one is not forgotten."""
    blueprint = a_cluster("abc", 2)
    for number in range(50):
        blueprint.deployment("web", on={"a-1": 3}, spread={ZONE: 1}, namespace=f"n{number:02}")
    case = Asked({"n49": True})
    case.cluster = SimulatedCluster(blueprint.snapshot())
    case.simulation = Simulation(case.cluster, eager())
    case.runner = case.simulation.runner
    clocks = Clocks(now=lambda: case.cluster.now, monotonic=case.cluster.seconds)
    case.reader = RightsReader(ask=case.ask, get_state=lambda: case.state, tell=case.tell, clocks=clocks)
    case.poll()
    case.simulation.cycles(1, apart=1)
    asked = []
    for _ in range(4):
        asked += case.poll()
        case.cluster.advance(1)
    assert asked == [f"n{number:02}" for number in range(50)]
    case.simulation.cycles(1, apart=1)
    assert case.evicted() == {"n49"}
    case.cluster.advance(10)
    assert case.poll()[:2] == ["", "n00"]


def test_a_question_without_an_answer_changes_nothing_that_is_known() -> None:
    """What is missing stays missing, and is asked again; before the first answer the next request tells."""
    case = Asked({"one": True})
    case.poll()
    case.simulation.cycles(1, apart=1)
    case.poll()
    known = case.state.queue.rights
    assert known.missing.keys() == {"two"}
    case.fails = True
    case.cluster.advance(10)
    with capture_logs() as logs:
        assert case.poll() == [""]
    assert (logs[0]["event"], case.state.queue.rights) == ("rights not read", known)
    case.fails, case.may = False, {"": True}
    case.cluster.advance(10)
    assert case.poll() == [""]
    assert case.state.queue.rights == Rights()
    silent = Asked({})
    silent.fails = True
    silent.poll()
    assert silent.state.queue.rights == Rights()
    silent.fails = False
    silent.cluster.advance(10)
    assert silent.poll() == [""], "it is asked again"
    assert not silent.state.queue.rights.everywhere


def test_a_new_leader_keeps_a_proposal_while_it_asks() -> None:
    """Its hash is what people hold: a restart does not end it, but a right that is known to be missing does."""
    case = Asked({"one": True, "two": True}, Mode.APPROVE)
    case.poll()
    case.simulation.cycles(1, apart=1)
    case.poll()
    case.simulation.cycles(1, apart=1)
    proposed = case.state.memory.proposal
    assert proposed is not None
    case.runner.state = replace(case.state, queue=replace(case.state.queue, rights=Rights(everywhere=False)))
    case.simulation.cycles(1, apart=1)
    assert case.state.memory.proposal == proposed
    missing = Rights(everywhere=False, granted=frozenset({"one"}), missing={"two": case.cluster.now})
    case.runner.state = replace(case.state, queue=replace(case.state.queue, rights=missing))
    case.simulation.cycles(1, apart=1)
    assert case.state.memory.proposal is not None
    assert case.state.memory.proposal.hash != proposed.hash
