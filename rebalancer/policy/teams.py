"""What a team may decide in its own namespace, where the cluster policy allows it: stricter budgets, more limits."""

from typing import Final

from rebalancer.policy.amounts import AmountField
from rebalancer.policy.base import Section
from rebalancer.policy.names import Glob, NamespaceFilter


class TeamPolicies(Section):
    """Where a team may have a policy of its own: the ConfigMap `rebalancer-policy` of its namespace, kind TeamPolicy.

    A team policy makes things stricter, never looser. The namespace of the rebalancer itself never has one.
    """

    namespaces: tuple[Glob, ...] = ()
    """Globs of the namespaces whose team policies are read; []: none."""
    evict: tuple[Glob, ...] = ()
    """Globs of those among them whose limits may have the action Evict; in the others, Evict means Alert."""

    def allows(self, namespace: str) -> bool:
        """Return whether the namespace may have a team policy."""
        return NamespaceFilter(include=self.namespaces).selects(namespace)

    def allows_evict(self, namespace: str) -> bool:
        """Return whether limits of the team policy of the namespace may have the action Evict."""
        return self.allows(namespace) and NamespaceFilter(include=self.evict).selects(namespace)


class TeamBudgets(Section):
    """Budgets for one namespace. The smaller of each and the cluster policy's applies; null: the cluster policy's."""

    max_unavailable: AmountField | None = None
    """Pods of a workload that may be unavailable, whatever the cause; a percentage is of its replicas."""
    per_workload: AmountField | None = None
    """Evictions in flight at once of a workload; a percentage is of its replicas."""
    per_namespace: AmountField | None = None
    """Evictions sent in a cycle in the namespace; a percentage is of the pods in it."""


class TeamRules(Section):
    """What applies in one namespace besides the cluster policy."""

    budgets: TeamBudgets = TeamBudgets()
    """Budgets that apply besides those of the cluster policy."""
    suspended: bool = False
    """Whether nothing is evicted in the namespace, because no valid version of its team policy is known."""


NO_TEAM_RULES: Final = TeamRules()
