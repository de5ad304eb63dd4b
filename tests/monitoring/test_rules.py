"""The alert rules: checked by Prometheus' own tool and by a linter, tried, and each explained in a runbook."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.cli.parsing import Parser
from rebalancer.cli.registry import VERBS
from rebalancer.controller.telemetry import METRICS
from tests.control_plane.build import PINT, MissingPart, found
from tests.drawing import sampled
from tests.monitoring.programs import or_skip, promtool, run
from tests.test_documents import known
from tools.monitoring import MONITORING, ROOT, RULES, RUNBOOKS
from tools.reference import COMMAND, wanted

__all__ = ["promtool"]  # a fixture
TESTS = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
SHORTEST_FIRST = sorted(TESTS, key=lambda path: path.stat().st_size)
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
RULE_LIST = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
ALERTS = sorted({rule["alert"] for rule in RULE_LIST})
NOT_YET_EXPORTED: frozenset[str] = frozenset()
"""Promised names that rules read and that no release shows yet."""

COMMAND_LINE = r"(?:`| {4})rebalancer ([a-z]+)([^`\n|&]*)"

Case = Mapping[str, Any]


def test_promtool_accepts_the_rules(promtool: Path) -> None:
    assert f"{sum(len(group['rules']) for group in GROUPS)} rules found" in run(promtool, "check", "rules", RULES)


def test_pint_finds_nothing_to_say() -> None:
    """Not even a remark: on joins that drop labels, comparisons that always hold, templates without what they use."""
    try:
        pint = found(PINT)
    except MissingPart as missing:
        or_skip(missing)
    run(pint, "--offline", "--no-color", "lint", "--min-severity=info", "--fail-on=info", RULES)


@pytest.mark.parametrize("alert", ALERTS)
def test_alerts_fire_when_they_should(promtool: Path, tmp_path: Path, alert: str) -> None:
    """Firing, not yet, silent and at the bounds, with labels and the whole text."""
    assert tried(promtool, tmp_path, trials_of(alert), needed_by(alert)) == 0


@pytest.mark.parametrize("file", sampled(SHORTEST_FIRST), ids=lambda path: path.stem)
def test_each_file_is_one_for_promtool(promtool: Path, file: Path) -> None:
    """As people run it: with all rules, which takes seconds."""
    assert "SUCCESS" in run(promtool, "test", "rules", file)


@cache
def cases() -> list[tuple[str, Case]]:
    """Return the alert that each test is about, and the test."""
    tests = [case for file in TESTS for case in yaml.safe_load(file.read_text())["tests"]]
    return [(case["name"].partition(":")[0], case) for case in tests]


def trials_of(alert: str) -> list[Case]:
    return [case for name, case in cases() if name == alert]


def needed_by(alert: str) -> list[Case]:
    """Return the rules that an alert's tests need: those of its name, and the recorded ones of their groups."""
    return [
        rule
        for group in GROUPS
        if any(rule.get("alert") == alert for rule in group["rules"])
        for rule in group["rules"]
        if rule.get("alert", alert) == alert
    ]


def expectations(alert: str) -> Iterator[list[tuple[float, list[Any]]]]:
    """Yield for each test of an alert what is expected when, in minutes."""
    for case in trials_of(alert):
        checks = [check for check in case.get("alert_rule_test", ()) if check["alertname"] == alert]
        yield [(float(check["eval_time"].removesuffix("m")), check.get("exp_alerts", [])) for check in checks]


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_tried_from_all_sides(alert: str) -> None:
    """There is a test in which it comes to fire after it did not, one in which it never does, and one at its bounds."""
    expected = list(expectations(alert))
    assert any(not before and after for case in expected for (_, before), (_, after) in pairwise(case)), (
        "firing after not yet"
    )
    assert any(case and not any(alerts for _, alerts in case) for case in expected), "silent"
    names = [case["name"] for case in trials_of(alert)]
    for word in ("not yet", "firing", "silent", "boundary"):
        assert any(word in name for name in names), word


def test_every_test_is_about_an_alert() -> None:
    """A name that is misspelt would test nothing."""
    assert {name for name, _ in cases()} == set(ALERTS)
    for name, case in cases():
        assert {check["alertname"] for check in case.get("alert_rule_test", ())} <= {name}


@pytest.mark.parametrize(
    "index", sampled(range(len(RULE_LIST))), ids=lambda index: f"{RULE_LIST[index]['alert']}-{index}"
)
def test_tests_notice_every_rule(promtool: Path, tmp_path: Path, index: int) -> None:
    """Where an alert comes a minute later, or never if it came at once, some test of it fails."""
    rule = RULE_LIST[index]
    late = {"for": f"{minutes(rule['for']) + 1}m"} if "for" in rule else {"expr": f"({rule['expr']}) < -1"}
    delayed = [{**other, **late} if other is rule else other for other in needed_by(rule["alert"])]
    assert tried(promtool, tmp_path, trials_of(rule["alert"]), delayed) == 1


def tried(promtool: Path, folder: Path, tests: list[Case], rules: list[Case]) -> int:
    """Run unit tests with these rules; return promtool's exit code."""
    assert tests
    assert rules
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "these", "rules": rules}]}))
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    command = [str(promtool), "test", "rules", str(folder / "tests.yaml")]
    return subprocess.run(command, capture_output=True, check=False, timeout=120).returncode


LIMIT = 'group="redis",limit="R2",namespace="cache",key="sessions",topology_key="zone"'
CONSTRAINT = (
    'namespace="shop",workload_kind="Deployment",workload="web",topology_key="zone",when_unsatisfiable="DoNotSchedule"'
)
REPORTED_BY_THE_LEADER = {
    "TopologyShareLimitViolated": [f'rebalancer_limit_state{{{LIMIT},severity="warning",state="Violated"}}'],
    "TopologyShareLimitViolated quorum": [f"rebalancer_limit_share_ratio{{{LIMIT.replace('R2', 'quorum')}}}"],
    "TopologyShareLimitInfeasible": [f'rebalancer_limit_state{{{LIMIT},severity="warning",state="Infeasible"}}'],
    "TopologyAntiAffinityUnresolved": [
        'rebalancer_anti_affinity_violations{namespace="shop",workload_kind="Deployment",workload="web",topology_key="zone"}'
    ],
    "TopologySkewUnresolved": [
        f"rebalancer_constraint_skew{{{CONSTRAINT}}}",
        f'rebalancer_constraint_state{{{CONSTRAINT},state="Violated"}}',
    ],
    "TopologyPlacementDeadlock": ['rebalancer_refusals{reason="PlacementDeadlock"}'],
    "TopologyReplacementBlocked": ['rebalancer_replacement_blocked{namespace="shop"}'],
    "TopologyDomainWithoutNodes": ['rebalancer_domain_without_nodes{namespace="shop",domain="c"}'],
    "TopologyScaleDownUnsafe": ['rebalancer_scale_down_unsafe{namespace="shop"}'],
    "TopologyResilienceLost": [
        f'rebalancer_resilience_{name}{{namespace="shop",phase="gone"}}' for name in ("holds", "guaranteed", "wanted")
    ],
    "TopologyRebalanceBlocked": ['rebalancer_refusals{reason="StepExceedsBudget"}', 'rebalancer_mode{mode="Evict"}'],
    "TopologyRebalanceBlocked one": ['rebalancer_refusals{reason="BlockedByBudget"}', 'rebalancer_mode{mode="Evict"}'],
    "RebalancerPlanAwaitingApproval": ["rebalancer_plan_pending{}"],
    "RebalancerPausedTooLong": ["rebalancer_paused{}"],
    "RebalancerMemoryNotSaved": ["rebalancer_memory_saved{}"],
    "RebalancerPolicyInvalid": ['rebalancer_team_policy_valid{namespace="shop"}'],
    "RebalancerBreakerOpen": ['rebalancer_breaker_open{cause="pending_pods"}'],
    "RebalancerGuardNotGood": ['rebalancer_guard_good{guard="errors"}'],
    "RebalancerRightMissing": ["rebalancer_rights_missing{}"],
}
"""For each alert on what only the leader tells, the series that make it fire while they are 1."""

FIRES_AT_0 = {
    "RebalancerGuardNotGood",
    "RebalancerMemoryNotSaved",
    "RebalancerPolicyInvalid",
    "TopologyResilienceLost",
}
"""Alerts that fire while their series are 0 instead."""

ENDS_WHAT_HELD = {"TopologyResilienceLost"}
"""Those of them that need a time before that was good."""


def test_no_alert_about_the_cluster_is_left_out() -> None:
    """The next test covers every alert on what the leader exports that has a `for`."""
    lasting = {rule["alert"] for rule in RULE_LIST if "for" in rule and "last_over_time" in rule["expr"]}
    assert {name.partition(" ")[0] for name in REPORTED_BY_THE_LEADER} == lasting - {"RebalancerCycleStale"}


@pytest.mark.parametrize("case", REPORTED_BY_THE_LEADER)
def test_a_change_of_leader_changes_nothing(promtool: Path, tmp_path: Path, case: str) -> None:
    """Three minutes without a leader do not delay an alert, nor do some better minutes resolve one that is kept."""
    alert = case.partition(" ")[0]
    rules = [rule for rule in RULE_LIST if rule["alert"] == alert]
    (rule,) = (
        rules if len(rules) == 1 else [other for other in rules if ("quorum" in other["expr"]) == ("quorum" in case)]
    )
    lasts = minutes(rule["for"])
    bad, good = (0, 1) if alert in FIRES_AT_0 else (1, 0)
    began = int(alert in ENDS_WHAT_HELD)
    first = f"{f'{good} ' * began}{bad}x{lasts // 2 - began} stale"
    second = f"_x{lasts // 2 + 4} {bad}x{lasts} {f'{good}x3 ' if 'keep_firing_for' in rule else ''}{bad}x60"
    series = [
        {"series": f'{name.removesuffix("}")}{"" if name.endswith("{}") else ","}pod="{pod}"}}', "values": values}
        for name in REPORTED_BY_THE_LEADER[case]
        for pod, values in (("rebalancer-a", first), ("rebalancer-b", second))
    ]
    firing = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    tests = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {"expr": f"count({firing})", "eval_time": f"{lasts - 1}m"},
            {
                "expr": f"sum(count_over_time({firing}[50m]))",
                "eval_time": f"{lasts + 49}m",
                "exp_samples": [{"labels": "{}", "value": 50 - began}],
            },
        ],
    }
    assert tried(promtool, tmp_path, [tests], [rule]) == 0


def minutes(duration: str) -> int:
    return int(duration[:-1]) * {"m": 1, "h": 60}[duration[-1]]


@pytest.mark.parametrize("rule", RULE_LIST, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_how_bad_and_what_to_do(rule: Case) -> None:
    """Severity, a summary in one sentence, a description with values, and the file of its runbook."""
    assert rule["labels"]["severity"] in {"info", "warning", "critical", "{{ $labels.severity }}"}
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook"}
    assert notes["runbook"] == f"deploy/runbooks/{rule['alert']}.md"
    assert (ROOT / notes["runbook"]).is_file()
    for text in (notes["summary"], notes["description"]):
        assert text.endswith("."), text
        assert "\n" not in text, text
        assert ("query" in text) == ("cluster=%q" in text), "values of this cluster, not of another one"
    if rule["alert"] not in {"RebalancerDown", "RebalancerPausedTooLong"}:  # they have no values
        assert re.search(r"\$value|\$labels|query", notes["description"])


@pytest.mark.parametrize("rule", RULE_LIST, ids=lambda rule: rule["alert"])
def test_no_alert_depends_on_which_replica_tells(rule: Case) -> None:
    """An alert with the name of a replica would resolve, and fire anew, when leadership changes."""
    # A rule may distinguish replicas to count them, as long as its result does not name them.
    reported = re.sub(r"\bsum by \(cluster\) \(max by \(cluster, instance\) ", "sum by (cluster) (", rule["expr"])
    remaining = re.findall(r"\b(?:by|on|group_left|group_right) \(([^)]*)\)", reported)
    labels = {label.strip() for names in remaining for label in names.split(",")}
    assert not labels & {"instance", "pod", "container", "endpoint"}
    assert not re.search(r"\bwithout\b", rule["expr"])
    read = re.findall(r"(?:(\w+_over_time|increase|rate|resets)\()?\b(rebalancer_\w+)", rule["expr"])
    assert all(around for around, name in read if led(name)), "only the leader shows it; a pause must be bridged"


def constant(rule: Case, label: str) -> str | None:
    """Return the value that a label of a rule's alerts always has, "" where they lack it; None where it varies."""
    given = rule["labels"].get(label)
    if given is not None:
        return None if "{{" in given else str(given)
    return None if re.search(rf"\bby \([^)]*\b{label}\b", rule["expr"]) else ""


@pytest.mark.parametrize(
    "alert", [name for name, number in Counter(r["alert"] for r in RULE_LIST).items() if number > 1]
)
def test_rules_of_one_name_never_tell_the_same_alert(alert: str) -> None:
    """A label of fixed values tells any two apart: else one rule would resolve what the other one tells, for ever."""
    for one, other in combinations([rule for rule in RULE_LIST if rule["alert"] == alert], 2):
        labels = {*one["labels"], *other["labels"]}
        values = [(constant(one, label), constant(other, label)) for label in labels]
        assert any(None not in pair and pair[0] != pair[1] for pair in values), labels


def led(name: str) -> bool:
    """Return whether only the leader exports a metric: everything about the cluster."""
    metric = next((metric for metric in METRICS if metric.name == name), None)
    return name in NOT_YET_EXPORTED if metric is None else metric.leader_only


def test_alerts_read_what_is_exported() -> None:
    """A misspelt name never fires."""
    read = set(re.findall(r"(?<![:\w])rebalancer_[a-z_]+", RULES.read_text()))
    unknown = read - {metric.name for metric in METRICS}
    assert unknown <= NOT_YET_EXPORTED, "nobody exports it"
    assert unknown >= NOT_YET_EXPORTED, "exported now: take it out of this list and of docs/operations.md"
    about = (ROOT / "docs" / "operations.md").read_text()
    assert all(f"`{name}`" in about for name in NOT_YET_EXPORTED)


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert sorted(file.stem for file in RUNBOOKS.glob("*")) == ALERTS


@pytest.mark.parametrize("alert", ALERTS)
def test_a_runbook_is_complete(alert: str) -> None:
    """Meaning, impact, diagnosis, mitigation, and commands that exist."""
    text = (RUNBOOKS / f"{alert}.md").read_text()
    assert re.findall(r"^#+ .*$", text, re.MULTILINE) == [
        f"# {alert}",
        "## Meaning",
        "## Impact",
        "## Diagnosis",
        "## Mitigation",
    ]
    assert all(part.strip() for part in re.split(r"^#+ .*$", text, flags=re.MULTILINE)[1:][1:])
    assert re.search(r"\b(?:kubectl|rebalancer) [a-z]", text)
    for verb, rest in re.findall(COMMAND_LINE, text):
        flags = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest))
        assert flags <= known(verb), f"rebalancer {verb}{rest}"


@pytest.mark.parametrize("alert", ALERTS)
def test_a_runbook_looks_with_the_policy_of_the_cluster(alert: str) -> None:
    """The shipped policy does not have the limit that the alert is about, and a file lacks the team policies."""
    text = (RUNBOOKS / f"{alert}.md").read_text()
    for verb, rest in re.findall(COMMAND_LINE, text):
        if verb not in {"policy", "check"} and "--policy" in known(verb):
            assert "--policy" not in rest, f"rebalancer {verb}{rest}"
            assert "one in force in the live cluster" in about_policy(verb), f"rebalancer {verb} --policy"


def about_policy(verb: str) -> str:
    """Return what a verb's help says of --policy."""
    parser = Parser(prog=verb, description="")
    next(command for command in VERBS if command.name == verb).load().add_arguments(parser)
    return next(action.help or "" for action in parser._actions if "--policy" in action.option_strings)


def test_the_operator_gets_the_same_rules() -> None:
    """The PrometheusRule holds the groups of the rule file and nothing else."""
    manifest = yaml.safe_load((MONITORING / "prometheus-rule.yaml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert manifest["spec"] == {"groups": GROUPS}


def test_generated_files_are_current() -> None:
    """What is made whole from the code or from the rules is as it would be made now."""
    stale = [str(path.relative_to(ROOT)) for path, text in wanted().items() if path.read_text() != text]
    assert not stale, COMMAND


def test_everything_is_installed_by_the_kustomization() -> None:
    kustomization = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    manifests = {"prometheus-rule.yaml", "service-monitor.yaml"}
    assert set(kustomization["resources"]) == manifests
    service = yaml.safe_load((ROOT / "deploy" / "base" / "service.yaml").read_text())
    monitor = yaml.safe_load((MONITORING / "service-monitor.yaml").read_text())
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["jobLabel"] in service["metadata"]["labels"]
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == [
        port["name"] for port in service["spec"]["ports"]
    ]
