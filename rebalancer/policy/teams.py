"""What a team may decide in its own namespace, where the cluster policy allows it: stricter budgets, more limits.

The team policy is the document in the ConfigMap `rebalancer-policy` of the team's namespace. It is read as strictly as
the cluster policy, and its size is bounded: a team may not slow down or break the controller that all teams share. A
field that could reach beyond the namespace does not exist here.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from rebalancer.policy.amounts import AmountField
from rebalancer.policy.base import Section, unexpected
from rebalancer.policy.groups import PolicyGroup
from rebalancer.policy.names import Glob, NamespaceFilter

TEAM_KIND: Final = "TeamPolicy"

LARGEST_TEAM_FILE: Final = 64 * 1024
"""Bytes of a team policy."""

MOST_GROUPS: Final = 10
MOST_LIMITS: Final = 50
"""The most groups of a team policy, and the most limits in them together: each is evaluated in every cycle."""


class TeamPolicies(Section):
    """Where teams may have policies: the ConfigMap `rebalancer-policy` of their namespace, kind TeamPolicy.

    A team policy makes things stricter, never looser. The rebalancer's own namespace never has one.
    """

    namespaces: tuple[Glob, ...] = ()
    """Globs of the namespaces whose team policies are read; []: none."""
    evict: tuple[Glob, ...] = ()
    """Globs of those among them whose limits may have the action Evict; in the others Evict means Alert."""

    def allows(self, namespace: str) -> bool:
        """Return whether the namespace may have a team policy."""
        return NamespaceFilter(include=self.namespaces).selects(namespace)

    def allows_evict(self, namespace: str) -> bool:
        """Return whether limits in the namespace's team policy may have the action Evict."""
        return self.allows(namespace) and NamespaceFilter(include=self.evict).selects(namespace)


class TeamBudgets(Section):
    """Budgets for one namespace. The smaller of a team's and the cluster's budget applies; null: the cluster's."""

    max_unavailable: AmountField | None = None
    """Pods of a workload that may be unavailable, whatever the cause; a percentage is of its replicas."""
    per_workload: AmountField | None = None
    """Evictions in flight at once of a workload; a percentage is of its replicas."""
    per_namespace: AmountField | None = None
    """Evictions sent in the namespace in any window of `interval`, at most a minute; a percentage is of its pods."""


class TeamRules(Section):
    """What applies in one namespace besides the cluster policy."""

    budgets: TeamBudgets = TeamBudgets()
    """Budgets that apply besides those of the cluster policy."""
    suspended: bool = False
    """Whether nothing is evicted in the namespace, because no valid version of its team policy is known."""


NO_TEAM_RULES: Final = TeamRules()


def _validate_groups(groups: "tuple[TeamGroup, ...]") -> "tuple[TeamGroup, ...]":
    if len(groups) > MOST_GROUPS:
        raise unexpected(f"at most {MOST_GROUPS} groups in a team policy, not {len(groups)}")
    limits = sum(len(group.limits) for group in groups)
    if limits > MOST_LIMITS:
        raise unexpected(f"at most {MOST_LIMITS} limits in a team policy, not {limits}")
    return groups


class TeamGroup(PolicyGroup):
    """Pods of the namespace that belong together, across workloads, and their limits."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["namespaces"]}})

    @model_validator(mode="after")
    def _has_no_namespaces(self) -> Self:
        if "namespaces" in self.model_fields_set:
            raise unexpected("no `namespaces`: a group of a team policy has pods of the policy's own namespace only")
        return self


class TeamPolicy(Section):
    """What a team adds to the cluster policy in its own namespace."""

    api_version: Literal["rebalancer.dev/v1alpha1"]
    """The format's version."""
    kind: Literal["TeamPolicy"]
    """The document's kind."""
    budgets: TeamBudgets = TeamBudgets()
    """Budgets for the namespace, smaller than those of the cluster policy."""
    groups: Annotated[tuple[TeamGroup, ...], AfterValidator(_validate_groups)] = Field(
        default=(), json_schema_extra={"maxItems": MOST_GROUPS}
    )
    """Groups of pods of the namespace, at most 10 with at most 50 limits; without `namespaces`."""


NO_TEAM_POLICY: Final = TeamPolicy(api_version="rebalancer.dev/v1alpha1", kind="TeamPolicy")
"""The team policy of a namespace without one: it changes nothing."""
