"""Hard spread constraints that keep a surge pod off every node, as far as this is visible without a cluster.

Problem: if an empty domain counts but takes no pod, the minimum is 0, so every other domain holds at most maxSkew pods.
Old pods fill exactly `replicas / maxSkew` domains, and one more pod needs another domain.

Idea: such an empty domain counts while there are fewer domains than minDomains, or while its nodes are cordoned or
tainted, unless nodeTaintsPolicy is Honor.

Example: 4 replicas with maxSkew 2 fill two nodes beside a tainted node; with three untainted nodes the update proceeds.
If maxSkew does not divide replicas, some domain always has capacity.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rebalancer.lint.manifest import Manifest, Path
from rebalancer.lint.terms import TEMPLATE_HASH, own_terms, splits_revisions
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable


class WedgingSpread(NamedTuple):
    """A constraint at `path` under which a surge pod waits if there are fewer than `needed` domains.

    With `closes` it waits only while a further domain is cordoned or tainted, otherwise always.
    """

    path: Path
    constraint: SpreadConstraint
    needed: int
    closes: bool


def find_wedging_spreads(manifest: Manifest, replicas: int) -> Iterator[WedgingSpread]:
    """Yield the constraints that, with some numbers of domains, keep a surge pod waiting beside this many old pods."""
    template = manifest.workload.template if manifest.workload is not None else None
    if template is None or manifest.template is None:
        return
    apart = {term.topology_key for _, term in own_terms(manifest, apart=True)}
    for number, one in enumerate(template.spec.spread):
        needed, rest = divmod(replicas, one.max_skew)
        if rest or one.topology_key in apart or not counts_all_revisions(one, template.labels):
            continue
        closes = (one.min_domains or 1) <= needed
        if not closes or one.node_taints_policy is InclusionPolicy.IGNORE:
            path = (*manifest.template, "spec", "topologySpreadConstraints", number)
            yield WedgingSpread(path, one, needed + 1, closes)


def describe_wedging_spread(one: WedgingSpread) -> str:
    """Say why the surge pod waits, and with how many domains."""
    constraint = one.constraint
    noun = "node" if constraint.topology_key == HOSTNAME else "domain"
    empty = f"there are fewer than {constraint.min_domains} (minDomains)"
    if one.closes:
        empty = f"another {noun} is cordoned or tainted, and counts as empty (nodeTaintsPolicy: Ignore)"
    which = f"open {noun}s" if one.closes else f"{noun}s"
    return (
        f"the hard constraint over {constraint.topology_key} admits maxSkew ({constraint.max_skew}) pods in each "
        f"{noun} where {empty}: then it proceeds from {one.needed} {which} on, and waits for ever on {one.needed - 1}"
    )


def counts_all_revisions(constraint: SpreadConstraint, labels: dict[str, str]) -> bool:
    """Return whether a hard constraint counts old pods when new pods are placed."""
    hard = constraint.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    counts = constraint.selector is not None and constraint.selector.matches({**labels, TEMPLATE_HASH: ""})
    return hard and counts and not splits_revisions(constraint.match_label_keys)
