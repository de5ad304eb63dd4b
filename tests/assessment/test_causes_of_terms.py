"""The cause of a violated term of podAntiAffinity: labels where it is required, anything where it is preferred."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from msgspec import structs

from rebalancer.account.happened import Subject, ViolationBegan
from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.routes import Request
from rebalancer.assessment.causes import term_token
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, LoopState
from rebalancer.documents.history import history_entry
from rebalancer.history.violations import violation_entries
from rebalancer.model.affinity import NodeAffinity, PodAffinity, PodAffinityTerm, PreferredPodTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.reporting.text.report import report_text
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.tracking.changes import CHANGE_LIFETIME
from tests.assessment.findings.build import cordoned
from tests.build import a_cluster, a_state, away_from, change_specs, with_anti_affinity, with_nodes
from tests.controller.simulated import eager
from tests.reports import cycle_report, page_of
from tests.scheduling.build import NOW, term

SECOND = timedelta(seconds=1)


def later(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, taken_at=snapshot.taken_at + SECOND)


def without(snapshot: Snapshot, node: str) -> Snapshot:
    """Return the cluster after the loss of a node, with its pods."""
    return later(
        replace(
            snapshot,
            nodes=[other for other in snapshot.nodes if other.name != node],
            pods=[pod for pod in snapshot.pods if pod.node != node],
        )
    )


def moved(snapshot: Snapshot, to: str, *, off: str) -> Snapshot:
    """Return the cluster in which the pods of a node are on another one."""
    pods = [structs.replace(pod, node=to) if pod.node == off else pod for pod in snapshot.pods]
    return later(replace(snapshot, pods=pods))


def required(web: Mapping[str, int], batch: Mapping[str, int], key: str = HOSTNAME) -> Snapshot:
    """Return batch pods that are required to be away from web; a constraint makes the zones of interest."""
    builder = a_cluster("abc", 1, web, spread={ZONE: 9})
    builder.deployment("batch", on=batch)
    return with_anti_affinity(builder.snapshot(), {"batch": [away_from("web", key)]})


def preferred(on: Mapping[str, int], key: str = HOSTNAME, **spec: NodeAffinity) -> Snapshot:
    """Return web pods that prefer to be away from each other."""
    affinity = PodAffinity(anti_preferred=(PreferredPodTerm(100, away_from("web", key)),))
    snapshot = a_cluster("abc", 1, on, spread={ZONE: 9}).snapshot()
    return change_specs(snapshot, lambda _, made: structs.replace(made, pod_affinity=affinity, **spec))


def observe(*looks: Snapshot) -> LoopState:
    """Return a controller that has seen each of these in turn."""
    state = a_state(eager(), looks[0].taken_at, since=NOW)
    for look in looks:
        state, _ = step(state, CycleDue(snapshot=look), look.taken_at)
    return state


def cause(*looks: Snapshot) -> ViolationCause | None:
    """Return the cause that a controller finds after these looks."""
    cycle = observe(*looks).cycle
    assert cycle is not None
    (evaluated,) = (*cycle.assessment.anti_affinity, *cycle.assessment.preferred)
    return cycle.causes.get(term_token(evaluated))


TOGETHER = required({"a-1": 1, "b-1": 1}, {"a-1": 1, "c-1": 1})
"""Whoever has bound a pod of batch there, the scheduler has not."""


def beside() -> Snapshot:
    """Return a pod of batch beside one of another workload, which its term does not select."""
    builder = a_cluster("ab", 1, {"a-1": 1}, spread={ZONE: 9})
    builder.deployment("batch", on={"b-1": 1})
    builder.deployment("other", on={"b-1": 1})
    loud = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"noise": "loud"}))
    return with_anti_affinity(builder.snapshot(), {"batch": [loud]})


def relabelled(snapshot: Snapshot, **labels: str) -> Snapshot:
    """Return the cluster in which somebody has changed labels of that pod."""
    pods = [
        structs.replace(pod, labels=Labels({**pod.labels, **labels})) if pod.labels["app"] == "other" else pod
        for pod in snapshot.pods
    ]
    return later(replace(snapshot, pods=pods))


OTHERS = beside()
SELECTED = relabelled(OTHERS, noise="loud")


def test_a_pod_that_gets_a_label_violates_a_required_term() -> None:
    """Seen as it happens, and as long as the violation lasts; or by the template that says otherwise."""
    hours_after = replace(SELECTED, taken_at=SELECTED.taken_at + 2 * CHANGE_LIFETIME)
    fewer = replace(SELECTED, workloads=[structs.replace(one, replicas=0) for one in SELECTED.workloads])
    assert cause(OTHERS) is None
    assert cause(SELECTED) is ViolationCause.UNKNOWN
    assert cause(OTHERS, SELECTED) is ViolationCause.LABELS_CHANGED
    assert cause(OTHERS, SELECTED, hours_after) is ViolationCause.LABELS_CHANGED
    assert cause(OTHERS, fewer) is ViolationCause.LABELS_CHANGED, "another change of the workload is none of this"
    assert cause(relabelled(SELECTED, app="another")) is ViolationCause.LABELS_CHANGED


def test_so_does_a_node_that_gets_one() -> None:
    apart = required({"a-1": 1}, {"b-1": 1}, ZONE)
    joined = later(with_nodes(apart, {"b-1": {"labels": Labels({HOSTNAME: "b-1", ZONE: "a"})}}))
    assert cause(apart) is None
    assert cause(apart, joined) is ViolationCause.LABELS_CHANGED


@pytest.mark.parametrize("key", [HOSTNAME, ZONE])
def test_no_node_or_pod_that_comes_or_goes_violates_it(key: str) -> None:
    """Not a loss, a return, a rollout or fewer replicas: whoever has bound the pods is unknown."""
    apart, together = required({"a-1": 1}, {"c-1": 2}, key), required({"a-1": 1}, {"a-1": 2}, key)
    for before in (
        without(apart, "b-1"),
        cordoned(apart, "b-1"),
        replace(apart, workloads=[structs.replace(one, revision="old") for one in apart.workloads]),
        replace(apart, workloads=[structs.replace(one, replicas=one.replicas + 2) for one in apart.workloads]),
    ):
        bound = replace(moved(apart, "a-1", off="c-1"), taken_at=before.taken_at + SECOND)
        assert cause(before, bound) is ViolationCause.UNKNOWN
    assert cause(without(together, "b-1")) is ViolationCause.UNKNOWN


def test_a_node_that_comes_back_violates_a_preferred_term() -> None:
    """As it is seen, or by the times of a snapshot alone."""
    there = preferred({"a-1": 2, "b-1": 1})
    fresh = {"c-1": {"created": there.taken_at, "ready_since": there.taken_at}}
    assert cause(with_nodes(there, fresh)) is ViolationCause.DOMAIN_RETURNED
    zones = preferred({"a-1": 2, "b-1": 1}, ZONE)
    assert cause(without(zones, "c-1")) is None
    assert cause(without(zones, "c-1"), later(later(zones))) is ViolationCause.DOMAIN_RETURNED


def test_a_loss_violates_it() -> None:
    """Of a zone whose pods are elsewhere now, or of nodes that are there and take none."""
    spread = preferred({"a-1": 2, "b-1": 2, "c-1": 2}, ZONE)
    lost = later(replace(moved(spread, "a-1", off="c-1"), nodes=without(spread, "c-1").nodes))
    assert cause(spread) is None
    assert cause(spread, lost) is ViolationCause.ZONE_LOST
    assert cause(cordoned(preferred({"a-1": 3, "b-1": 1}), "c-1")) is ViolationCause.NODE_LOST


def test_a_node_that_its_pods_may_not_use_is_no_cause() -> None:
    """Whatever has become of it."""
    there = NodeAffinity(required=(term((ZONE, "In", ("a", "b"))),))
    pinned = preferred({"a-1": 3, "b-1": 1}, node_affinity=there)
    fresh = with_nodes(pinned, {"c-1": {"created": pinned.taken_at, "ready_since": pinned.taken_at}})
    for snapshot in (pinned, fresh, cordoned(pinned, "c-1")):
        assert cause(snapshot) is ViolationCause.SOFT_CONSTRAINT


def test_what_nothing_else_has_violated_was_only_preferred() -> None:
    assert cause(preferred({"a-1": 2, "b-1": 1})) is ViolationCause.SOFT_CONSTRAINT
    assert cause(preferred({"a-1": 1, "b-1": 1})) is None


def test_it_is_said_wherever_the_cause_of_a_constraint_is() -> None:
    """Report, page and history; and it is stored for the next process."""
    state = observe(OTHERS, SELECTED)
    assert state.cycle is not None
    report = cycle_report(state.cycle)
    (row,) = report.anti_affinity
    remedy = "Restore the labels of the pods that the term selects, or of their nodes."
    assert (row.cause, row.remedy) == ("LabelsChanged", remedy)
    assert f". Cause: LabelsChanged. {remedy}" in " ".join(report_text(report).split())
    routes = page_routes(lambda *_, **__: page_of(state), local=False, now=lambda: SELECTED.taken_at)
    text = unescape(re.sub("<[^>]*>", " ", routes["/workloads"](Request({})).body.decode()))
    assert "LabelsChanged" in text
    assert remedy in text
    (evaluated,) = state.cycle.assessment.anti_affinity
    began = ViolationBegan(term_token(evaluated), Subject(evaluated, state.cycle.causes))
    (entry,) = violation_entries([began], SELECTED.taken_at)
    assert history_entry(entry).text.endswith(", cause LabelsChanged")
    assert ViolationCause.LABELS_CHANGED in dict(state.memory.causes).values()


def test_one_that_nobody_knows_is_not_said() -> None:
    state = observe(TOGETHER)
    assert state.cycle is not None
    report = cycle_report(state.cycle)
    (row,) = report.anti_affinity
    assert (row.cause, "ause: " in report_text(report)) == ("Unknown", False)
    assert state.memory.causes == NO_MEMORY.causes


def test_whoever_prefers_a_term_is_not_told_to_enforce_it() -> None:
    state = observe(preferred({"a-1": 2, "b-1": 1}))
    assert state.cycle is not None
    (row,) = cycle_report(state.cycle).anti_affinity
    assert (row.cause, "DoNotSchedule" in row.remedy) == ("SoftConstraint", False)
