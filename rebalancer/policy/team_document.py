"""The team policy: the document in the ConfigMap `rebalancer-policy` of a team's namespace.

It is read as strictly as the cluster policy, and its size is bounded: a team may not slow down or break the controller
that all teams share. A field that could reach beyond the namespace does not exist here.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from rebalancer.policy.base import Section, unexpected
from rebalancer.policy.groups import PolicyGroup
from rebalancer.policy.teams import TeamBudgets

TEAM_KIND: Final = "TeamPolicy"

LARGEST_TEAM_FILE: Final = 64 * 1024
"""Bytes of a team policy."""

MOST_GROUPS: Final = 10
MOST_LIMITS: Final = 50
"""Groups of a team policy, and limits in all of them: each is evaluated in every cycle."""


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
