"""The limits of a policy on the pods of manifests: how many pods a domain may hold, and what guarantees it.

Pods are counted as `report` counts them, in the cluster in which all manifests are deployed. Without a cluster they are
counted in a cluster without nodes. Then it is known how many pods belong together, but not how many domains there are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from rebalancer.assessment.guarantees import most_per_domain
from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.limit_groups import find_limit_groups
from rebalancer.assessment.limits.evaluate import evaluate_limits
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.lint.ground import Ground
from rebalancer.lint.keys import REGION
from rebalancer.lint.limit_numbers import Cap
from rebalancer.lint.manifest import MOST_SCALED, Manifest, Manifests
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.policy import Basis, Condition, Limit, Policy, PolicyGroup

_NOWHERE: Final = Snapshot(taken_at=datetime(1970, 1, 1, tzinfo=UTC))
"""A cluster without nodes; nothing in it depends on its time."""


@dataclass(frozen=True, eq=False)
class CoveredLimit:
    """A limit of the policy, and the manifests whose pods it counts.

    `domains` is the number of domains that have a node, None without a cluster. Only without a cluster, `where` says in
    which clusters the limit applies, "" for all.
    """

    limit: EvaluatedLimit
    manifests: Sequence[Manifest]
    domains: int | None
    where: str

    @property
    def pods(self) -> int:
        """How many pods the limit counts once all manifests are deployed."""
        return self.limit.total

    @property
    def sizes(self) -> Sequence[int]:
        """The numbers of pods that the limit may count: the current number, and those that autoscalers may choose."""
        fixed = self.pods - sum(one.replicas for one in self.manifests)
        least, most = (fixed + sum(one.sizes[at] for one in self.manifests) for at in (0, -1))
        return sorted({self.pods, *range(max(1, least), min(most, MOST_SCALED) + 1)})

    @property
    def most(self) -> int:
        """The most pods that one domain may hold."""
        assert self.limit.cap is not None
        return self.limit.cap

    @property
    def cap(self) -> Cap:
        """How many pods one domain may hold, for every total number of pods."""
        rule = self.limit.rule
        return Cap(rule.max_share, rule.max_pods or 0, rule.when.total)

    def fits(self, pods: int) -> bool:
        """Return whether some placement of this many pods satisfies the limit; without a cluster, over any domains."""
        most = self.cap.of(pods)
        return most * self.domains >= pods if self.domains is not None else most > 0

    @property
    def counts_everywhere(self) -> bool:
        """Whether each node of the cluster is in a domain of the limit, so that no pod is outside these domains."""
        nodes = self.limit.view.nodes
        return len(nodes.values(self.limit.topology_key)) == len(nodes.by_name)

    @property
    def title(self) -> str:
        """The limit's name and bound, and where it applies."""
        return f"limit {self.limit.group}/{self.limit.limit} ({self.limit.rule.bound}{self.where})"

    @cached_property
    def samples(self) -> Sequence[Pod]:
        """The next pod of each owner whose pods the limit counts."""
        return [part.member.sample for part in self.limit.parts if part.member.sample is not None]

    def counts_all(self, constraint: SpreadConstraint) -> bool:
        """Return whether a constraint is hard and counts all pods of the limit together."""
        selector = constraint.selector
        if constraint.when_unsatisfiable is not WhenUnsatisfiable.DO_NOT_SCHEDULE or selector is None:
            return False
        several = len(self.samples) > 1
        if several and constraint.match_label_keys:
            return False
        return all(selector.matches(pod.labels) for pod in self.samples)

    def find_max_skew(self, *keys: str) -> int | None:
        """Return the maxSkew of hard constraints over these keys; None if some owner has none.

        If the owners have different values, it is the loosest of them.
        """
        tightest = [
            min(
                (row.max_skew for row in pod.spec.spread if row.topology_key in keys and self.counts_all(row)),
                default=0,
            )
            for pod in self.samples
        ]
        return max(tightest) if tightest and all(tightest) else None

    @property
    def is_kept_apart(self) -> bool:
        """Whether required anti-affinity keeps the limit's pods apart, each in a domain of its own."""
        return bool(self.samples) and all(
            any(self._keeps_all_apart(term, pod) for term in pod.spec.pod_affinity.anti_required)
            for pod in self.samples
        )

    def _keeps_all_apart(self, term: PodAffinityTerm, pod: Pod) -> bool:
        own = (not term.namespaces and term.namespace_selector is None) or pod.namespace in term.namespaces
        selector = term.selector
        of_all = selector is not None and all(selector.matches(other.labels) for other in self.samples)
        return own and of_all and term.topology_key in self.binding_keys

    @property
    def binding_keys(self) -> Sequence[str]:
        """The keys over which a rule bounds the limit's domains: their own key and, for nodes, also the zones' key."""
        key = self.limit.topology_key
        return (key, ZONE) if key == HOSTNAME else (key,)

    @property
    def is_guaranteed(self) -> bool:
        """Whether hard rules keep each domain within the limit; without a cluster, if there are enough domains."""
        if self.domains is not None:
            return self.limit.guaranteed
        max_skew = self.find_max_skew(*self.binding_keys)
        return self.is_kept_apart or (max_skew is not None and max_skew <= self.most)

    @property
    def worst(self) -> int:
        """How many pods the hard rules let one domain hold.

        Without a cluster these are all pods, because there may be only one domain.
        """
        if self.domains is None:
            return self.pods
        limit = self.limit
        return most_per_domain(limit.parts, limit.topology_key, limit.total, limit.view)

    @property
    def larger_key(self) -> str:
        """The key of the larger domains that may contain the limit's domains: regions for zones, else zones."""
        return REGION if self.limit.topology_key == ZONE else ZONE

    @cached_property
    def zones(self) -> tuple[int, ...]:
        """The number of domains in each larger domain, sorted; one number if there are no larger domains."""
        limit = self.limit
        value_of = limit.view.nodes.values(self.larger_key)
        found = [{value_of.get(name) for name in nodes} for nodes in limit.counts.domains.values() if nodes]
        if any(len(values) > 1 or None in values for values in found):
            return (len(found),)
        return tuple(sorted(Counter(value for values in found for value in values).values()))


def find_limits(manifests: Manifests, ground: Ground | None, policy: Policy) -> Iterator[CoveredLimit]:
    """Yield the limits on shares and numbers of pods that count a manifest's pods, in the policy's order."""
    deployed = ground or Ground(_NOWHERE, manifests)
    view = deployed.deployed
    groups = [_as_deployed(group, is_known=ground is not None) for group in policy.groups]
    knowledge = DomainKnowledge.of(view, policy, NO_MEMORY)
    for limit in evaluate_limits(find_limit_groups(view, groups), view, NO_MEMORY, knowledge):
        owners = dict.fromkeys(part.member.reference for part in limit.parts)
        covered = [deployed.by_workload[owner] for owner in owners if owner in deployed.by_workload]
        if not covered or limit.cap is None or limit.rule.within is not None or limit.rule.domains is not None:
            continue
        if ground is not None:
            yield CoveredLimit(limit, covered, limit.existing, "")
        else:
            zones = _zones_of(limit, policy)
            yield CoveredLimit(limit, covered, None, f"; where zones is {zones}" if zones is not None else "")


def _zones_of(limit: EvaluatedLimit, policy: Policy) -> Condition | None:
    """Return the number of zones in which a limit applies, by its condition in the policy."""
    (group,) = (group for group in policy.groups if group.name == limit.group)
    return next(rule.when.zones for rule in group.limits if rule.name == limit.limit)


def _as_deployed(group: PolicyGroup, *, is_known: bool) -> PolicyGroup:
    """Return a group whose limits count all wanted pods; without a cluster, for any number of zones."""

    def change(limit: Limit) -> Limit:
        when = limit.when if is_known else limit.when.model_copy(update={"zones": None})
        return limit.model_copy(update={"of": Basis.DESIRED, "when": when})

    return group.model_copy(update={"limits": tuple(map(change, group.limits))})
