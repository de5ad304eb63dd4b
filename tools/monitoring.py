"""Generate files and tables from the alert rules in `deploy/monitoring/rules.yaml`.

The rule file is what Prometheus itself reads. The Prometheus operator wants the same groups inside a PrometheusRule,
and the reference page a table of the alerts.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
MONITORING: Final = ROOT / "deploy" / "monitoring"
RULES: Final = MONITORING / "rules.yaml"
RUNBOOKS: Final = ROOT / "deploy" / "runbooks"

_HEAD: Final = """\
# Made from rules.yaml by `make docs`; do not edit. For the Prometheus operator.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: rebalancer
  namespace: rebalancer-system
  labels:
    app.kubernetes.io/name: rebalancer
spec:
"""

Rule = Mapping[str, Any]


def alerts() -> Iterator[Rule]:
    """Yield the alerting rules in their order; an alert may have several, which differ in their labels."""
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        yield from (rule for rule in group["rules"] if "alert" in rule)


def prometheus_rule() -> str:
    """Return the PrometheusRule. The groups are copied as text, so that their comments come along."""
    text = RULES.read_text(encoding="utf-8")
    return _HEAD + indent(text[text.index("groups:\n") :], "  ")


_EITHER: Final = re.compile(
    r"\{\{ with \$labels\.(?P<label>\w+) \}\}(?P<given>.*?) *\{\{- else \}\}(?P<absent>.*?)\{\{ end \}\}\."
)
"""A summary that depends on whether an alert has a label."""


def alert_rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield alert, severity, how long it must last, summary with the labels' names in capitals, and metrics."""
    for rule in alerts():
        severity = rule["labels"]["severity"]
        runbook = f"[{rule['alert']}](../../deploy/runbooks/{rule['alert']}.md)"
        metrics = ", ".join(f"`{name}`" for name in sorted(set(re.findall(r"\b(?:rebalancer|kube)_\w+", rule["expr"]))))
        summary = _EITHER.sub(_say_both, rule["annotations"]["summary"])
        yield runbook, _plain(severity), rule.get("for", "at once"), _plain(summary), metrics


def _say_both(summary: re.Match[str]) -> str:
    """Write both texts of a summary, each with when it holds."""
    label = summary["label"].upper()
    return f"{summary['absent']}. With the label {label}: {summary['given'].replace('{{ . }}', label)}."


def _plain(template: str) -> str:
    """Write `{{ $labels.topology_key }}` as TOPOLOGY_KEY."""
    parts = template.split("{{ $labels.")
    return parts[0] + "".join(
        f"{name.upper()}{rest}" for name, _, rest in (part.partition(" }}") for part in parts[1:])
    )
