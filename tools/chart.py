"""Files of the Helm chart that follow from others: rules, rights, dashboard, the values' schema and their table.

The manifests that kustomize installs are the only source of the common parts. A template cannot read files outside its
chart, so `make docs` copies the parts that it needs into `deploy/chart/rebalancer/files/`, with their comments.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import yaml

from tools.chart_schema import values_schema
from tools.dashboard import dashboard_text
from tools.monitoring import RULES

ROOT: Final = Path(__file__).resolve().parents[1]
DEPLOY: Final = ROOT / "deploy"
CHART: Final = DEPLOY / "chart" / "rebalancer"
VALUES: Final = CHART / "values.yaml"

RIGHTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "cluster-role": ("base/cluster-role.yaml", "ClusterRole", "rebalancer"),
    "workloads": ("base/workloads.yaml", "ClusterRole", "rebalancer-workloads"),
    "role": ("base/role.yaml", "Role", "rebalancer"),
    "view": ("base/people.yaml", "ClusterRole", "rebalancer-view"),
    "pause": ("base/people.yaml", "ClusterRole", "rebalancer-pause"),
    "approve": ("base/people.yaml", "ClusterRole", "rebalancer-approve"),
    "evict": ("components/evict-rights/cluster-role.yaml", "ClusterRole", "rebalancer-evict"),
    "prevention": ("prevention/cluster-role.yaml", "ClusterRole", "rebalancer-prevention"),
    "surge": ("surge/cluster-role.yaml", "ClusterRole", "rebalancer-surge"),
    "surges": ("surge/role.yaml", "Role", "rebalancer-surge"),
    "capacity": ("capacity/role.yaml", "Role", "rebalancer-capacity"),
    "node-claims": ("capacity/role.yaml", "ClusterRole", "rebalancer-capacity"),
    "cleanup": ("cleanup/role.yaml", "Role", "rebalancer-cleanup"),
    "team": ("team/role.yaml", "Role", "rebalancer-team-policy"),
}
"""The rules of each role: the file under `deploy/`, the kind and the name."""

POLICIES: Final[Mapping[str, str]] = {
    "prevention": "prevention/admission-policy.yaml",
    "surge-pods": "surge/pod-admission-policy.yaml",
    "surge-scale": "surge/scale-admission-policy.yaml",
    "capacity": "capacity/admission-policy.yaml",
}
"""The file under `deploy/` of each admission policy, whose name is the key after `rebalancer-`."""

_DOCUMENT: Final = re.compile(r"^---\n", re.MULTILINE)
_KEY: Final = re.compile(r"^(?P<indent> *)(?P<key>[\w-]+):(?: |$)")
_HEAD: Final = "# Made from {source} by `make docs`; do not edit.\n"


def chart_files() -> Iterator[tuple[Path, str]]:
    """Yield each generated file of the chart and what it should hold."""
    for name, (source, kind, object_name) in RIGHTS.items():
        text = _section(source, kind, object_name, "rules")
        yield CHART / "files" / "rights" / f"{name}.yaml", _HEAD.format(source=f"deploy/{source}") + text
    for name, source in POLICIES.items():
        text = _section(source, "ValidatingAdmissionPolicy", f"rebalancer-{name}", "spec")
        yield CHART / "files" / "admission" / f"{name}.yaml", _HEAD.format(source=f"deploy/{source}") + text
    source = "capacity/priority-class.yaml"
    text = (DEPLOY / source).read_text(encoding="utf-8")
    yield CHART / "files" / "capacity" / "priority-class.yaml", text[text.index("value:") :]
    rules = RULES.read_text(encoding="utf-8")
    yield CHART / "files" / "rules.yaml", rules[rules.index("groups:\n") :]
    yield CHART / "files" / "dashboard.json", dashboard_text()
    yield CHART / "values.schema.json", json.dumps(values_schema(), indent=2) + "\n"


def _section(source: str, kind: str, name: str, key: str) -> str:
    """Return the last key of a manifest's document as text, so that its comments come along."""
    for document in _DOCUMENT.split((DEPLOY / source).read_text(encoding="utf-8")):
        manifest = yaml.safe_load(document)
        if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name):
            return dedent(document[document.index(f"\n{key}:\n") + len(key) + 3 :])
    raise ValueError(f"deploy/{source} has no {kind} {name}")


def value_rows() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the default and the comment of each value that has a comment above it."""
    defaults = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    path: list[str] = []
    comment: list[str] = []
    for line in VALUES.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        key = _KEY.match(line)
        if text.startswith("#"):
            comment.append(text.removeprefix("#").strip())
        elif key is not None:
            path = [*path[: len(key["indent"]) // 2], key["key"]]
            if comment:
                yield f"`{'.'.join(path)}`", _shown(_get(defaults, path)), " ".join(comment)
            comment = []
        elif not text:
            comment = []


def _get(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _shown(value: Any) -> str:
    """Write a default in one line; for a longer default, refer to values.yaml."""
    text = json.dumps(value)
    return f"`{text}`" if len(text) < 80 else "see values.yaml"
