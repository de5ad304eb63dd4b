"""What Artifact Hub shows of the chart: annotations by the rules of its documentation (topics/annotations/helm)."""

import re
from typing import Any

import pytest
import yaml

from rebalancer import __version__
from tests.deploy.manifests import DEPLOY, ROOT

CHART: dict[str, Any] = yaml.safe_load((DEPLOY / "chart" / "rebalancer" / "Chart.yaml").read_text(encoding="utf-8"))
PREFIX = "artifacthub.io/"
ANNOTATIONS = {name.removeprefix(PREFIX): text for name, text in CHART["annotations"].items()}
ADDRESS = re.compile(r"https://[\w./-]+")
KINDS = {"added", "changed", "deprecated", "removed", "fixed", "security"}
CATEGORIES = {
    "ai-machine-learning",
    "database",
    "integration-delivery",
    "monitoring-logging",
    "networking",
    "security",
    "storage",
    "streaming-messaging",
    "skip-prediction",
}


def test_everything_that_the_page_has_a_place_for_is_there() -> None:
    """But for a key: the chart is signed without one."""
    wanted = {"category", "changes", "images", "license", "links", "operator", "prerelease"}
    assert ANNOTATIONS.keys() == wanted
    assert all(name.startswith(PREFIX) and isinstance(text, str) for name, text in CHART["annotations"].items())
    assert all(ADDRESS.fullmatch(address) for address in (CHART["home"], CHART["icon"], *CHART["sources"]))
    assert all(one["name"] and ADDRESS.fullmatch(one["url"]) for one in CHART["maintainers"])
    assert len(CHART["keywords"]) > 0


def test_single_values_are_of_those_that_are_known() -> None:
    assert ANNOTATIONS["category"] in CATEGORIES
    assert ANNOTATIONS["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert {ANNOTATIONS["operator"], ANNOTATIONS["prerelease"]} <= {"true", "false"}


@pytest.mark.parametrize(
    ("name", "required", "optional"),
    [
        ("changes", {"kind", "description"}, {"links"}),
        ("images", {"image"}, {"name", "platforms", "whitelisted"}),
        ("links", {"name", "url"}, set()),
    ],
)
def test_lists_have_the_fields_that_are_read(name: str, required: set[str], optional: set[str]) -> None:
    entries = yaml.safe_load(ANNOTATIONS[name])
    assert entries
    for entry in entries:
        assert required <= entry.keys() <= required | optional


def test_lists_have_values_that_are_understood() -> None:
    assert {entry["kind"] for entry in yaml.safe_load(ANNOTATIONS["changes"])} <= KINDS
    assert all(ADDRESS.fullmatch(entry["url"]) for entry in yaml.safe_load(ANNOTATIONS["links"]))
    (image,) = yaml.safe_load(ANNOTATIONS["images"])
    assert image["image"].endswith(f":{__version__}")
    (built,) = re.findall(r"--platform (\S+)", (ROOT / ".github" / "workflows" / "release.yaml").read_text())
    assert image["platforms"] == built.split(",")
