"""Spread constraints that the API server refuses, or that contradict other rules of the same template."""

from collections.abc import Iterator, Sequence

from rebalancer.lint.finding import Finding, Operation, Rule, Severity
from rebalancer.lint.manifest import Manifest, Path
from rebalancer.lint.shortage import find_shortage
from rebalancer.lint.terms import counts_own_alone, own_terms, tells_pods_apart
from rebalancer.model.labels import Operator
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from rebalancer.model.words import plural
from rebalancer.scheduling.versions import EMPTY_SELECTOR_FIXED


def check_constraints(manifest: Manifest) -> Iterator[Finding]:
    """Yield constraints that the API server refuses, and constraints that conflict with other rules."""
    workload = manifest.workload
    if workload is None or workload.template is None or manifest.template is None:
        return
    at = (*manifest.template, "spec", "topologySpreadConstraints")
    spread = workload.template.spec.spread
    yield from _duplicates(manifest, at, spread)
    for number, constraint in enumerate(spread):
        path = (*at, number)
        hard = constraint.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
        if constraint.min_domains is not None and not hard:
            yield Finding(
                rule=Rule.MIN_DOMAINS_WITHOUT_HARD,
                severity=Severity.ERROR,
                manifest=manifest,
                path=(*path, "minDomains"),
                message=f"minDomains: {constraint.min_domains} needs whenUnsatisfiable: DoNotSchedule: the API server "
                "refuses it",
                patch=(Operation("remove", (*path, "minDomains")),),
            )
        if hard:
            yield from _pinned(manifest, path, constraint)
    yield from _together_and_apart(manifest, at, spread)
    yield from _too_few_domains(manifest)


def _duplicates(manifest: Manifest, at: Path, spread: Sequence[SpreadConstraint]) -> Iterator[Finding]:
    seen: dict[tuple[str, WhenUnsatisfiable], int] = {}
    keys = [(one.topology_key, one.when_unsatisfiable) for one in spread]
    more = [number for number, key in enumerate(keys) if key in keys[:number]]
    for number, constraint in enumerate(spread):
        key = constraint.topology_key, constraint.when_unsatisfiable
        first = seen.setdefault(key, number)
        if first != number:
            yield Finding(
                rule=Rule.DUPLICATE_CONSTRAINT,
                severity=Severity.ERROR,
                manifest=manifest,
                path=(*at, number),
                message=f"a second constraint with topologyKey {key[0]} and whenUnsatisfiable {key[1]}, after that of "
                f"line {manifest.find_line((*at, first))}: the API server refuses it",
                patch=tuple(Operation("remove", (*at, one)) for one in reversed(more)) if number == more[0] else (),
            )


def _pinned(manifest: Manifest, path: Path, constraint: SpreadConstraint) -> Iterator[Finding]:
    """Yield a hard constraint that wants more domains than node affinity leaves.

    Each missing domain counts as empty.
    """
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    admitted = _admitted_values(manifest, constraint.topology_key)
    least = constraint.min_domains or 1
    if admitted is None or admitted >= least or constraint.node_affinity_policy is not InclusionPolicy.HONOR:
        return
    shortage = find_shortage(manifest, admitted * constraint.max_skew)
    if shortage is None or not _counts_own(manifest, constraint):
        return
    severity, condition = shortage.severity, ""
    if constraint.selector is not None and constraint.selector.empty and not constraint.match_label_keys:
        severity = Severity.WARNING
        condition = f", from Kubernetes {EMPTY_SELECTOR_FIXED} on, where an empty labelSelector counts all pods"
    yield Finding(
        rule=Rule.CONTRADICTORY_CONSTRAINTS,
        severity=severity,
        manifest=manifest,
        path=(*path, "minDomains"),
        message=f"minDomains asks for {plural(least, 'domain')} of {constraint.topology_key}, and the pods' node "
        f"selector admits {admitted}, each with at most maxSkew ({constraint.max_skew}) pods: {shortage.message}"
        f"{condition}",
        patch=(Operation("replace", (*path, "minDomains"), admitted),) if admitted else (),
    )


def _counts_own(manifest: Manifest, constraint: SpreadConstraint) -> bool:
    """Return whether a constraint counts all pods of its own template together."""
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    selector, labels = constraint.selector, manifest.workload.template.labels
    return selector is not None and selector.matches(labels) and not tells_pods_apart(manifest, constraint)


def _admitted_values(manifest: Manifest, key: str) -> int | None:
    """Return how many values of a label the template's nodes may have at most; None if nothing limits them."""
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    affinity = manifest.workload.template.spec.node_affinity
    if key in affinity.selector:
        return 1
    if affinity.required is None:
        return None
    values: set[str] = set()
    for term in affinity.required:
        named = [one.values for one in term.expressions if one.key == key and one.operator is Operator.IN]
        if not named:
            return None
        values |= set(named[0]).intersection(*named[1:])
    return len(values)


def _too_few_domains(manifest: Manifest) -> Iterator[Finding]:
    """Yield required anti-affinity with fewer domains than pods, because the node selector names too few."""
    for path, term in own_terms(manifest, apart=True):
        admitted = _admitted_values(manifest, term.topology_key)
        shortage = find_shortage(manifest, admitted) if admitted is not None else None
        if shortage is not None and not tells_pods_apart(manifest, term):
            yield Finding(
                rule=Rule.CONTRADICTORY_CONSTRAINTS,
                severity=shortage.severity,
                manifest=manifest,
                path=path,
                message=f"required podAntiAffinity allows one pod in each domain of {term.topology_key}, and the pods' "
                f"node selector admits {admitted}: {shortage.message}",
            )


def _together_and_apart(manifest: Manifest, at: Path, spread: Sequence[SpreadConstraint]) -> Iterator[Finding]:
    """Yield rules of a template that require its own pods both to share a domain and not to share it."""
    apart = {
        term.topology_key: path
        for path, term in own_terms(manifest, apart=True)
        if not tells_pods_apart(manifest, term)
    }
    for path, term in own_terms(manifest, apart=False):
        if tells_pods_apart(manifest, term):
            continue
        key, alone = term.topology_key, counts_own_alone(manifest, term)
        against = apart.get(key)
        shortage = find_shortage(manifest, 1)
        if against is not None and shortage is not None:
            yield Finding(
                rule=Rule.CONTRADICTORY_CONSTRAINTS,
                severity=shortage.severity if alone else Severity.WARNING,
                manifest=manifest,
                path=path,
                message=f"required podAffinity {_together(key, alone=alone)}, and required podAntiAffinity "
                f"(line {manifest.find_line(against)}) keeps them apart there: {shortage.message}",
                patch=(Operation("remove", path),),
            )
        for number, constraint in enumerate(spread):
            hard = constraint.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
            shortage = find_shortage(manifest, constraint.max_skew)
            if hard and constraint.topology_key == key and shortage and _counts_own(manifest, constraint):
                both = alone and counts_own_alone(manifest, constraint)
                yield Finding(
                    rule=Rule.CONTRADICTORY_CONSTRAINTS,
                    severity=shortage.severity if both and (constraint.min_domains or 1) > 1 else Severity.WARNING,
                    manifest=manifest,
                    path=path,
                    message=f"required podAffinity {_together(key, alone=both)}, and a hard constraint (line "
                    f"{manifest.find_line((*at, number))}) allows {constraint.max_skew} more there than in another "
                    f"{_domain(key)}: with two of these {shortage.message}",
                    patch=(Operation("remove", (*at, number)),),
                )


def _together(key: str, *, alone: bool) -> str:
    """Say where affinity keeps the pods; unless it selects its own pods `alone`, also say under which condition."""
    unless = "" if alone else ", unless the rules count pods of others, too"
    return f"keeps the pods in one domain of {key}{unless}"


def _domain(key: str) -> str:
    return "node" if key == HOSTNAME else "domain"
