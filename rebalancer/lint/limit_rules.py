"""Limits of a policy that no placement satisfies, and limits that no hard constraint guarantees."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rebalancer.advice.constraints import SuggestedSpread, find_selector
from rebalancer.lint.finding import Finding, Operation, Rule, Severity, set_field
from rebalancer.lint.ground import Ground
from rebalancer.lint.limit_numbers import HardConstraint, find_constraints, needed_domains
from rebalancer.lint.limit_sizes import check_groups, check_sizes
from rebalancer.lint.limits import CoveredLimit, find_limits
from rebalancer.lint.manifest import Manifest, Manifests, Path
from rebalancer.lint.scale_downs import check_limit_on_the_way
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.words import plural
from rebalancer.policy import Policy

_REPLICAS: Path = ("spec", "replicas")

_STEPS: Final = 10
"""The search for a number of pods that can satisfy a limit ends this far beyond twice the present number."""


def check_limits(manifests: Manifests, ground: Ground | None, policy: Policy) -> Iterator[Finding]:
    """Yield what a policy's limits mean for the pods of manifests. Without a cluster, the number of domains is open."""
    for covered in find_limits(manifests, ground, policy):
        if covered.pods <= covered.most:
            continue
        if not covered.fits(covered.pods):
            yield _impossible(covered)
            continue
        max_skew = covered.find_max_skew(covered.limit.topology_key)
        if covered.is_guaranteed:
            yield from _domains_that_it_takes(covered, max_skew)
        else:
            options = _find_options(covered)
            max_skew = options[-1].max_skew
            yield from (_not_guaranteed(covered, options, manifest) for manifest in covered.manifests)
        yield from check_sizes(covered, max_skew)
        if max_skew is not None:
            yield from check_groups(covered, max_skew)
            yield from check_limit_on_the_way(covered, max_skew)


def _impossible(covered: CoveredLimit) -> Finding:
    """Return that no placement satisfies a limit: it allows no pod in any domain, or there are too few domains."""
    pods, most, there, known = covered.pods, covered.most, covered.domains or 0, covered.limit.possible
    numbers = {"pods": pods, "cap": most}
    more = next((number for number in range(pods + 1, 2 * pods + _STEPS) if covered.fits(number)), None)
    replicas = f"raise replicas until it counts {more}" if covered.cap.share is not None and more is not None else ""
    ways = [f"add nodes with another value of {covered.limit.topology_key}"] if most else []
    ways += [*filter(None, [replicas]), "allow more in the policy"]
    if not most:
        message = f"{covered.title} allows none of {plural(pods, 'pod')} in a domain, so every placement violates it"
    else:
        needed = -(-pods // most)
        numbers |= {"domains": there, "domainsNeeded": needed}
        cluster = (
            f"the cluster has {there}"
            if known == there
            else f"only {there} of {known} {'has' if there == 1 else 'have'} a node"
        )
        message = f"{_allows(covered)}: it takes {needed} domains, and {cluster}"
    proved = not covered.where and (not most or (known * most < pods and covered.counts_everywhere))
    return Finding(
        rule=Rule.LIMIT_IMPOSSIBLE,
        severity=Severity.ERROR if proved else Severity.WARNING,
        manifest=covered.manifests[0],
        path=_REPLICAS,
        message=f"{message}. {_sentence(ways)}",
        patch=_enlarge(covered, more) if replicas and more is not None else (),
        numbers=numbers,
    )


def _sentence(ways: Sequence[str]) -> str:
    text = " or ".join(ways) if len(ways) < 3 else f"{', '.join(ways[:-1])}, or {ways[-1]}"
    return f"{text[0].upper()}{text[1:]}"


def _enlarge(covered: CoveredLimit, pods: int) -> tuple[Operation, ...]:
    """Return the operation that sets this number of pods.

    Empty if the limit counts several workloads, or if the workload's replicas are not written.
    """
    (manifest, *others) = covered.manifests
    alone = not others and len(covered.limit.parts) == 1 and manifest.replicas == covered.pods
    is_written = manifest.find(_REPLICAS) is not None
    return set_field(manifest, _REPLICAS, pods) if alone and is_written else ()


def _domains_that_it_takes(covered: CoveredLimit, max_skew: int | None) -> Iterator[Finding]:
    """Yield how many domains a limit needs, and how many guarantee it, if no cluster is known."""
    if covered.domains is not None:
        return
    pods, most = covered.pods, covered.most
    numbers = {"pods": pods, "cap": most, "domainsNeeded": -(-pods // most)}
    message = f"{_allows(covered)}: it takes at least {numbers['domainsNeeded']} domains"
    guaranteed = needed_domains(pods, most, max_skew) if max_skew is not None else None
    if max_skew is not None and guaranteed is not None and guaranteed > numbers["domainsNeeded"]:
        numbers |= {"maxSkew": max_skew, "domainsThatGuarantee": guaranteed}
        message += f", and maxSkew {max_skew} guarantees it from {guaranteed} on"
    yield Finding(
        rule=Rule.LIMIT_IMPOSSIBLE,
        severity=Severity.INFO,
        manifest=covered.manifests[0],
        path=_REPLICAS,
        message=message,
        numbers=numbers,
    )


def _find_options(covered: CoveredLimit) -> Sequence[HardConstraint]:
    """Return constraints that may guarantee a limit, loosest first. If any of them guarantees it, the last one does."""
    if covered.domains is not None:
        return find_constraints(covered.pods, covered.most, covered.domains)
    pods, most = covered.pods, covered.most
    return [HardConstraint(skew, most, needed_domains(pods, most, skew)) for skew in dict.fromkeys((most, 1))]


def _not_guaranteed(covered: CoveredLimit, options: Sequence[HardConstraint], manifest: Manifest) -> Finding:
    here = "" if covered.domains is None else f" of {plural(covered.domains, 'domain')}"
    ways = "; ".join(_describe(covered, option) for option in options)
    return Finding(
        rule=Rule.LIMIT_NOT_GUARANTEED,
        severity=Severity.WARNING,
        manifest=manifest,
        path=_REPLICAS,
        message=f"{_allows(covered)}, and no hard constraint guarantees it: one{here} may hold {covered.worst}. {ways}",
        patch=_constrain(covered, options[-1].max_skew, manifest),
        numbers=_numbers(covered, options),
    )


def _numbers(covered: CoveredLimit, options: Sequence[HardConstraint]) -> Mapping[str, int]:
    """Return the numbers of the message: first those of the suggested constraint, then those of a looser one."""
    numbers = {"pods": covered.pods, "cap": covered.most, "most": covered.worst}
    if covered.domains is not None:
        numbers["domains"] = covered.domains
    for option, prefix in zip(reversed(options), ("", "looser"), strict=False):
        found = {"maxSkew": option.max_skew, "domainsNeeded": option.domains_needed}
        found |= {"mostWithMaxSkew": option.most} if covered.domains is not None else {}
        named = {f"{prefix}{name[0].upper()}{name[1:]}" if prefix else name: found[name] for name in found}
        numbers |= {name: value for name, value in named.items() if value is not None}
    return numbers


def _describe(covered: CoveredLimit, option: HardConstraint) -> str:
    """Say what a constraint does here, and with how many domains it guarantees the limit."""
    from_on = f"guarantees it from {plural(option.domains_needed or 0, 'domain')} on"
    if covered.domains is None:
        return f"maxSkew {option.max_skew} {from_on}"
    if option.most > covered.most:
        return f"maxSkew {option.max_skew} still allows {option.most}, and {from_on}"
    return f"maxSkew {option.max_skew} allows {option.most}, and {from_on}"


def _constrain(covered: CoveredLimit, max_skew: int, manifest: Manifest) -> tuple[Operation, ...]:
    """Return the operations that give a template the constraint; empty if another constraint over the key is there.

    The API server accepts one hard constraint for each key.
    """
    selector = find_selector(covered.limit)
    if selector is None or manifest.template is None or manifest.workload is None or manifest.workload.template is None:
        return ()
    at = (*manifest.template, "spec", "topologySpreadConstraints")
    key, spread = covered.limit.topology_key, manifest.workload.template.spec.spread
    for number, row in enumerate(spread):
        if row.topology_key == key and row.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE:
            return (Operation("replace", (*at, number, "maxSkew"), max_skew),) if covered.counts_all(row) else ()
    wanted = SuggestedSpread(topology_key=key, max_skew=max_skew, selector=selector, effect="").constraint
    return (Operation("add", (*at, len(spread)), wanted),) if spread else set_field(manifest, at, [wanted])


def _allows(covered: CoveredLimit) -> str:
    key = covered.limit.topology_key
    return f"{covered.title} allows {covered.most} of {plural(covered.pods, 'pod')} in a domain of {key}"
