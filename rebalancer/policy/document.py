"""The policy document: its fields, its hash and its full text."""

import hashlib
import json
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field

from rebalancer.model.affinity import TermKind
from rebalancer.model.modes import Mode
from rebalancer.model.yaml_text import dump_yaml
from rebalancer.policy.base import Section
from rebalancer.policy.breaker import Breaker
from rebalancer.policy.capacity import Capacity
from rebalancer.policy.durations import DAY, PositiveDuration, at_most
from rebalancer.policy.groups import PolicyGroup, make_default_groups
from rebalancer.policy.guards import Guards
from rebalancer.policy.prevention import Prevention
from rebalancer.policy.repair import RepairBy
from rebalancer.policy.resilience import Resilience
from rebalancer.policy.sections import AntiAffinity, Budgets, Eligibility, Nodes, Scheduler, Spread
from rebalancer.policy.teams import NO_TEAM_RULES, TeamPolicies, TeamRules
from rebalancer.policy.topology import Topology
from rebalancer.policy.windows import Window

API_VERSION: Literal["rebalancer.dev/v1alpha1"] = "rebalancer.dev/v1alpha1"
KIND: Literal["RebalancePolicy"] = "RebalancePolicy"


class Policy(Section):
    """What the rebalancer may do, and to which pods."""

    api_version: Literal["rebalancer.dev/v1alpha1"]
    """The format's version."""
    kind: Literal["RebalancePolicy"]
    """The document's kind."""
    mode: Mode = Mode.OBSERVE
    """Observe reports and evicts nothing; Approve carries out what a person approves, Evict all plans."""
    interval: Annotated[PositiveDuration, at_most(DAY)] = timedelta(seconds=60)
    """The time from one cycle to the next."""
    plan_ttl: Annotated[PositiveDuration, at_most(DAY)] = Field(default=timedelta(minutes=15), alias="planTTL")
    """How long a plan is valid after it was made (`expiresAt`)."""
    scheduler: Scheduler = Scheduler()
    """The scheduler that places the replacements."""
    spread: Spread = Spread()
    """Which violated topologySpreadConstraints are repaired."""
    anti_affinity: AntiAffinity = AntiAffinity()
    """Which violated terms of podAntiAffinity are repaired."""
    groups: tuple[PolicyGroup, ...] = ()
    """Pods that belong together, across workloads, and their limits."""
    eligibility: Eligibility = Eligibility()
    """Which pods may be evicted."""
    budgets: Budgets = Budgets()
    """How many pods may be unavailable, and how many evictions are sent, at a time."""
    repair: RepairBy = RepairBy()
    """Whether pods are added before others go."""
    nodes: Nodes = Nodes()
    """Which nodes may receive replacements."""
    topology: Topology = Topology()
    """Domains that exist although no node carries them now."""
    capacity: Capacity = Capacity()
    """Whether capacity is requested from an autoscaler before anything is evicted into it."""
    prevention: Prevention = Prevention()
    """Prevents skew by scale-downs."""
    resilience: Resilience = Resilience()
    """What must be left of each workload when a domain is lost."""
    windows: tuple[Window, ...] = ()
    """When evictions are allowed: while one of these windows is open; []: always."""
    breaker: Breaker = Breaker()
    """The bounds beyond which the cluster counts as in trouble, and nothing is evicted."""
    guards: Guards = Guards()
    """Queries that a Prometheus must answer as expected before each step."""

    team_policies: TeamPolicies = TeamPolicies()
    """In which namespaces teams may add limits and tighten budgets."""

    @property
    def cluster(self) -> "Policy":
        """The policy without what team policies add: here, the policy itself."""
        return self

    def rules_of(self, namespace: str) -> TeamRules:
        """Return what the team policy of a namespace adds, besides its groups: here nothing."""
        del namespace
        return NO_TEAM_RULES

    @cached_property
    def hash(self) -> str:
        """Sixteen hexadecimal digits; policies with equal values have equal hashes, however they are written."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def __copy__(self) -> Self:
        """Return a copy without the computed hash, because `model_copy` changes fields of it."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return cast("Self", type(self).model_construct(set(self.model_fields_set), **values))

    def to_dict(self) -> dict[str, Any]:
        """Return the document with every default filled in, with the file's field names and JSON's types only."""
        return self.model_dump(mode="json", by_alias=True)

    def to_yaml(self) -> str:
        """Return the document with every default filled in, as a file that `load_policy` can read."""
        return dump_yaml(self.to_dict(), allow_unicode=True, width=120)


def default_policy() -> Policy:
    """Return the default policy: it observes, has one group with two limits, and knows required anti-affinity."""
    apart = AntiAffinity(act_on=(TermKind.REQUIRED,))
    return Policy(api_version=API_VERSION, kind=KIND, groups=make_default_groups(), anti_affinity=apart)
