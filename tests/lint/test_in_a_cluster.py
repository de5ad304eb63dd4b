"""What manifests do in a given cluster: placement, rollouts, the loss of a zone, drains."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import LocalStorage, LocalVolume, PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import HOST, ZONE, affinity, autoscaler, budget, deployment, manifests, spread, term, text

NO_SURGE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def cpu(amount: str) -> list[dict[str, Any]]:
    return [{"name": "web", "image": "web", "resources": {"requests": {"cpu": amount}}}]


def nodes(zones: str = "abc", number: int = 1, **fields: Any) -> ClusterBuilder:
    """Return zones of so many nodes of 16 cores."""
    blueprint = ClusterBuilder()
    blueprint.zones(zones, number)
    if fields:
        blueprint.deployment("web", namespace="shop", **fields)
    return blueprint


def findings(snapshot: Snapshot, *objects: dict[str, Any], drained: Sequence[str] = ()) -> Sequence[Finding]:
    read = manifests(text(*objects) if objects else "")
    return lint(read, Ground(snapshot, read), drained, "cluster.json")


def said(found: Sequence[Finding], *rules: Rule) -> list[tuple[str, str]]:
    return [(one.severity.value, one.message) for one in found if one.rule in rules]


PLACEMENT = (Rule.NO_PLACEMENT, Rule.MISSING_DOMAINS, Rule.NOT_WITHOUT_A_ZONE)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (deployment(3), []),
        (
            deployment(4, affinity=affinity(apart=[term()])),
            [("error", "at most 3 of 4 pods find a node: of 3 nodes 3 are ruled out by its anti-affinity")],
        ),
        (
            deployment(9, topologySpreadConstraints=[spread(minDomains=5)]),
            [
                (
                    "error",
                    (
                        "at most 3 of 9 pods find a node: zone has 3 domains and minDomains is 5, so each may hold "
                        "at most maxSkew (1) pods"
                    ),
                )
            ],
        ),
        (
            deployment(3, containers=cpu("20")),
            [("error", "none of 3 pods finds a node: of 3 nodes 3 have not enough cpu")],
        ),
        (
            deployment(6, containers=cpu("7")),
            [("warning", "without zone a at most 4 of 6 pods find a node: of 2 nodes 2 have not enough cpu")],
        ),
        (
            deployment(topologySpreadConstraints=[spread("topology.kubernetes.io/zones")]),
            [
                (
                    "error",
                    (
                        "no node of the cluster has the label topology.kubernetes.io/zones: no pod finds a node; did "
                        f"you mean {ZONE}?"
                    ),
                )
            ],
        ),
        (
            deployment(topologySpreadConstraints=[spread("topology.kubernetes.io/rack", hard=False)]),
            [("warning", "no node of the cluster has the label topology.kubernetes.io/rack: the rule does nothing")],
        ),
        (
            deployment(5, kind="StatefulSet", nodeSelector={ZONE: "a"}, topologySpreadConstraints=[spread()]),
            [("warning", "without zone a none of 5 pods finds a node: of 2 nodes 2 do not match its node affinity")],
        ),
    ],
)
def test_which_pods_find_a_node(made: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """In three zones of one node, and in what is left of them without the worst one."""
    assert said(findings(nodes().snapshot(), made), *PLACEMENT) == expected


def test_what_runs_there_counts() -> None:
    """The new pods compete with it, and what the manifest replaces is gone."""
    full = nodes(on={"a-1": 1, "b-1": 1, "c-1": 1}, cpu=15_000).snapshot()
    other = deployment(3, containers=cpu("2")) | {"metadata": {"name": "api", "namespace": "shop"}}
    assert said(findings(full, other), Rule.NO_PLACEMENT) == [
        ("error", "none of 3 pods finds a node: of 3 nodes 3 have not enough cpu")
    ]
    assert said(findings(full, deployment(3, containers=cpu("15"))), Rule.NO_PLACEMENT) == []


def test_a_rollout_needs_a_domain_more_than_there_are_replicas() -> None:
    """A cluster says whether there is one: a warning where there is none, and nothing where there is."""
    wedged = deployment(strategy=NO_SURGE, affinity=affinity(apart=[term()]))
    (one,) = [one for one in findings(nodes().snapshot(), wedged) if one.rule is Rule.ROLLOUT_WEDGES]
    assert one.severity is Severity.WARNING
    assert one.message.endswith(
        f"anti-affinity over {HOST} keeps it off the 3 nodes of the others: it proceeds from 4 nodes on, and waits for "
        "ever here: 3 nodes may take its pods"
    )
    assert said(findings(nodes(number=2).snapshot(), wedged), Rule.ROLLOUT_WEDGES) == []
    blueprint = nodes(number=2)
    cordoned = blueprint.snapshot()
    changed = tuple(
        structs.replace(node, unschedulable=True) if node.name.endswith("-2") else node for node in cordoned.nodes
    )
    assert len(said(findings(replace(cordoned, nodes=changed), wedged), Rule.ROLLOUT_WEDGES)) == 1


def test_a_rollout_whose_first_pod_finds_no_room() -> None:
    """Beside all old ones; where one may be taken away first, it does."""
    full = nodes(on={"a-1": 1, "b-1": 1, "c-1": 1}, cpu=9_000).snapshot()
    larger = deployment(containers=cpu("10"), strategy=NO_SURGE)
    assert said(findings(full, larger), Rule.ROLLOUT_WEDGES) == [
        (
            "error",
            (
                "the rollout does not begin: 3 old pods stay, since none may be missing, and no node takes a new pod: "
                "of 3 nodes 3 have not enough cpu"
            ),
        )
    ]
    freeing = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    assert said(findings(full, deployment(containers=cpu("10"), strategy=freeing)), Rule.ROLLOUT_WEDGES) == []


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (2, 6, []),
        (
            2,
            7,
            [
                (
                    "warning",
                    (
                        "scaled to 7 replicas, which this autoscaler of Deployment shop/web may choose, at most 6 of "
                        "7 pods find a node: of 3 nodes 3 have not enough cpu"
                    ),
                )
            ],
        ),
        (7, 9, [("error", "at most 6 of 7 pods find a node: of 3 nodes 3 have not enough cpu")]),
    ],
)
def test_as_many_pods_as_an_autoscaler_chooses(least: int, most: int, expected: list[tuple[str, str]]) -> None:
    """In the manifests; a Deployment that leaves its number to it has the least."""
    made = deployment(None, containers=cpu("7"))
    found = findings(nodes().snapshot(), made, autoscaler(least, most))
    assert said(found, Rule.NO_PLACEMENT, Rule.NO_PLACEMENT_AT_MOST) == expected


def test_an_autoscaler_without_a_bound_gets_an_answer() -> None:
    """Of two billion pods no more are placed than any cluster holds."""
    found = findings(nodes().snapshot(), deployment(None, containers=cpu("7")), autoscaler(1, 2_000_000_000))
    ((_, message),) = said(found, Rule.NO_PLACEMENT_AT_MOST)
    assert message.startswith(
        "scaled to 10000 replicas, which this autoscaler of Deployment shop/web may choose, at most 6 of 10000 pods"
    )


DRAIN = (Rule.DRAIN_NEVER_ENDS, Rule.DRAIN_LEAVES_FEWER)


@pytest.mark.parametrize(
    ("blueprint", "budgets", "expected"),
    [
        ({"on": {"a-1": 1, "b-1": 1}}, {}, []),
        ({"on": {"a-1": 1, "b-1": 1}}, {"web": 1}, []),
        (
            {"on": {"a-1": 1, "b-1": 1}},
            {"web": 0},
            [
                (
                    "error",
                    "drain of a-1: 1 pod there: the budget shop/web keeps 2 of 2 pods, and never allows an eviction",
                )
            ],
        ),
        (
            {"on": {"a-1": 1, "b-1": 1}},
            {"web": 1, "again": 1},
            [
                (
                    "error",
                    (
                        "drain of a-1: 1 pod there: the API server refuses the eviction of pods that "
                        "two budgets select (shop/web, shop/again)"
                    ),
                )
            ],
        ),
        (
            {"on": {"a-1": 2, "b-1": 2, "c-1": 2}, "cpu": 6_000, "spread": {HOST: 1}},
            {},
            [
                (
                    "warning",
                    (
                        "drain of a-1: 2 pods there: without these nodes at most 4 of 6 pods find a "
                        "node: of 2 nodes 2 have not enough cpu"
                    ),
                )
            ],
        ),
        (
            {"on": {"a-1": 2, "b-1": 2, "c-1": 2}, "cpu": 6_000},
            {"web": 1},
            [
                (
                    "error",
                    (
                        "drain of a-1: 2 pods there: the budget shop/web keeps 5 of 6 pods healthy, "
                        "and without these nodes at most 4 of 6 pods find a node: of 2 nodes 2 have not enough cpu"
                    ),
                )
            ],
        ),
        (
            {"on": {"a-1": 1, "b-1": 1, "c-1": 1}, "spread": {HOST: 1}},
            {"web": 1},
            [
                (
                    "warning",
                    (
                        "drain of a-1: 1 pod there: without these nodes at most 2 of 3 pods find a node: maxSkew 1 "
                        "over node: b-1 1, c-1 1, the drained a-1 0 (with nodeTaintsPolicy: Honor it does not count)"
                    ),
                )
            ],
        ),
    ],
)
def test_whether_a_drain_ends(
    blueprint: dict[str, Any], budgets: dict[str, int], expected: list[tuple[str, str]]
) -> None:
    """Of the node a-1 of three."""
    made = nodes(**blueprint)
    for name, most in budgets.items():
        made.budget(name, max_unavailable=most, app="web", namespace="shop")
    assert said(findings(made.snapshot(), drained=["a-1"]), *DRAIN) == expected


def changed(snapshot: Snapshot, **fields: Any) -> Snapshot:
    """Return a snapshot whose pods have other fields."""
    return replace(snapshot, pods=tuple(structs.replace(pod, **fields) for pod in snapshot.pods))


def holding(snapshot: Snapshot, term: PodAffinityTerm) -> Snapshot:
    """Return a snapshot whose pods have a term of required affinity."""
    together = PodAffinity(required=(term,))
    pods = [structs.replace(pod, spec=structs.replace(pod.spec, pod_affinity=together)) for pod in snapshot.pods]
    return replace(snapshot, pods=tuple(pods))


OWN_TERM = PodAffinityTerm(topology_key=HOST, selector=LabelSelector.of({"app": "web"}))


def test_pods_that_must_be_together_stay_where_a_budget_keeps_one() -> None:
    """No new pod finds another node before the last one is gone, and the last ones may not go."""
    made = nodes(number=2, on={"a-1": 3})
    made.budget("web", max_unavailable=1, namespace="shop")
    snapshot = made.snapshot()
    assert said(findings(holding(snapshot, OWN_TERM), drained=["a-1"]), *DRAIN) == [
        (
            "error",
            (
                "drain of a-1: 3 pods there: the budget shop/web keeps 2 of 3 pods healthy, and required podAffinity "
                f"over {HOST} keeps new pods where these are until the last one is gone"
            ),
        )
    ]
    by_zone = holding(snapshot, structs.replace(OWN_TERM, topology_key=ZONE))
    assert said(findings(by_zone, drained=["a-1"]), *DRAIN) == []
    assert len(said(findings(by_zone, drained=["a-1", "a-2"]), *DRAIN)) == 1


@pytest.mark.parametrize(
    "term",
    [
        structs.replace(OWN_TERM, selector=LabelSelector.of({"app": "db"})),
        structs.replace(OWN_TERM, selector=None),
        structs.replace(OWN_TERM, namespaces=("other",)),
        structs.replace(OWN_TERM, namespace_selector=LabelSelector(())),
        structs.replace(OWN_TERM, topology_key="example.com/rack"),
    ],
)
def test_terms_that_do_not_hold_pods_together(term: PodAffinityTerm) -> None:
    """Others' pods decide, or nodes without the label."""
    made = nodes(number=2, on={"a-1": 3})
    made.budget("web", max_unavailable=1, namespace="shop")
    assert said(findings(holding(made.snapshot(), term), drained=["a-1"]), *DRAIN) == []


def test_pods_elsewhere_let_new_ones_go_there() -> None:
    """Own ones, and those of another workload; and a budget that counts others, too, may let all of these go."""
    made = nodes(number=2, on={"a-1": 2, "b-1": 1})
    made.budget("web", max_unavailable=1, namespace="shop")
    assert said(findings(holding(made.snapshot(), OWN_TERM), drained=["a-1"]), *DRAIN) == []
    for others in ({"app": "web"}, {"app": "api"}):
        mixed = nodes(number=2, on={"a-1": 3})
        mixed.deployment("api", namespace="shop", on={"b-1": 3})
        mixed.budget("web", max_unavailable=1, namespace="shop")
        snapshot = mixed.snapshot()
        api = [structs.replace(pod, labels=Labels(others)) for pod in snapshot.pods if pod.name.startswith("api")]
        web = [pod for pod in snapshot.pods if not pod.name.startswith("api")]
        budgets = snapshot.budgets
        if others == {"app": "api"}:
            budgets = tuple(structs.replace(one, selector=LabelSelector(()), expected=6) for one in budgets)
        shared = replace(snapshot, pods=(*web, *api), budgets=budgets)
        assert said(findings(holding(shared, OWN_TERM), drained=["a-1"]), *DRAIN) == []


def test_a_budget_of_which_others_are_not_ready() -> None:
    """A warning: it lets a pod go once another one is Ready, and at once pods that are not, if it says so."""
    made = nodes(on={"a-1": 1}, replicas=2)
    made.budget("web", max_unavailable=1, namespace="shop")
    waiting = made.snapshot()
    assert said(findings(waiting, drained=["a-1"]), *DRAIN) == [
        (
            "warning",
            (
                "drain of a-1: 1 pod there: the budget shop/web keeps 1 of 2 pods healthy, and 1 is now: it "
                "allows no eviction before another pod is Ready"
            ),
        )
    ]
    for always, expected in ((True, []), (False, ["warning"])):
        sick = nodes(on={"a-1": 1, "b-1": 1})
        sick.budget("web", max_unavailable=1, namespace="shop", always_allow=always)
        found = findings(changed(sick.snapshot(), ready=False), drained=["a-1"])
        assert [severity for severity, _ in said(found, *DRAIN)] == expected


def test_a_budget_that_spares_none_lets_unready_pods_go_if_it_says_so() -> None:
    """And a pod above the number that it expects, such as a rollout makes."""
    for always, expected in ((True, []), (False, ["error"])):
        made = nodes(on={"a-1": 1, "b-1": 1})
        made.budget("web", max_unavailable=0, namespace="shop", always_allow=always)
        found = findings(changed(made.snapshot(), ready=False), drained=["a-1"])
        assert [severity for severity, _ in said(found, *DRAIN)] == expected
    surged = nodes(on={"a-1": 1, "b-1": 1, "c-1": 1}, replicas=2)
    surged.budget("web", max_unavailable=0, namespace="shop")
    assert said(findings(surged.snapshot(), drained=["a-1"]), *DRAIN) == []


def test_a_finding_about_the_cluster_stands_at_its_file() -> None:
    """Where a manifest of the workload is given, at that."""
    made = nodes(on={"a-1": 1, "b-1": 1})
    made.budget("web", max_unavailable=0, namespace="shop")
    (one,) = findings(made.snapshot(), drained=["a-1"])
    assert (one.manifest.file, one.line, one.manifest.title) == ("cluster.json", 1, "Deployment shop/web")
    found = list(findings(made.snapshot(), deployment(2), budget(maxUnavailable=0), drained=["a-1"]))
    assert {one.manifest.file for one in found if one.rule in DRAIN} == {"web.yaml"}


def sharing(allowed: int) -> Snapshot:
    """Return a large pod and a small one on a-1, which one budget selects: another node has room for the small one."""
    made = nodes("ab", on={"a-1": 1, "b-1": 1}, cpu=10_000)
    made.deployment("api", namespace="shop", on={"a-1": 1}, cpu=1_000)
    made.budget("web", namespace="shop", max_unavailable=allowed)
    snapshot = made.snapshot()
    budgets = tuple(structs.replace(one, selector=LabelSelector(()), expected=3) for one in snapshot.budgets)
    return replace(snapshot, budgets=budgets)


def test_of_very_many_replicas_some_are_placed_and_that_is_said() -> None:
    """Two thousand millions take neither the time nor the memory of so many."""
    expected = "at most 330 of 10000 pods find a node; of 2000000000 replicas no more are placed here"
    found = findings(nodes().snapshot(), deployment(2_000_000_000))
    assert said(found, Rule.NO_PLACEMENT) == [("error", expected)]


def test_a_drain_that_ends_in_one_order() -> None:
    """The pod that finds a node elsewhere has to go first. Where the budget lets both go at once there is no order."""
    assert said(findings(sharing(1), drained=["a-1"]), Rule.DRAIN_ORDER) == [
        (
            "warning",
            (
                "drain of a-1: it ends where pods are evicted in the order shop/api (Deployment), then shop/web "
                "(Deployment); in another one the budget shop/web keeps 1 pod of it while new pods of shop/web "
                "(Deployment) wait for a node"
            ),
        )
    ]
    assert said(findings(sharing(2), drained=["a-1"]), Rule.DRAIN_ORDER) == []


def test_pods_of_a_drain_that_go_one_by_one() -> None:
    """A note; with room in the budget for all of them nothing is said."""
    for allowed, expected in ((1, 1), (2, 2), (3, None)):
        made = nodes("ab", on={"a-1": 3})
        made.budget("web", max_unavailable=allowed, namespace="shop")
        note = (
            "info",
            (
                f"drain of a-1: the budget shop/web lets {expected} of 3 pods there go at first; each further one goes "
                "once a new pod is Ready elsewhere"
            ),
        )
        found = said(findings(made.snapshot(), drained=["a-1"]), Rule.DRAIN_ORDER)
        assert found == ([note] if expected else [])


def test_old_pods_count_while_they_are_replaced() -> None:
    """A rollout ends where a zone without room has an old pod until the end; placed anew, a pod would find no node."""
    made = ClusterBuilder()
    made.node("a-1", zone="a")
    made.node("b-1", cpu=2_000, zone="b")
    made.deployment("web", namespace="shop", on={"a-1": 1, "b-1": 1}, cpu=1_000)
    larger = deployment(2, containers=cpu("3"), topologySpreadConstraints=[spread()], strategy=NO_SURGE)
    reason = "of 2 nodes 1 has not enough cpu, 1 is ruled out by a spread constraint: maxSkew 1 over zone: a 1, b 0"
    found = findings(made.snapshot(), larger)
    assert said(found, Rule.NO_PLACEMENT) == [("warning", f"placed anew, at most 1 of 2 pods find a node: {reason}")]
    assert [severity for severity, _ in said(found, Rule.ROLLOUT_WEDGES)] != ["error"]


def test_an_autoscaler_keeps_at_least_its_least_whatever_number_is_written() -> None:
    """A budget that keeps two lets one of these three go; of one pod alone it lets none go."""
    keeps_two = budget(minAvailable=2)
    for written in (1, 2, 3):
        scaled = findings(nodes().snapshot(), deployment(written), keeps_two, autoscaler(3, 9))
        assert said(scaled, Rule.BUDGET_ALLOWS_NOTHING) == []
    assert said(findings(nodes().snapshot(), deployment(1), keeps_two), Rule.BUDGET_ALLOWS_NOTHING)


def test_a_budget_is_held_against_the_fewest_pods_that_an_autoscaler_may_choose() -> None:
    """However many are written."""
    found = findings(nodes().snapshot(), deployment(5), budget(minAvailable=3), autoscaler(2, 10))
    ((severity, message),) = said(found, Rule.BUDGET_ALLOWS_NOTHING)
    assert severity == "warning"
    assert message.startswith("minAvailable: 3 of 2 replicas, which an autoscaler may choose, never allows an eviction")


def on_node(snapshot: Snapshot, node: str, **fields: Any) -> Snapshot:
    """Return a snapshot of which the pods on a node have other fields."""
    pods = (structs.replace(pod, **fields) if pod.node == node else pod for pod in snapshot.pods)
    return replace(snapshot, pods=tuple(pods))


@pytest.mark.parametrize("budgets", [1, 2])
@pytest.mark.parametrize(("phase", "severities"), [(PodPhase.PENDING, []), (PodPhase.RUNNING, ["error"])])
def test_a_pending_pod_is_evicted_whatever_budgets_say(budgets: int, phase: PodPhase, severities: list[str]) -> None:
    """Also where two select it, or one keeps all; a pod that runs is not."""
    made = nodes(on={"a-1": 1, "b-1": 1, "c-1": 1})
    for number in range(budgets):
        made.budget(f"web-{number}", max_unavailable=0, app="web", namespace="shop")
    waiting = on_node(made.snapshot(), "a-1", ready=False, phase=phase)
    assert [severity for severity, _ in said(findings(waiting, drained=["a-1"]), *DRAIN)] == severities


def test_a_pending_pod_keeps_no_order_from_its_end() -> None:
    """Where the new pod of another workload finds no node, no budget keeps the pending one for it."""
    made = nodes(on={"a-1": 1, "b-1": 1, "c-1": 1}, cpu=1_000)
    made.deployment("db", namespace="shop", on={"a-1": 1}, cpu=15_500)
    for name in ("first", "second"):
        made.budget(name, max_unavailable=1, app="web", namespace="shop")
    snapshot = made.snapshot()
    waiting = [structs.replace(pod, ready=False, phase=PodPhase.PENDING) for pod in snapshot.pods if "web" in pod.name]
    others = [pod for pod in snapshot.pods if "web" not in pod.name]
    found = findings(replace(snapshot, pods=(*waiting, *others)), drained=["a-1"])
    assert said(found, Rule.DRAIN_ORDER) == []
    assert [one.rule for one in found] == [Rule.DRAIN_LEAVES_FEWER]


def test_an_unready_pod_goes_where_as_many_others_are_ready_as_its_budget_wants() -> None:
    """At once, or, which is a warning, as soon as they are Ready; beside a pod that is Ready the budget keeps that."""
    made = nodes(on={"a-1": 1, "b-1": 1, "c-1": 1}, replicas=2)
    made.budget("web", max_unavailable=0, namespace="shop")
    surged = on_node(made.snapshot(), "a-1", ready=False)
    assert said(findings(surged, drained=["a-1"]), *DRAIN) == []
    later = on_node(surged, "b-1", ready=False)
    assert [severity for severity, _ in said(findings(later, drained=["a-1"]), *DRAIN)] == ["warning"]
    assert [severity for severity, _ in said(findings(surged, drained=["a-1", "b-1"]), *DRAIN)] == ["error"]


def test_a_drain_deletes_the_data_of_empty_dirs() -> None:
    """A note, of the pods on the drained node alone, and of no other volume."""
    volumes = (LocalVolume("cache", LocalStorage.EMPTY_DIR), LocalVolume("logs", LocalStorage.HOST_PATH))
    there = on_node(nodes(on={"a-1": 2, "b-1": 1}).snapshot(), "a-1", local_volumes=volumes)
    expected = (
        "drain of a-1: 2 pods there have emptyDir volumes (cache): kubectl drain refuses without "
        "--delete-emptydir-data, and with it their data is deleted"
    )
    assert said(findings(there, drained=["a-1"]), Rule.DRAIN_DELETES_DATA) == [("info", expected)]
    assert said(findings(there, drained=["b-1"]), Rule.DRAIN_DELETES_DATA) == []
    other = on_node(there, "a-1", local_volumes=volumes[1:])
    assert said(findings(other, drained=["a-1"]), Rule.DRAIN_DELETES_DATA) == []


@pytest.mark.parametrize("kind", ["Pod", "DaemonSet", "CloneSet"])
def test_kinds_that_are_not_placed_keep_the_rules_without_a_cluster(kind: str) -> None:
    """What these find does not get lost where a cluster is given."""
    old = "failure-domain.beta.kubernetes.io/zone"
    version = {"Pod": "v1", "DaemonSet": "apps/v1"}.get(kind, "apps.kruise.io/v1alpha1")
    made = deployment(topologySpreadConstraints=[spread(old)]) | {"apiVersion": version, "kind": kind}
    if kind == "Pod":
        made |= {"spec": made["spec"]["template"]["spec"]}
    assert said(findings(nodes().snapshot(), made), Rule.MISSPELT_KEY)
