"""How a violation is repaired: by evictions, or by adding pods before others go."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from rebalancer.policy.base import Section, unexpected
from rebalancer.policy.durations import DAY, Duration, PositiveDuration, at_most
from rebalancer.policy.names import Glob, NamespaceFilter
from rebalancer.policy.selectors import Selector


class RepairMethod(StrEnum):
    """Evict takes a pod away first. Surge adds first. SurgeWhereBlocked adds first where no eviction repairs it."""

    EVICT = "Evict"
    SURGE = "Surge"
    SURGE_WHERE_BLOCKED = "SurgeWhereBlocked"


class RepairBy(Section):
    """By which method the pods of Deployments, and of ReplicaSets without an owner, are moved."""

    method: RepairMethod = RepairMethod.EVICT
    """Evict, Surge, or SurgeWhereBlocked."""
    max_surge: Annotated[int, Field(strict=True, ge=1, le=10)] = 1
    """How many pods are added to a workload at once."""
    settle: Annotated[Duration, at_most(DAY)] = timedelta(seconds=30)
    """How long every pod of a workload must have been Ready before the surplus pods are removed."""
    timeout: Annotated[PositiveDuration, at_most(timedelta(hours=6))] = timedelta(minutes=10)
    """How long added pods may take until all are Ready; after that they are removed again."""
    namespaces: tuple[Glob, ...] = ()
    """Globs of the namespaces where pods are added, such as ["*"]; required unless the method is Evict."""
    over_budget: tuple[Glob, ...] = ()
    """Globs of those among them where a PodDisruptionBudget that allows nothing does not count, as in a scale-down."""
    selector: Selector | None = None
    """Pods whose workloads are repaired by this method; all pods of a workload must match. null or {}: all pods."""

    @model_validator(mode="after")
    def _name_namespaces(self) -> Self:
        if self.method is not RepairMethod.EVICT and not self.namespaces:
            raise unexpected('namespaces with repair.method other than Evict, such as ["*"] for all')
        return self

    def adds_in(self, namespace: str) -> bool:
        """Return whether pods may be added in a namespace."""
        return self.method is not RepairMethod.EVICT and NamespaceFilter(include=self.namespaces).selects(namespace)

    def overrides_budgets_in(self, namespace: str) -> bool:
        """Return whether surplus pods may be removed in a namespace although a budget allows no disruption."""
        return NamespaceFilter(include=self.over_budget).selects(namespace)
