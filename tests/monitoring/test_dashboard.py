"""The dashboard: fixed where others link to it, and every query is one that Prometheus understands."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.adapters.prometheus import METRICS, Type
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
    found = [target["expr"] for panel in PANELS for target in panel["targets"]]
    replaced = {"$cluster": ".*", "$namespace": ".*", "$__rate_interval": "1m"}
    for name, value in replaced.items():
        found = [query.replace(name, value) for query in found]
    return found


def test_links_to_it_stay_valid() -> None:
    """Its uid is fixed, and so is the number of every panel; it belongs to no data source of its own."""
    assert DASHBOARD["uid"] == "rebalancer"
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert numbers == list(range(1, len(numbers) + 1))
    sources = {
        json.dumps(each["datasource"], sort_keys=True) for panel in PANELS for each in (panel, *panel["targets"])
    }
    assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "cluster", "namespace"]


def test_panels_do_not_lie_upon_each_other() -> None:
    """And each says what it shows."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith(".")


def test_it_shows_what_was_asked_for() -> None:
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
        f"{metric.name}{end}" for metric in METRICS if metric.type is Type.HISTOGRAM for end in ("_sum", "_count")
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
    kept = set(re.findall(r"\w+", " ".join(re.findall(r"\b(?:by|on) \(([^)]*)\)", query))))
    assert kept.isdisjoint({"pod", "instance"}) or "process_" in query
