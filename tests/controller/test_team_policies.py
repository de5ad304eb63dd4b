"""Team policies are read from many namespaces, and what one of them has concerns no other."""

import dataclasses
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.configmaps import read_config_map
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Unreachable
from rebalancer.controller import team_policies as polling
from rebalancer.controller.loop import step
from rebalancer.controller.state import (
    CycleDue,
    InForce,
    Leading,
    LoopEvent,
    LoopState,
    PolicyLoaded,
    Publish,
    TeamPoliciesRead,
)
from rebalancer.controller.status import status_documents
from rebalancer.controller.team_policies import POLL_SECONDS, RETRY_SECONDS, TeamPolicyReader
from rebalancer.controller.telemetry import Telemetry
from rebalancer.model.cluster import ConfigMap
from rebalancer.model.events import Event, Regarding
from rebalancer.policy import (
    NO_TEAM_POLICY,
    Amount,
    Budgets,
    Mode,
    Policy,
    TeamPolicies,
    TeamReading,
    load_team_policy,
    team_maps,
)
from rebalancer.policy.merging import MOST_TEAMS
from rebalancer.policy.team_maps import read_team_policy
from tests.adapters.kubernetes.fake_server import ApiServer, served
from tests.build import a_state
from tests.controller.simulated import eager
from tests.controller.test_loop import NOW, SNAPSHOT
from tests.controller.waiting import until
from tests.reports import export, rows_of, view_of

HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\n"
STRICT = HEAD + "budgets: {perWorkload: 0}\n"
FORBIDDEN = RequestRefused("GET …: HTTP 403: forbidden", 403, {})


def config_map(text: str | None, namespace: str = "shop", binary: tuple[str, ...] = ()) -> ConfigMap:
    data = {} if text is None else {"policy.yaml": text}
    return ConfigMap(namespace=namespace, name="rebalancer-policy", uid="u", data=data, binary=frozenset(binary))


class Namespaces:
    """Namespaces with what reading each of them gives, a reader of them all, and the events that it sends."""

    def __init__(self, **contents: str | Exception | None) -> None:
        self.contents: dict[str, str | Exception | None] = dict(contents)
        self.events: list[LoopEvent] = []
        self.requests: list[str] = []
        self.now = 0.0
        self.reader = TeamPolicyReader(
            list_namespaces=lambda: sorted(self.contents),
            read=self._read,
            tell=self.events.append,
            clock=lambda: self.now,
        )

    def _read(self, namespace: str) -> ConfigMap | None:
        self.requests.append(namespace)
        content = self.contents[namespace]
        if isinstance(content, Exception):
            raise content
        return config_map(content, namespace) if content is not None else None

    def poll(self) -> dict[str, TeamReading]:
        """Read all of them and return the readings of the last event."""
        self.reader.poll()
        event = self.events[-1]
        assert isinstance(event, TeamPoliciesRead)
        return dict(event.teams)


def test_a_change_is_reported_once() -> None:
    """Texts that stay the same are no event; a namespace that is gone is one."""
    spaces = Namespaces(shop=STRICT, pay=None)
    readings = spaces.poll()
    assert readings["pay"] == TeamReading(policy=NO_TEAM_POLICY)
    assert readings["shop"].policy == load_team_policy(STRICT.encode(), source="x")
    spaces.poll()
    assert len(spaces.events) == 1
    del spaces.contents["shop"]
    assert spaces.poll().keys() == {"pay"}
    assert len(spaces.events) == 2


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (config_map(STRICT + "mode: Evict\n"), "ConfigMap shop/rebalancer-policy, policy.yaml:4: mode: unknown field"),
        (config_map(None), "ConfigMap shop/rebalancer-policy: there is no key policy.yaml; add it or delete the"),
        (config_map(None, binary=("policy.yaml",)), "ConfigMap shop/rebalancer-policy: policy.yaml is not text in"),
        (config_map("\ud800"), "ConfigMap shop/rebalancer-policy, policy.yaml:1: found the byte 0xed; expected text"),
    ],
)
def test_a_bad_team_policy_leaves_the_last_valid_one_in_force(bad: ConfigMap, problem: str) -> None:
    """The message names ConfigMap, line and field; without a valid one from before there is none."""
    before = read_team_policy(config_map(STRICT), None)
    reading = read_team_policy(bad, before)
    assert reading.policy == before.policy
    assert reading.problem.startswith(problem)
    assert read_team_policy(bad, None).policy is None
    assert read_team_policy(config_map(STRICT), reading) == before
    assert read_team_policy(None, reading) == TeamReading(policy=NO_TEAM_POLICY)


def test_a_defect_of_the_parser_refuses_this_policy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: bytes, *, source: str) -> object:
        if source.startswith("ConfigMap shop/"):
            raise RuntimeError(source)
        return load_team_policy(text, source=source)

    monkeypatch.setattr(team_maps, "load_team_policy", fail)
    with capture_logs() as logs:
        readings = Namespaces(shop=STRICT, web=STRICT).poll()
    assert readings["shop"].problem == "ConfigMap shop/rebalancer-policy: cannot be read (RuntimeError)"
    assert readings["web"].policy is not None
    assert [entry["log_level"] for entry in logs] == ["error"]


def test_a_missing_right_is_reported_and_tried_again_after_a_minute() -> None:
    """The last policy that could be read stays; the other namespaces are read as ever."""
    spaces = Namespaces(shop=STRICT, pay=STRICT, new=FORBIDDEN)
    assert spaces.poll()["new"].policy is None
    spaces.contents["shop"] = FORBIDDEN
    spaces.contents["pay"] = HEAD
    readings = spaces.poll()
    assert readings["shop"].policy == load_team_policy(STRICT.encode(), source="x")
    assert readings["shop"].problem == (
        "the controller's account may not read ConfigMap shop/rebalancer-policy; deploy/team has the Role"
    )
    assert readings["pay"] == TeamReading(policy=NO_TEAM_POLICY)
    spaces.contents["shop"] = STRICT
    spaces.requests.clear()
    spaces.poll()
    assert spaces.requests == ["pay"]
    spaces.now += RETRY_SECONDS
    assert spaces.poll()["shop"].problem == ""


@pytest.mark.parametrize(
    "error", [Unreachable("no answer"), RequestRefused("HTTP 500", 500, {}), ValueError("garbage")]
)
def test_a_lost_answer_changes_nothing(error: Exception) -> None:
    """An answer that is lost or garbled says nothing about the policy; the text is read again at the next pass."""
    spaces = Namespaces(shop=STRICT)
    before = spaces.poll()
    spaces.contents["shop"] = error
    spaces.reader.poll()
    spaces.now += RETRY_SECONDS
    after = spaces.poll()
    spaces.now += RETRY_SECONDS
    assert after["shop"].policy == before["shop"].policy
    if isinstance(error, ClusterError):
        assert after == before
    spaces.contents["shop"] = HEAD
    assert spaces.poll()["shop"] == TeamReading(policy=NO_TEAM_POLICY)


def test_a_first_read_that_fails_leaves_the_namespace_alone() -> None:
    """Whatever its team forbids may be in there."""
    readings = Namespaces(shop=Unreachable("no answer"), pay=STRICT).poll()
    assert (readings["shop"].policy, readings["shop"].problem) == (None, "no answer")
    assert readings["pay"].problem == ""


def test_a_silent_server_is_not_waited_for_in_every_namespace() -> None:
    """After three requests without an answer the pass ends; readings from before stay."""
    names = [f"team-{number:02}" for number in range(20)]
    spaces = Namespaces(**dict.fromkeys(names, STRICT))
    before = spaces.poll()
    spaces.contents |= dict.fromkeys(names, Unreachable("no answer"))
    spaces.requests.clear()
    assert spaces.poll() == before
    assert spaces.requests == names[:3]
    spaces.contents |= dict.fromkeys(names, HEAD)
    assert spaces.poll()[names[-1]] == TeamReading(policy=NO_TEAM_POLICY)


def test_namespaces_without_an_answer_keep_no_other_from_being_read() -> None:
    """The next pass begins where this one ended, and who has not answered twice is left alone for longer and longer."""
    broken: dict[str, str | Exception | None] = dict.fromkeys(("a1", "a2", "a3"), RequestRefused("HTTP 500", 500, {}))
    spaces = Namespaces(**broken, b=STRICT, c=STRICT)
    passes = []
    for _ in range(12):
        spaces.requests.clear()
        spaces.poll()
        passes.append("".join(name[-1] for name in spaces.requests))
        spaces.now += POLL_SECONDS
    assert passes[:2] == ["123", "bc123"]
    assert passes[2:5] == ["bc"] * 3
    assert sum("1" in one for one in passes) <= 5
    assert all("bc" in one + two for one, two in pairwise(passes))
    assert [name for name, reading in spaces.poll().items() if reading.policy is None] == ["a1", "a2", "a3"]


def test_nothing_is_remembered_of_namespaces_that_are_gone() -> None:
    """Names of short-lived namespaces, with and without a right or an answer, do not pile up."""
    spaces = Namespaces(stays=STRICT)
    for number in range(5):
        errors: list[str | Exception] = [FORBIDDEN, Unreachable("no answer"), STRICT]
        spaces.contents |= {f"new-{number}-{kind}": error for kind, error in enumerate(errors)}
        spaces.poll()
        spaces.contents = {"stays": STRICT}
        spaces.poll()
    reader = spaces.reader
    assert set().union(reader._retry, reader._failures, reader._config_maps, reader._readings) == {"stays"}


def test_more_namespaces_than_can_be_read_are_left_alone() -> None:
    """They are named as not read: no team's rules are ignored silently."""
    spaces = Namespaces(**{f"t{number:04}": None for number in range(MOST_TEAMS + 2)})
    readings = spaces.poll()
    assert len(spaces.requests) == MOST_TEAMS
    assert [name for name, reading in readings.items() if reading.policy is None] == ["t0500", "t0501"]
    assert readings["t0500"].problem == (
        "not read: teamPolicies.namespaces selects 502 namespaces, expected at most 500"
    )


def test_the_thread_survives_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is logged and tried again."""
    monkeypatch.setattr(polling, "POLL_SECONDS", 0.01)
    spaces = Namespaces(shop=STRICT)

    def tell(event: LoopEvent) -> None:
        if len(logs) < 2:
            spaces.reader._readings = {}  # else the change counts as reported
            raise RuntimeError("the loop is not ready")
        spaces.events.append(event)

    spaces.reader._tell = tell
    with capture_logs() as logs:
        spaces.reader.start()
        until(lambda: bool(spaces.events), "the policies")
    spaces.reader.stop()
    spaces.reader.thread.join(5)
    assert not spaces.reader.thread.is_alive()
    assert {(entry["event"], entry["what"]) for entry in logs} == {("not read", "team-policies")}


def test_a_pass_ends_where_the_process_does() -> None:
    spaces = Namespaces(shop=STRICT)
    spaces.reader.stop()
    spaces.reader.poll()
    assert (spaces.requests, spaces.events) == ([], [])


def test_the_config_map_is_read_by_its_name_alone() -> None:
    """One GET of one object: the right that deploy/team gives."""
    server, path = ApiServer(), "/api/v1/namespaces/shop/configmaps/rebalancer-policy"
    metadata = {"namespace": "shop", "uid": "u"}
    server.put(path, metadata=metadata, data={"policy.yaml": STRICT}, binaryData={"x": "AA=="})
    with served(server) as transport:
        read = read_config_map(transport, "shop", "rebalancer-policy", timeout=2.0)
        assert read == replace_binary(config_map(STRICT))
        assert read_config_map(transport, "none", "rebalancer-policy") is None
    assert server.requests[0] == ("GET", path)


def replace_binary(read: ConfigMap) -> ConfigMap:
    return ConfigMap(namespace=read.namespace, name=read.name, uid=read.uid, data=read.data, binary=frozenset({"x"}))


# The loop


BUDGETS = Budgets(max_unavailable=Amount(value=9), per_workload=Amount(value=9))


def cluster_policy(*namespaces: str, mode: Mode = Mode.EVICT) -> Policy:
    return eager(mode, budgets=BUDGETS, team_policies=TeamPolicies(namespaces=namespaces))


def after(state: LoopState, *events: LoopEvent) -> tuple[LoopState, list[Event]]:
    """Return the state after some events, and what the last of them publishes."""
    published: list[Event] = []
    for event in events:
        state, requests = step(state, event, NOW)
        published = [request.event for request in requests if isinstance(request, Publish)]
    return state, published


def read(text: str | None, before: TeamReading | None = None, namespace: str = "default") -> TeamPoliciesRead:
    reading = read_team_policy(config_map(text, namespace) if text is not None else None, before)
    return TeamPoliciesRead(teams={namespace: reading})


def waiting(state: LoopState) -> set[str]:
    assert state.cycle is not None
    return {str(eviction.reason) for eviction in state.cycle.plan.fates.kept} | {
        str(refusal.reason) for refusal in state.cycle.plan.refusals
    }


def test_a_team_holds_its_own_pods_back() -> None:
    """With a budget of 0 nothing of its namespace is evicted, and the message names the team's budget."""
    state, _ = after(a_state(cluster_policy("default"), NOW), read(None), CycleDue(snapshot=SNAPSHOT))
    assert state.cycle is not None
    assert len(state.cycle.fates.going) == 4
    state, _ = after(state, read(STRICT), CycleDue(snapshot=SNAPSHOT))
    assert state.cycle is not None
    assert state.cycle.fates.going == ()
    assert waiting(state) == {"StepExceedsBudget"}


def test_nothing_is_evicted_before_a_team_policy_has_been_read() -> None:
    """When the cluster policy newly lists a namespace: until its team policy was read once, or is known to be absent.

    Nothing is wrong in the meantime, so there is no event; the namespace of the rebalancer itself has no team policy.
    """
    state, _ = after(
        a_state(cluster_policy(), NOW), PolicyLoaded(policy=cluster_policy("default")), CycleDue(snapshot=SNAPSHOT)
    )
    assert state.cycle is not None
    assert state.cycle.fates.going == ()
    assert "Excluded" in waiting(state)
    assert state.in_force.team_problems == {}
    state, events = after(state, read(None))
    assert events == []
    state, _ = after(state, CycleDue(snapshot=SNAPSHOT))
    assert state.cycle is not None
    assert len(state.cycle.fates.going) == 4
    home = Regarding(kind="ConfigMap", namespace="default", name="rebalancer-control")
    state = a_state(cluster_policy("*"), NOW)
    state, _ = after(replace(state, process=replace(state.process, pause_object=home)), CycleDue(snapshot=SNAPSHOT))
    assert state.cycle is not None
    assert len(state.cycle.fates.going) == 4


def test_a_namespace_whose_workloads_are_not_read_has_no_team_policy() -> None:
    """It is neither waited for nor reported: events may not be written there."""
    for scope, teams in ((frozenset({"default"}), {"default"}), (frozenset({"elsewhere"}), set())):
        seen = dataclasses.replace(SNAPSHOT, scope=scope)
        state, _ = after(a_state(cluster_policy("*"), NOW), CycleDue(snapshot=seen))
        assert state.in_force.teams.keys() == teams


def test_a_namespace_without_a_valid_team_policy_is_left_alone() -> None:
    """Its pods are Excluded until the policy is valid, and with the next valid one they move."""
    broken = read("mode: Evict\n")
    state, _ = after(a_state(cluster_policy("default"), NOW), broken, CycleDue(snapshot=SNAPSHOT))
    assert state.cycle is not None
    assert state.cycle.fates.going == ()
    assert "Excluded" in waiting(state)
    state, _ = after(state, read(HEAD, broken.teams["default"]), CycleDue(snapshot=SNAPSHOT))
    assert state.cycle is not None
    assert len(state.cycle.fates.going) == 4


def test_a_team_policy_takes_effect_between_two_evictions() -> None:
    """What was admitted before waits for a new plan."""
    state, _ = after(a_state(cluster_policy("default"), NOW), read(None), CycleDue(snapshot=SNAPSHOT))
    assert state.queue.evictions
    tightened, _ = after(state, read(STRICT))
    assert tightened.queue.evictions == ()
    unchanged, _ = after(state, read(HEAD))
    assert unchanged.queue == state.queue, "a team policy that changes nothing delays nothing"


def test_events_about_team_policies() -> None:
    """Each change is one event, on the team's ConfigMap: in force, refused, in force again, gone."""
    state = a_state(cluster_policy("default"), NOW)
    state, events = after(state, read(STRICT))
    assert [(str(event.reason), event.regarding.namespace, event.regarding.name) for event in events] == [
        ("PolicyReloaded", "default", "rebalancer-policy")
    ]
    broken = read("mode: Evict\n", state.in_force.teams["default"])
    state, events = after(state, broken)
    assert [str(event.reason) for event in events] == ["PolicyInvalid"]
    assert "default/rebalancer-policy" in events[0].note
    assert state.in_force.policy.rules_of("default").budgets.per_workload == Amount(value=0), "the last valid one"
    _, events = after(state, broken)
    assert events == []
    state, events = after(state, read(STRICT, broken.teams["default"]))
    assert [str(event.reason) for event in events] == ["PolicyReloaded"]
    state, events = after(state, read(None, state.in_force.teams["default"]))
    assert [event.note for event in events] == ["there is no team policy; the cluster policy alone is in force"]
    assert state.in_force.policy == cluster_policy("default")
    _, events = after(replace(state, leadership=replace(state.leadership, leads=False)), read(STRICT))
    assert events == [], "only the leader publishes"


def test_a_new_leader_reports_what_it_has_read_before() -> None:
    """The policies are read at the start, when nobody leads yet."""
    state = LoopState(in_force=InForce(policy=cluster_policy("default"), policy_since=NOW))
    state, events = after(state, read("mode: Evict\n"))
    assert events == []
    _, events = after(state, Leading(leads=True))
    assert [str(event.reason) for event in events] == ["PolicyInvalid"]


def test_a_new_cluster_policy_keeps_what_teams_have_and_may_end_it() -> None:
    """A team's rules hold under the next cluster policy too, unless it no longer lists the namespace."""
    state, _ = after(a_state(cluster_policy("default"), NOW), read(STRICT))
    state, _ = after(state, PolicyLoaded(policy=cluster_policy("def*", mode=Mode.OBSERVE)))
    assert (state.mode, state.in_force.policy.rules_of("default").budgets.per_workload) == (
        Mode.OBSERVE,
        Amount(value=0),
    )
    state, _ = after(state, PolicyLoaded(policy=cluster_policy("shop")))
    assert state.in_force.policy == cluster_policy("shop")
    state, _ = after(state, PolicyLoaded(policy=cluster_policy("default")))
    assert state.in_force.policy.rules_of("default").budgets.per_workload == Amount(value=0)


def test_status_and_metrics_name_the_team_policies_that_are_not_in_force() -> None:
    """The status has the first twenty, the metric a series for each namespace with a team policy."""
    teams = {f"team-{number:02}": read("mode: Evict\n").teams["default"] for number in range(30)}
    teams |= {"good": read(STRICT).teams["default"], "none": TeamReading(policy=NO_TEAM_POLICY)}
    state, _ = after(a_state(cluster_policy("*"), NOW), TeamPoliciesRead(teams=teams))
    valid = rows_of(state, "rebalancer_team_policy_valid")
    assert (valid["good",], valid["team-07",]) == (1, 0)
    assert ("none",) not in valid
    (status,) = (document for document in status_documents(state, "me", "x") if document.key == "status.json")
    assert '"teamsInvalid": 30' in status.text
    assert status.text.count('"namespace": "team-') == 20


def test_requests_for_team_policies_do_not_count_for_the_breaker() -> None:
    """Neither does a team without a right open it, nor do many answers hold it shut."""
    counted: list[int] = []
    telemetry = cast("Any", SimpleNamespace)(
        _metrics=export(view_of(a_state(cluster_policy("*"), NOW))),
        requests=SimpleNamespace(count=lambda code, _: counted.append(code)),
    )
    Telemetry._count_request(
        telemetry, "GET", "/api/v1/namespaces/shop/configmaps/rebalancer-policy", 403, is_meant=False, seconds=0.0
    )
    Telemetry._count_request(telemetry, "GET", "/api/v1/pods", 403, is_meant=False, seconds=0.0)
    assert counted == [403]
