"""What each rule finds in a manifest alone, at which line, and that its change helps."""

from collections.abc import Mapping
from typing import Any

import pytest

from rebalancer.lint.finding import Finding, Rule, Severity
from tests.lint.build import HOST, OWN, ZONE, affinity, budget, deployment, findings, found, patched, spread, term

NO_SURGE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
OTHERS = {"matchLabels": {"app": "db"}}
WRONG: list[tuple[Rule, Severity, Mapping[str, Any], str]] = [
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(strategy={"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}),
        "maxSurge and maxUnavailable are both 0, so no pod can be replaced: the API server refuses it",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(strategy={"rollingUpdate": {"maxUnavailable": "150%"}}),
        "maxUnavailable: 150% is neither a number from 0 on nor a percentage of up to 100%: the API server refuses it",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(strategy={"rollingUpdate": {"maxSurge": "two"}}),
        "maxSurge: two is neither a number from 0 on nor a percentage: the API server refuses it",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        "rollingUpdate and type: Recreate exclude each other: the API server refuses it",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(strategy={"rollingUpdate": "x"}),
        "rollingUpdate: x is not an object: the API server refuses it",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(strategy="RollingUpdate"),
        "strategy: RollingUpdate is not an object: the API server refuses it",
    ),
    (Rule.REFUSED_VALUE, Severity.ERROR, deployment(-1), "replicas: -1 is less than 0: the API server refuses it"),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        budget(minAvailable="half"),
        "minAvailable: half is neither a number from 0 on nor a percentage of up to 100%: the API server refuses it",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        budget(minAvailable=1, maxUnavailable=1),
        "minAvailable and maxUnavailable exclude each other: the API server refuses it",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(topologySpreadConstraints=[spread(matchLabelKeys=["app", "pod-template-hash"])]),
        "app is in both matchLabelKeys and labelSelector: the API server refuses its pods",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(
            topologySpreadConstraints=[
                spread(
                    labelSelector={**OWN, "matchExpressions": [{"key": "pod-template-hash", "operator": "Exists"}]},
                    matchLabelKeys=["pod-template-hash"],
                )
            ]
        ),
        "pod-template-hash is in both matchLabelKeys and labelSelector: the API server refuses its pods",
    ),
    (
        Rule.REFUSED_VALUE,
        Severity.ERROR,
        deployment(1, affinity=affinity(apart=[term(matchLabelKeys=["app"])])),
        "app is in both matchLabelKeys and labelSelector: the API server refuses its pods",
    ),
    (
        Rule.SELECTOR_MISSES_TEMPLATE,
        Severity.ERROR,
        deployment(labels={"app": "wep"}),
        "its selector does not match its template's labels (app=wep): the API server refuses it",
    ),
    (
        Rule.SPREAD_MISSES_PODS,
        Severity.WARNING,
        deployment(topologySpreadConstraints=[spread(labelSelector=OTHERS)]),
        (
            f"the spread constraint over {ZONE} does not select the pods that carry it (app=web): it spreads nothing, "
            "and other pods decide where these may go"
        ),
    ),
    (
        Rule.SPREAD_MISSES_PODS,
        Severity.WARNING,
        deployment(topologySpreadConstraints=[spread(hard=False, labelSelector=None)]),
        f"the spread constraint over {ZONE} has no labelSelector, so it counts no pods: it spreads nothing",
    ),
    (
        Rule.MISSPELT_KEY,
        Severity.WARNING,
        deployment(topologySpreadConstraints=[spread("topology.kubernetes.io/zones")]),
        (
            f"topologyKey topology.kubernetes.io/zones is no well-known key; {ZONE} is: a hard constraint over a key "
            "that no node has admits no node, a soft one does nothing"
        ),
    ),
    (
        Rule.MISSPELT_KEY,
        Severity.WARNING,
        deployment(affinity=affinity(apart=[term("failure-domain.beta.kubernetes.io/zone")])),
        (
            f"topologyKey failure-domain.beta.kubernetes.io/zone is outdated: new nodes have {ZONE}: a rule over a key "
            "that no node has does nothing"
        ),
    ),
    (
        Rule.DUPLICATE_CONSTRAINT,
        Severity.ERROR,
        deployment(topologySpreadConstraints=[spread(), spread(max_skew=2)]),
        (
            f"a second constraint with topologyKey {ZONE} and whenUnsatisfiable DoNotSchedule, after that of line 20: "
            "the API server refuses it"
        ),
    ),
    (
        Rule.MIN_DOMAINS_WITHOUT_HARD,
        Severity.ERROR,
        deployment(topologySpreadConstraints=[spread(hard=False, minDomains=3)]),
        "minDomains: 3 needs whenUnsatisfiable: DoNotSchedule: the API server refuses it",
    ),
    (
        Rule.CONTRADICTORY_CONSTRAINTS,
        Severity.ERROR,
        deployment(nodeSelector={ZONE: "a"}, topologySpreadConstraints=[spread(minDomains=2)]),
        (
            f"minDomains asks for 2 domains of {ZONE}, and the pods' node selector admits 1, each with at most maxSkew "
            "(1) pods: 1 of 3 pods finds a node"
        ),
    ),
    (
        Rule.CONTRADICTORY_CONSTRAINTS,
        Severity.ERROR,
        deployment(affinity=affinity(together=[term(ZONE)], apart=[term(ZONE)])),
        (
            f"required podAffinity keeps the pods in one domain of {ZONE}, and required podAntiAffinity (line 28) "
            "keeps them apart there: 1 of 3 pods finds a node"
        ),
    ),
    (
        Rule.CONTRADICTORY_CONSTRAINTS,
        Severity.WARNING,
        deployment(affinity=affinity(together=[term(ZONE)]), topologySpreadConstraints=[spread()]),
        (
            f"required podAffinity keeps the pods in one domain of {ZONE}, and a hard constraint (line 29) allows 1 "
            "more there than in another domain: with two of these 1 of 3 pods finds a node"
        ),
    ),
    (
        Rule.ROLLOUT_WEDGES,
        Severity.WARNING,
        deployment(strategy=NO_SURGE, affinity=affinity(apart=[term()])),
        (
            "a rolling update of 3 replicas begins with one pod more, since maxUnavailable is 0, and required "
            f"anti-affinity over {HOST} keeps it off the 3 nodes of the others: it proceeds from 4 nodes on, and waits "
            "for ever on fewer"
        ),
    ),
    (
        Rule.ROLLOUT_WEDGES,
        Severity.WARNING,
        deployment(affinity=affinity(apart=[term()])),
        (
            "a rolling update of 3 replicas begins with one pod more, since maxUnavailable 25% of 3 replicas is none, "
            f"and required anti-affinity over {HOST} keeps it off the 3 nodes of the others: it proceeds from 4 nodes "
            "on, and waits for ever on fewer"
        ),
    ),
    (
        Rule.MISSING_MATCH_LABEL_KEYS,
        Severity.INFO,
        deployment(6, topologySpreadConstraints=[spread()]),
        (
            f"while a rolling update goes on, the constraint over {ZONE} counts old pods and new ones together: over "
            "three domains it can end with a skew of 3, where maxSkew is 1"
        ),
    ),
    (
        Rule.ANTI_AFFINITY_DOMAINS,
        Severity.INFO,
        deployment(5, affinity=affinity(apart=[term(ZONE)])),
        f"required anti-affinity over {ZONE} allows one pod in each domain: 5 replicas need 5 of them",
    ),
]


@pytest.mark.parametrize(("rule", "severity", "manifest", "message"), WRONG)
def test_a_mistake_is_found_with_its_numbers(
    rule: Rule, severity: Severity, manifest: Mapping[str, Any], message: str
) -> None:
    """One finding of its rule; its change, where there is one, removes it and brings none that is worse than a note."""
    (one,) = found(rule, manifest)
    assert (one.severity, one.message) == (severity, message)
    if one.patch:
        after = findings(patched(manifest, one))
        assert rule not in {other.rule for other in after}
        brought = {other.rule for other in after if other.severity is not Severity.INFO}
        assert brought <= {other.rule for other in findings(manifest)}


RIGHT: list[tuple[Rule, Mapping[str, Any]]] = [
    (Rule.REFUSED_VALUE, deployment(strategy={"rollingUpdate": {"maxSurge": "150%", "maxUnavailable": 0}})),
    (Rule.REFUSED_VALUE, deployment(strategy={"rollingUpdate": {"maxSurge": 0}})),
    (Rule.REFUSED_VALUE, deployment(0, strategy={"type": "Recreate"})),
    (Rule.REFUSED_VALUE, budget(maxUnavailable="100%")),
    (
        Rule.REFUSED_VALUE,
        deployment(
            labels={"app": "web", "version": "7"},
            topologySpreadConstraints=[spread(matchLabelKeys=["version", "pod-template-hash"])],
        ),
    ),
    (
        Rule.REFUSED_VALUE,
        deployment(
            topologySpreadConstraints=[
                spread(labelSelector={"matchLabels": {"app": "web", "color": "red"}}, matchLabelKeys=["color"])
            ]
        ),
    ),
    (Rule.SPREAD_MISSES_PODS, deployment(topologySpreadConstraints=[spread()])),
    (Rule.MISSPELT_KEY, deployment(topologySpreadConstraints=[spread("topology.kubernetes.io/rack")])),
    (Rule.MISSPELT_KEY, deployment(topologySpreadConstraints=[spread("topology.ebs.csi.aws.com/zone")])),
    (Rule.MISSPELT_KEY, deployment(topologySpreadConstraints=[spread("example.com/zone")])),
    (Rule.DUPLICATE_CONSTRAINT, deployment(topologySpreadConstraints=[spread(), spread(hard=False)])),
    (Rule.CONTRADICTORY_CONSTRAINTS, deployment(nodeSelector={ZONE: "a"}, topologySpreadConstraints=[spread()])),
    (
        Rule.CONTRADICTORY_CONSTRAINTS,
        deployment(1, affinity=affinity(together=[term(ZONE)], apart=[term(ZONE)])),
    ),
    (
        Rule.CONTRADICTORY_CONSTRAINTS,
        deployment(affinity=affinity(together=[term(ZONE)]), topologySpreadConstraints=[spread(max_skew=3)]),
    ),
    (Rule.CONTRADICTORY_CONSTRAINTS, deployment(affinity=affinity(together=[term(ZONE)], apart=[term(HOST)]))),
    (Rule.ROLLOUT_WEDGES, deployment(4, affinity=affinity(apart=[term()]))),
    (Rule.ROLLOUT_WEDGES, deployment(strategy={"type": "Recreate"}, affinity=affinity(apart=[term()]))),
    (Rule.ROLLOUT_WEDGES, deployment(affinity=affinity(apart=[term(matchLabelKeys=["pod-template-hash"])]))),
    (Rule.ROLLOUT_WEDGES, deployment(affinity=affinity(apart=[term(labelSelector=OTHERS)]))),
    (Rule.ROLLOUT_WEDGES, deployment(affinity=affinity(apart=[term(namespaces=["other"])]))),
    (Rule.ROLLOUT_WEDGES, deployment(0, affinity=affinity(apart=[term()]))),
    (Rule.ROLLOUT_WEDGES, deployment(kind="StatefulSet", affinity=affinity(apart=[term()]))),
    (
        Rule.MISSING_MATCH_LABEL_KEYS,
        deployment(6, topologySpreadConstraints=[spread(matchLabelKeys=["pod-template-hash"])]),
    ),
    (Rule.MISSING_MATCH_LABEL_KEYS, deployment(6, topologySpreadConstraints=[spread(hard=False)])),
    (Rule.ANTI_AFFINITY_DOMAINS, deployment(5, affinity=affinity(apart=[term()]))),
    (Rule.ANTI_AFFINITY_DOMAINS, deployment(1, affinity=affinity(apart=[term(ZONE)]))),
]


@pytest.mark.parametrize(("rule", "manifest"), RIGHT)
def test_what_is_right_is_not_found(rule: Rule, manifest: Mapping[str, Any]) -> None:
    """Near misses of the same rules."""
    assert found(rule, manifest) == []


PART = {"app": "web", "part-of": "shop"}
OF_SHOP = {"matchLabels": {"part-of": "shop"}}
OF_EACH_POD: Mapping[str, Any] = {"matchLabelKeys": ["statefulset.kubernetes.io/pod-name"]}


@pytest.mark.parametrize(
    ("severity", "manifest"),
    [
        ("warning", deployment(labels=PART, affinity=affinity([term(ZONE, labelSelector=OF_SHOP)], [term(ZONE)]))),
        ("error", deployment(labels=PART, affinity=affinity([term(ZONE)], [term(ZONE, labelSelector=OF_SHOP)]))),
        (
            "warning",
            deployment(affinity=affinity([term(ZONE, namespaces=["shop", "db"])], [term(ZONE)])),
        ),
        (
            "error",
            deployment(affinity=affinity([term(ZONE)]), topologySpreadConstraints=[spread(minDomains=2)]),
        ),
        (
            "warning",
            deployment(
                labels=PART,
                affinity=affinity([term(ZONE)]),
                topologySpreadConstraints=[spread(minDomains=2, labelSelector=OF_SHOP)],
            ),
        ),
        (
            "",
            deployment(
                affinity=affinity([term(ZONE)]),
                topologySpreadConstraints=[spread(minDomains=2, labelSelector=OTHERS)],
            ),
        ),
        (
            "warning",
            deployment(nodeSelector={ZONE: "a"}, topologySpreadConstraints=[spread(minDomains=3, labelSelector={})]),
        ),
        (
            "error",
            deployment(
                nodeSelector={ZONE: "a"},
                topologySpreadConstraints=[spread(minDomains=3, labelSelector={}, matchLabelKeys=["app"])],
            ),
        ),
        (
            "",
            deployment(
                kind="StatefulSet",
                nodeSelector={ZONE: "a"},
                topologySpreadConstraints=[spread(minDomains=3, **OF_EACH_POD)],
            ),
        ),
        ("", deployment(kind="StatefulSet", affinity=affinity([term(ZONE, **OF_EACH_POD)], [term(ZONE)]))),
        ("", deployment(kind="StatefulSet", affinity=affinity([term(ZONE)], [term(ZONE, **OF_EACH_POD)]))),
        ("error", deployment(affinity=affinity([term(ZONE)], [term(ZONE, **OF_EACH_POD)]))),
    ],
)
def test_a_contradiction_is_an_error_where_rules_count_the_own_pods_alone(
    severity: str, manifest: Mapping[str, Any]
) -> None:
    """A warning where pods of others may count, nothing where the own ones do not, or each counts itself alone."""
    assert [one.severity for one in found(Rule.CONTRADICTORY_CONSTRAINTS, manifest)] == [severity] * bool(severity)


@pytest.mark.parametrize(
    ("parallelism", "completions", "said"),
    [(3, 1, None), (3, 2, "1 of 2 pods"), (2, 5, "1 of 2 pods"), (3, None, "1 of 3 pods")],
)
def test_of_a_job_as_many_pods_run_at_once_as_are_left(
    parallelism: int, completions: int | None, said: str | None
) -> None:
    """That not all of them find a node is no error: the others follow once these have ended."""
    made = deployment(kind="Job", nodeSelector={ZONE: "a"}, affinity=affinity(apart=[term(ZONE)]))
    spec = {"parallelism": parallelism, "completions": completions, "template": made["spec"]["template"]}
    said_of = found(Rule.CONTRADICTORY_CONSTRAINTS, made | {"apiVersion": "batch/v1", "spec": spec})
    assert [(one.severity, one.message.rpartition(": ")[2]) for one in said_of] == (
        [(Severity.WARNING, f"{said} finds a node, and the others once these have ended")] if said else []
    )


def test_a_template_gets_labels_only_where_the_selector_matches_then() -> None:
    """Which value an expression wants is for people to say."""
    other = [{"key": "tier", "operator": "In", "values": ["a"]}]
    for chosen, patches in ((OWN, 1), ({**OWN, "matchExpressions": other}, 0)):
        (one,) = found(Rule.SELECTOR_MISSES_TEMPLATE, deployment(selector=chosen, labels={"x": "y"}))
        assert len(one.patch) == patches


@pytest.mark.parametrize(
    ("replicas", "spec", "field", "message"),
    [
        (3, {"minAvailable": 3}, "minAvailable", "minAvailable: 3 of 3 replicas"),
        (3, {"minAvailable": "100%"}, "minAvailable", "minAvailable: 100% of 3 replicas"),
        (3, {"minAvailable": "67%"}, "minAvailable", "minAvailable: 67% of 3 replicas"),
        (1, {"minAvailable": 1}, "minAvailable", "minAvailable: 1 of 1 replica"),
        (3, {"maxUnavailable": 0}, "maxUnavailable", "maxUnavailable: 0 of 3 replicas"),
        (3, {"maxUnavailable": "0%"}, "maxUnavailable", "maxUnavailable: 0% of 3 replicas"),
    ],
)
def test_a_budget_that_allows_nothing(replicas: int, spec: dict[str, Any], field: str, message: str) -> None:
    """A share of pods rounds up; after the change one pod may be evicted."""
    made = budget(**spec)
    (one,) = found(Rule.BUDGET_ALLOWS_NOTHING, deployment(replicas), made)
    ends = "never allows an eviction: no drain of a node with one of them ends, and nothing is repaired"
    assert one.message == f"{message} {ends}"
    assert one.path == ("spec", field)
    assert found(Rule.BUDGET_ALLOWS_NOTHING, deployment(replicas), patched(made, one)) == []


@pytest.mark.parametrize(
    ("replicas", "spec"),
    [
        (3, {"minAvailable": 2}),
        (3, {"minAvailable": "66%"}),
        (3, {"maxUnavailable": "1%"}),
        (0, {"minAvailable": 1}),
        (3, {}),
    ],
)
def test_a_budget_that_allows_an_eviction(replicas: int, spec: dict[str, Any]) -> None:
    """A share of missing pods rounds up, too; where no pod is wanted nothing is to be evicted."""
    assert found(Rule.BUDGET_ALLOWS_NOTHING, deployment(replicas), budget(**spec)) == []


def test_a_budget_alone_is_judged_by_what_it_says() -> None:
    """Its pods may be in another file: 0 and 100% allow nothing of any number."""
    assert len(found(Rule.BUDGET_ALLOWS_NOTHING, budget(maxUnavailable=0))) == 1
    assert len(found(Rule.BUDGET_ALLOWS_NOTHING, budget(minAvailable="100%"))) == 1
    assert found(Rule.BUDGET_ALLOWS_NOTHING, budget(minAvailable=3)) == []


def test_of_a_budget_that_is_refused_nothing_else_is_said() -> None:
    """It protects nothing: neither what it allows nor whether it overlaps matters, nor a negative number of pods."""
    for spec in ({"minAvailable": "150%"}, {"minAvailable": "all"}, {"minAvailable": 3, "maxUnavailable": 0}):
        said = findings(deployment(), budget(maxUnavailable=1), budget("again", **spec))
        assert [one.rule for one in said] == [Rule.REFUSED_VALUE]
    assert found(Rule.BUDGET_ALLOWS_NOTHING, deployment(-1), budget(maxUnavailable=1)) == []


def test_two_budgets_for_the_same_pods() -> None:
    """The second one says so, and names the first."""
    (one,) = found(Rule.BUDGETS_OVERLAP, deployment(), budget(maxUnavailable=1), budget("again", maxUnavailable=1))
    assert one.manifest.name == "again"
    assert one.message == (
        "it selects the pods of Deployment shop/web, as PodDisruptionBudget shop/web (web.yaml) does: the API server "
        "refuses every eviction of pods with two budgets, so no drain of a node with one of them ends"
    )
    elsewhere = budget(maxUnavailable=1) | {"metadata": {"name": "web", "namespace": "other"}}
    assert found(Rule.BUDGETS_OVERLAP, deployment(), budget(maxUnavailable=1), elsewhere) == []


def test_a_selector_of_expressions_has_no_change_that_labels_make() -> None:
    """Which label it wants is for people to say."""
    chosen = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    (one,) = found(Rule.SELECTOR_MISSES_TEMPLATE, deployment(selector=chosen, labels={"name": "web"}))
    assert one.patch == ()


def test_the_spread_constraint_gets_the_workloads_own_selector() -> None:
    """Not the labels of the template, which may be of one version only."""
    labels = {"app": "web", "version": "7"}
    (one,) = found(
        Rule.SPREAD_MISSES_PODS,
        deployment(labels=labels, topologySpreadConstraints=[spread(labelSelector=OTHERS)]),
    )
    assert [operation.value for operation in one.patch] == [OWN]


def test_no_patch_puts_a_key_into_both_the_selector_and_match_label_keys() -> None:
    """Where the selector that a constraint lacks names one of its matchLabelKeys, that goes."""
    made = deployment(
        topologySpreadConstraints=[spread(labelSelector=OTHERS, matchLabelKeys=["app", "pod-template-hash"])]
    )
    (one,) = found(Rule.SPREAD_MISSES_PODS, made)
    (constraint,) = patched(made, one)["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (constraint["labelSelector"], constraint["matchLabelKeys"]) == (OWN, ["pod-template-hash"])
    assert found(Rule.REFUSED_VALUE, patched(made, one)) == []


def test_a_selector_that_names_the_revision_gets_no_match_label_keys() -> None:
    """The API server would refuse the pods for the pair; where it selects no new pod, nothing is said at all."""

    def skewed(operator: str) -> list[Finding]:
        only = {**OWN, "matchExpressions": [{"key": "pod-template-hash", "operator": operator}]}
        made = deployment(6, topologySpreadConstraints=[spread(labelSelector=only)])
        return found(Rule.MISSING_MATCH_LABEL_KEYS, made)

    assert [one.patch for one in skewed("Exists")] == [()]
    assert skewed("DoesNotExist") == []


@pytest.mark.parametrize(
    ("ports", "spec"),
    [
        ({"hostPort": 80}, {}),
        ({"hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}, {}),
        ({}, {"hostNetwork": True}),
    ],
)
def test_two_pods_with_a_host_port_are_not_on_one_node(ports: dict[str, Any], spec: dict[str, Any]) -> None:
    """Nor are an old one and a new one: the update needs a node more, unless a pod may be missing."""
    container = {"name": "web", "image": "web", "ports": [{"containerPort": 80, **ports}]}
    made = deployment(containers=[container], **spec)
    (one,) = found(Rule.ROLLOUT_WEDGES, made)
    assert one.severity.value == "warning"
    assert one.message.endswith(
        f"and hostPort 80 ({ports.get('protocol', 'TCP')}) keeps it off the 3 nodes of the others: it proceeds from 4 "
        "nodes on, and waits for ever on fewer"
    )
    assert found(Rule.ROLLOUT_WEDGES, patched(made, one)) == []
    assert found(Rule.ROLLOUT_WEDGES, deployment(containers=[{**container, "ports": [{"containerPort": 80}]}])) == []
