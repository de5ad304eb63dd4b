"""Selectors that do not match the pods of their own template."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rebalancer.lint.finding import Finding, Operation, Rule, Severity, set_field
from rebalancer.lint.label_keys import drop_keys, find_in_both
from rebalancer.lint.manifest import Manifest
from rebalancer.model.labels import LabelSelector
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.model.workloads import BUILT_IN

_REFUSED: Final = frozenset({*BUILT_IN, "DaemonSet", "Job"})
"""Kinds whose selector must match their own template; the pods that other kinds select are not known."""


def check_selectors(manifest: Manifest) -> Iterator[Finding]:
    """Yield selectors of a workload, and of its spread constraints, that its own pods do not match."""
    workload = manifest.workload
    if workload is None or workload.template is None or manifest.template is None:
        return
    labels = workload.template.labels
    if workload.selector is not None and not workload.selector.matches(labels):
        path = ("spec", "selector")
        wanted = manifest.find((*path, "matchLabels"))
        missing = {key: value for key, value in wanted.items() if labels.get(key) != value} if wanted else {}
        at = (*manifest.template, "metadata", "labels")
        is_refused = manifest.kind in _REFUSED
        effect = "the API server refuses it" if is_refused else "its controller may find none of its pods"
        helps = missing and workload.selector.matches({**labels, **missing})
        yield Finding(
            rule=Rule.SELECTOR_MISSES_TEMPLATE,
            severity=Severity.ERROR if is_refused else Severity.WARNING,
            manifest=manifest,
            path=path,
            message=f"its selector does not match its template's labels ({_show(labels)}): {effect}",
            patch=set_field(manifest, at, {**(manifest.find(at) or {}), **missing}) if helps else (),
        )
    for number, constraint in enumerate(workload.template.spec.spread):
        if constraint.selector is None or not constraint.selector.matches(labels):
            yield _spread_finding(manifest, number, constraint, labels)


def _spread_finding(
    manifest: Manifest, number: int, constraint: SpreadConstraint, labels: Mapping[str, str]
) -> Finding:
    assert manifest.template is not None
    at = (*manifest.template, "spec", "topologySpreadConstraints", number)
    field = (*at, "labelSelector")
    what = "has no labelSelector, so it counts no pods" if constraint.selector is None else _counted(labels)
    hard = constraint.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    effect = "it spreads nothing, and other pods decide where these may go" if hard else "it spreads nothing"
    wanted = manifest.find(("spec", "selector")) if _selects(manifest, labels) else {"matchLabels": dict(labels)}
    patch: tuple[Operation, ...] = ()
    if labels:
        in_both = find_in_both(manifest, at, wanted)
        patch = (*set_field(manifest, field, wanted), *drop_keys(manifest, at, in_both))
    return Finding(
        rule=Rule.SPREAD_MISSES_PODS,
        severity=Severity.WARNING,
        manifest=manifest,
        path=field if manifest.find(field) is not None else at,
        message=f"the spread constraint over {constraint.topology_key} {what}: {effect}",
        patch=patch,
    )


def _counted(labels: Mapping[str, str]) -> str:
    return f"does not select the pods that carry it ({_show(labels)})"


def _selects(manifest: Manifest, labels: Mapping[str, str]) -> bool:
    selector: LabelSelector | None = manifest.workload.selector if manifest.workload is not None else None
    written: Any = manifest.find(("spec", "selector"))
    is_whole = isinstance(written, Mapping) and bool(written.keys() & {"matchLabels", "matchExpressions"})
    return is_whole and selector is not None and selector.matches(labels)


def _show(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "none"
