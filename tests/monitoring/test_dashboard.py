"""The dashboard: fixed where others link to it, and every query is one that Prometheus understands."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.adapters.prometheus import Histogram
from rebalancer.controller.telemetry import METRICS
from tests.monitoring.programs import promtool, run
from tests.monitoring.test_rules import NOT_YET_EXPORTED
from tools.dashboard_panels import ROWS
from tools.monitoring import MONITORING, RULES

__all__ = ["promtool"]  # a fixture
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def reads(query: str) -> set[str]:
    """Return the names of the controller's metrics in a query."""
    return set(re.findall(r"(?<![:\w])rebalancer_[a-z_]+", query))


def queries() -> list[str]:
    """Return every query, for all clusters and namespaces and over a minute."""
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    replaced = {"$cluster": ".*", "$namespace": ".*", "$__rate_interval": "1m"}
    for name, value in replaced.items():
        queries = [query.replace(name, value) for query in queries]
    return queries


def test_links_to_it_stay_valid() -> None:
    """Its uid is fixed, and so is the number of every panel; it belongs to no data source of its own."""
    assert DASHBOARD["uid"] == "rebalancer"
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert numbers == list(range(1, len(numbers) + 1))
    sources = {
        json.dumps(part["datasource"], sort_keys=True) for panel in PANELS for part in (panel, *panel["targets"])
    }
    assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "cluster", "namespace"]


def test_panels_do_not_overlap() -> None:
    """And each says what it shows."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith(".")


def test_it_shows_what_was_required() -> None:
    """All panels are on the page, shares, skew, plans, evictions, refusals and health among them."""
    titles = [panel["title"] for panel in DASHBOARD["panels"]]
    assert titles == [title for row, panels in ROWS for title in (row, *(panel.title for panel in panels))]
    read = " ".join(queries())
    for name in ("limit_share_ratio", "limit_worst_domain", "constraint_skew", "minimum_evictions", "refusals"):
        assert f"rebalancer_{name}" in read


def test_queries_read_what_is_exported() -> None:
    """Names of the controller's metrics, and of the recording rules."""
    known = {metric.name for metric in METRICS} | NOT_YET_EXPORTED
    known |= {
        f"{metric.name}{end}" for metric in METRICS if isinstance(metric, Histogram) for end in ("_sum", "_count")
    }
    recorded = {
        rule["record"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    for query in queries():
        assert reads(query) <= known
        assert set(re.findall(r"\w+:\w+:\w+", query)) <= recorded


def test_promtool_understands_every_query(promtool: Path, tmp_path: Path) -> None:
    rules = [{"record": f"query:number_{index}", "expr": query} for index, query in enumerate(queries())]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run(promtool, "check", "rules", file)


@pytest.mark.parametrize("query", queries())
def test_no_query_shows_a_change_of_leader(query: str) -> None:
    """Series are those of the cluster; only what a replica says of itself has its name."""
    remaining = set(re.findall(r"\w+", " ".join(re.findall(r"\b(?:by|on) \(([^)]*)\)", query))))
    assert remaining.isdisjoint({"pod", "instance"}) or re.search("process_|rebalancer_leader", query)


def shown(promtool: Path, folder: Path, series: Mapping[str, str], expected: Mapping[str, Sequence[float]]) -> str:
    """Have the queries of panels, by title, give these values at the tenth minute."""
    queries = {panel["title"]: panel["targets"][0]["expr"] for panel in PANELS}
    checks = [
        {
            "expr": queries[title].replace("$cluster", ".*").replace("$namespace", ".*"),
            "eval_time": "10m",
            "exp_samples": [{"labels": "{}", "value": value} for value in values],
        }
        for title, values in expected.items()
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    tests = {
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": given, "promql_expr_test": checks}],
    }
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump(tests))
    return run(promtool, "test", "rules", file)


LIMIT = 'group="redis",limit="R2",namespace="cache",key="sessions",topology_key="zone",severity="warning"'
HARD = (
    'namespace="shop",workload_kind="Deployment",workload="web",topology_key="zone",when_unsatisfiable="DoNotSchedule"'
)


def test_a_dead_controller_is_not_shown_as_no_violation(promtool: Path, tmp_path: Path) -> None:
    """What the controller exported until it died is missing afterwards, not 0: violations and refusals too."""
    series = {
        'rebalancer_leader{instance="10.0.0.1:8080"}': "1x2 stale",
        f'rebalancer_limit_state{{{LIMIT},state="Violated"}}': "1x2 stale",
        f'rebalancer_constraint_state{{{HARD},state="Violated"}}': "1x2 stale",
        "rebalancer_planned_evictions": "3x2 stale",
        "rebalancer_in_flight": "1x2 stale",
        'rebalancer_refusals{reason="TooYoung"}': "1x2 stale",
    }
    titles = [panel.title for panel in ROWS[0][1]]
    assert "SUCCESS" in shown(promtool, tmp_path, series, dict.fromkeys((*titles, "Refusals"), ()))


def test_a_controller_that_finds_nothing_shows_0(promtool: Path, tmp_path: Path) -> None:
    series = {
        'rebalancer_leader{instance="10.0.0.1:8080"}': "1x10",
        'rebalancer_leader{instance="10.0.0.2:8080"}': "0x10",
        f'rebalancer_limit_state{{{LIMIT},state="Violated"}}': "0x10",
        'rebalancer_refusals{reason="TooYoung"}': "0x10",
    }
    expected = {"Limits violated": [0.0], "Constraints violated": [0.0], "Refusals": [0.0], "Leaders": [1.0]}
    assert "SUCCESS" in shown(promtool, tmp_path, series, expected)


def test_clusters_are_added_up_and_each_is_counted_once(promtool: Path, tmp_path: Path) -> None:
    """Two jobs that scrape one replica, and a leader that takes over, do not double anything."""
    series: dict[str, str] = {}
    for cluster, number in (("east", 3), ("west", 4)):
        for job in ("one", "two"):
            who = f'cluster="{cluster}",job="{job}",instance="{cluster}:8080"'
            series |= {
                f"rebalancer_leader{{{who}}}": "1x10",
                f"rebalancer_planned_evictions{{{who}}}": f"{number}x10",
                f"rebalancer_in_flight{{{who}}}": "1x10",
                f'rebalancer_limit_state{{{who},{LIMIT},state="Violated"}}': "1x10",
                f'rebalancer_constraint_state{{{who},{HARD},state="Unfixable"}}': "1x10",
                f"rebalancer_last_cycle_timestamp_seconds{{{who}}}": f"{number * 100}x10",
            }
    expected = {
        "Limits violated": [2.0],
        "Constraints violated": [2.0],
        "Evictions planned": [7.0],
        "In flight": [2.0],
        "Leaders": [2.0],
        "Last cycle": [300.0],
        "Planned evictions and proved minimum": [7.0],
    }
    assert "SUCCESS" in shown(promtool, tmp_path, series, expected)
