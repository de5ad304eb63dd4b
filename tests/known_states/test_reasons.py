"""Why nothing can be moved: the filter that rejects, counted over nodes as kube-scheduler does, and what would help."""

from typing import Any

import pytest

from rebalancer.model.reasons import FindingKind, Reason, State
from rebalancer.planning.diagnosis import closed_nodes
from tests.cli.files import ready_nodes
from tests.control_plane.manifests import ZONE
from tests.control_plane.resources import Manifest
from tests.known_states.build import State as Cluster
from tests.known_states.build import (
    bound_claim,
    cluster,
    containers,
    deployment,
    make,
    minutes_ago,
    namespace,
    over_zones,
    stateful_set,
    unready,
    zones,
)


def tainted(node: Manifest, key: str, value: str = "") -> None:
    node["spec"] = {**node.get("spec", {}), "taints": [{"key": key, "value": value, "effect": "NoSchedule"}]}


def cordoned(node: Manifest) -> None:
    node["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": minutes_ago(90)}],
    }


def two_owners() -> Cluster:
    """Return two Deployments of pods of different size under one selector, in zones a and b."""
    constraint: dict[str, Any] = {"topologySpreadConstraints": [over_zones({"tier": "front"})]}
    one = deployment("web", ("a-0", "a-0", "b-0"), labels={"tier": "front"}, cpu="200m", **constraint)
    two = deployment("api", ("a-0", "b-0"), labels={"tier": "front"}, **constraint)
    return Cluster(*zones(), namespace("shop"), *one, *two)


def only_reason(state: Cluster) -> tuple[State, str]:
    """Return the state of the only component that is not repaired, and why."""
    (component,) = [one for one in state.evaluate().plan.components if one.refusal is not None]
    return component.state, f"{component.reason}: {component.refusal}"


def test_a_zone_whose_only_node_is_cordoned_is_in_maintenance() -> None:
    state = cluster(deployment())
    cordoned(state.get("Node", "c-0"))
    assert only_reason(state) == (
        State.UNFIXABLE,
        f"ZoneInMaintenance: every node of {ZONE} c is cordoned; waiting until they are uncordoned",
    )


def test_a_host_port_that_is_taken() -> None:
    """Two pods of zone a, one of b, and another workload's pod that has the port in c."""
    port = [{**containers("100m")[0], "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]}]
    nodes = [*ready_nodes({"a": 2, "b": 1, "c": 1})]
    taken = deployment("other", ["c-0"], containers=port, topologySpreadConstraints=[])
    state = Cluster(*nodes, namespace("shop"), *deployment(on=("a-0", "a-1", "b-0"), containers=port), *taken)
    found, why = only_reason(state)
    assert found is State.UNFIXABLE
    assert why == (
        "NodesReject: if web-0 were evicted, no node would take its replacement: of 4 nodes 3 have its host port "
        "taken, 1 is ruled out by a spread constraint"
    )


@pytest.mark.parametrize(
    ("key", "value", "says", "remedy"),
    [
        ("node.kubernetes.io/unreachable", "", "1 is not Ready", "Bring back c-0"),
        ("node.kubernetes.io/not-ready", "", "1 is not Ready", "Bring back c-0"),
        ("dedicated", "db", "1 has the taint dedicated=db", "Remove the taint dedicated=db from c-0, or tolerate it"),
    ],
)
def test_a_taint(key: str, value: str, says: str, remedy: str) -> None:
    state = cluster(deployment())
    tainted(state.get("Node", "c-0"), key, value)
    found, why = only_reason(state)
    assert found is State.UNFIXABLE
    assert why == (
        "NodesReject: if web-0 were evicted, no node would take its replacement: of 3 nodes 2 are ruled out by a "
        f"spread constraint, {says}. {remedy}"
    )


@pytest.mark.parametrize(
    ("resource", "amount", "short"), [("cpu", "150m", "50m cpu"), ("memory", "96Mi", "32Mi memory")]
)
def test_a_resource_is_named(resource: str, amount: str, short: str) -> None:
    """Its pods request 100m and 64Mi, as another workload's pod on that node does."""
    state = cluster(deployment(), deployment("other", ["c-0"], topologySpreadConstraints=[]))
    state.get("Node", "c-0")["status"]["allocatable"][resource] = amount
    found, why = only_reason(state)
    assert found is State.UNFIXABLE
    assert why.startswith("NoCapacity: if web-0 were evicted, no node would take its replacement")
    assert why.endswith(f"1 has not enough {resource}. Free {short} on c-0")


def test_nodes_are_counted_by_what_rejects_each() -> None:
    """Twelve nodes: two cordoned, four without memory, six that are kept for a database."""
    nodes = ready_nodes({"a": 4, "b": 4, "c": 4})
    by_name = {node["metadata"]["name"]: node for node in nodes}
    for name in ("c-0", "c-1"):
        cordoned(by_name[name])
    for name in ("b-0", "b-1", "b-2", "b-3", "c-2", "c-3"):
        tainted(by_name[name], "dedicated", "db")
    for name in ("a-0", "a-1", "a-2", "a-3"):
        by_name[name]["status"]["allocatable"]["memory"] = "128Mi"
    taken = deployment("other", [f"a-{n}" for n in range(4)], memory="128Mi", topologySpreadConstraints=[])
    state = Cluster(*nodes, namespace("shop"), *deployment(on=("b-0", "b-0", None)), *taken)
    _, why = only_reason(state)
    assert why.startswith(
        "NoCapacity: no node takes the pending pod web-2: of 12 nodes 6 have the taint dedicated=db, 4 have not enough "
        "memory, 2 are cordoned"
    )


def test_pods_that_wait_are_told_both_remedies() -> None:
    """Zone c is silent, and closes the others as long as it counts; with a change both pods are placed."""
    state = Cluster(*zones(), namespace("shop"), *deployment(on=("a-0", "b-0", None, None)))
    tainted(state.get("Node", "c-0"), "node.kubernetes.io/unreachable")
    found, why = only_reason(state)
    assert found is State.UNFIXABLE
    assert why.startswith("NodesReject: no node takes the pending pod web-2: ")
    assert why.endswith(f"1 is not Ready. Bring back c-0, or set nodeTaintsPolicy: Honor in its constraint over {ZONE}")


def test_where_too_many_nodes_would_be_looked_at_no_change_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes to bring back are named all the same."""
    monkeypatch.setattr(closed_nodes, "_SHARE_OF_CHANGES", 10**9)
    state = Cluster(*zones(), namespace("shop"), *deployment(on=("a-0", "b-0", None, None)))
    tainted(state.get("Node", "c-0"), "node.kubernetes.io/unreachable")
    assert only_reason(state)[1].endswith("1 is not Ready. Bring back c-0")


def test_a_remedy_that_does_not_help_is_not_named() -> None:
    """The node of zone c is tainted, and too small besides."""
    state = cluster(deployment())
    tainted(state.get("Node", "c-0"), "dedicated", "db")
    state.get("Node", "c-0")["status"]["allocatable"]["cpu"] = "50m"
    _, why = only_reason(state)
    assert why.endswith("1 has the taint dedicated=db")


def test_one_place_is_no_remedy_where_two_are_needed() -> None:
    state = cluster(deployment(on=("b-0",) * 3 + ("c-0",) * 3))
    state.get("Node", "a-0")["status"]["allocatable"]["cpu"] = "50m"
    _, why = only_reason(state)
    assert why.endswith("1 has not enough cpu")


@pytest.mark.parametrize("obstacle", ["too small", "tainted", "another zone"])
def test_a_cordoned_zone_is_no_reason_where_its_return_would_not_help(obstacle: str) -> None:
    """Its node is too small, or has another taint besides, or a second zone is closed and needed, too."""
    state = cluster(deployment())
    node = state.get("Node", "c-0")
    cordoned(node)
    if obstacle == "too small":
        node["status"]["allocatable"]["cpu"] = "50m"
    elif obstacle == "tainted":
        node["spec"]["taints"].append({"key": "dedicated", "value": "db", "effect": "NoSchedule"})
    else:
        (other,) = ready_nodes({"d": 1})
        tainted(other, "dedicated", "db")
        state = cluster([other], deployment(on=("a-0",) * 3 + ("b-0",) * 3))
        cordoned(state.get("Node", "c-0"))
    found, why = only_reason(state)
    assert found is State.UNFIXABLE
    assert why.startswith("NodesReject")
    assert "1 is cordoned" in why
    assert "ncordon" not in why


def test_a_cordoned_zone_of_two_owners_is_in_maintenance() -> None:
    state = two_owners()
    cordoned(state.get("Node", "c-0"))
    assert only_reason(state)[1].startswith("ZoneInMaintenance")
    state.get("Node", "c-0")["spec"] = {}
    tainted(state.get("Node", "c-0"), "dedicated", "db")
    assert only_reason(state)[1].endswith("Remove the taint dedicated=db from c-0, or tolerate it")


def test_the_volumes_of_the_pod_reject_nodes() -> None:
    """The claim of `db-0` reaches zone a only; the message counts what rejects its replacement, not any pod's."""
    claims = [bound_claim(f"data-db-{number}", {ZONE: zone}) for number, zone in enumerate("aaab")]
    state = cluster(stateful_set(claims=["data"]), *claims, [make("storage.k8s.io/v1", "StorageClass", "zonal", None)])
    state.get("Node", "c-0")["status"]["allocatable"]["cpu"] = "50m"
    found, why = only_reason(state)
    assert found is State.UNFIXABLE
    assert "1 didn't match PersistentVolume's node affinity" in why


@pytest.mark.parametrize(
    ("annotation", "until"),
    [
        ({"karpenter.sh/do-not-disrupt": "1h"}, "12:30:00Z"),
        ({"rebalancer.dev/pause-until": "2026-05-04T13:00:00Z"}, "13:00:00Z"),
        ({"karpenter.sh/do-not-disrupt": "true"}, ""),
    ],
)
def test_what_is_excluded_for_a_time_is_waited_for(annotation: dict[str, str], until: str) -> None:
    state = cluster(deployment())
    for pod in state.pods():
        pod["metadata"] |= {"creationTimestamp": minutes_ago(30), "annotations": annotation}
    found, why = only_reason(state)
    assert found is (State.VIOLATED if until else State.UNFIXABLE)
    assert why.endswith(f"until 2026-05-04 {until}" if until else "remove the annotation to allow the eviction")


@pytest.mark.parametrize(("kind", "evicted"), [("StatefulSet", "shop/db-1"), ("Deployment", "shop/web-0")])
def test_a_pod_on_a_silent_node_is_no_victim_where_its_owner_waits_for_its_end(kind: str, evicted: str) -> None:
    """Zone a has two nodes, of which one is not Ready; its pod tolerates that. A ReplicaSet does not wait."""
    nodes = ready_nodes({"a": 2, "b": 1, "c": 1})
    nodes[0]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": minutes_ago(60)}]
    nodes[0]["spec"] = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}
    on = ("a-0", "a-1", "a-1", "b-0")
    owned = stateful_set(on=on, podManagementPolicy="Parallel") if kind == "StatefulSet" else deployment(on=on)
    outcome = Cluster(*nodes, namespace("shop"), *owned).plan()
    assert outcome.evicted == [evicted]
    if kind == "StatefulSet":
        assert "node a-0 is not Ready, so nothing confirms" in outcome.refusals[Reason.CANNOT_CREATE]


def test_fewer_domains_than_min_domains_need_no_node_and_no_taint() -> None:
    """What helps is another domain, or a lower minDomains: nothing is cordoned or tainted."""
    spread = [over_zones({"app": "web"}, minDomains=3)]
    state = Cluster(
        *ready_nodes({"a": 1, "b": 1}),
        namespace("shop"),
        *deployment(on=("a-0", "a-0", "b-0"), topologySpreadConstraints=spread),
    )
    assert only_reason(state)[1].startswith("TooFewDomains: only 2 domains exist and minDomains is 3, so each may hold")
    (finding,) = state.find(FindingKind.REPLACEMENT_BLOCKED)
    assert finding.message.endswith(
        "of 2 nodes 2 are ruled out by a spread constraint. Set minDomains: 2 in its constraint over "
        "topology.kubernetes.io/zone"
    )


def test_where_no_number_of_evictions_helps_that_is_said() -> None:
    """Zones of 2 and 1 nodes: the last of seven pods finds none, whatever is moved."""
    nodes = ready_nodes({"a": 2, "b": 1})
    both = [over_zones({"app": "db"}), over_zones({"app": "db"}, topologyKey="kubernetes.io/hostname")]
    pods = stateful_set(on=("a-0", "a-1", "b-0", "a-0", "b-0", "", ""), topologySpreadConstraints=both)
    state = Cluster(*nodes, namespace("shop"), *pods)
    found, why = only_reason(state)
    assert found is State.UNFIXABLE
    assert why == (
        "Unreachable: all pods have a place by counting; no sequence of evictions and placements leads there (proved)"
    )
    deadlocks = state.evaluate().assessment.deadlocks
    assert all("evict" not in deadlock.message for deadlock in deadlocks)


def young(state: Cluster, minutes: float, *numbers: int) -> None:
    for number in numbers:
        state.pods()[number]["metadata"]["creationTimestamp"] = minutes_ago(minutes)


def test_pods_that_are_too_young_are_waited_for() -> None:
    state = cluster(deployment())
    young(state, 3, 0, 1, 2)
    evaluated = state.evaluate("eligibility: {minAge: 5m}\n")
    (component,) = evaluated.plan.components
    assert component.state is State.VIOLATED
    assert str(component.refusal).endswith("it is 3m old; eligibility.minAge is 5m: 2m left")


def test_pods_that_stay_for_good_are_not_waited_for() -> None:
    """One is young; with it alone the repair is not possible, since the others are excluded."""
    state = cluster(deployment(on=("a-0", "a-0", "a-0", "a-0", "b-0")))
    young(state, 3, 0)
    for pod in state.pods()[1:4]:
        pod["metadata"]["annotations"] = {"rebalancer.dev/exclude": "true"}
    (component,) = state.evaluate("eligibility: {minAge: 5m}\n").plan.components
    assert (component.state, component.reason) == (State.UNFIXABLE, Reason.EXCLUDED)


def test_several_owners_with_young_pods_are_waited_for() -> None:
    """Pods of two classes under one selector: all of the fullest zone are young."""
    state = two_owners()
    young(state, 3, 0, 1)
    state.pods("api")[0]["metadata"]["creationTimestamp"] = minutes_ago(3)
    for pod in (state.pods()[2], state.pods("api")[1]):
        pod["metadata"]["annotations"] = {"rebalancer.dev/exclude": "true"}
    component = state.evaluate("eligibility: {minAge: 5m}\n").plan.components[0]
    assert (component.state, component.reason) == (State.VIOLATED, Reason.TOO_YOUNG)


def test_a_neighbour_that_is_bound_to_one_zone_is_no_lack_of_capacity() -> None:
    """Its pods count under the same selector, and no cluster of this shape has another place for them."""
    constraint: dict[str, Any] = {
        "topologySpreadConstraints": [over_zones({"tier": "front"}, nodeAffinityPolicy="Ignore")]
    }
    pinned = deployment("local", ("a-0",) * 4, labels={"tier": "front"}, nodeSelector={ZONE: "a"}, **constraint)
    free = deployment("web", ("a-0",), labels={"tier": "front"}, cpu="200m", **constraint)
    state = Cluster(*zones(), namespace("shop"), *pinned, *free)
    found, why = only_reason(state)
    assert found is State.INFEASIBLE
    assert why.startswith("NoArrangement")


def test_an_unready_pod_is_not_named_as_what_lacks() -> None:
    """It is where it is; the node that would have to take it is what matters."""
    state = cluster(deployment(), deployment("other", ["c-0"], topologySpreadConstraints=[]))
    unready(state.pods()[0])
    state.get("Node", "c-0")["status"]["allocatable"]["pods"] = "1"
    _, why = only_reason(state)
    assert why.endswith("1 runs as many pods as it may. Free 1 place on c-0")
