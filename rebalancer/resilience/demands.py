"""What must be left of each workload: by the policy for all workloads, and by its groups for their own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.policy import Policy, Required
from rebalancer.policy.resilience import GroupResilience


@dataclass(frozen=True, slots=True)
class Demand:
    """What a workload must keep after which losses.

    These are the keys whose domains are lost, the phases, and the number of pods by the strictest demand.
    """

    keys: tuple[str, ...]
    phases: tuple[Phase, ...]
    required: tuple[Required, ...]

    def resolve(self, wanted: int) -> int:
        """Return how many of `wanted` pods must be left."""
        return max(required.resolve(wanted) for required in self.required)


@dataclass(frozen=True, kw_only=True, slots=True)
class Demands:
    """What all workloads must keep, and what workloads with demands of their own must keep."""

    usual: Demand
    others: Mapping[Reference, Demand] = field(default_factory=dict)

    @property
    def keys(self) -> Sequence[str]:
        """The keys whose domains are lost in turn, first the keys for all workloads."""
        asked = (key for demand in self._all for key in demand.keys)
        return list(dict.fromkeys(asked))

    @property
    def phases(self) -> Sequence[Phase]:
        """The phases of a loss that any demand names."""
        asked = {phase for demand in self._all for phase in demand.phases}
        return [phase for phase in Phase if phase in asked]

    def find(self, workload: Reference) -> Demand:
        """Return the demand for a workload."""
        return self.others.get(workload, self.usual)

    @property
    def _all(self) -> Sequence[Demand]:
        return (self.usual, *self.others.values())


def find_demands(policy: Policy, groups: Iterable[LimitGroup]) -> Demands:
    """Return what a policy demands; `groups` are its groups of pods in the current state."""
    usual = Demand(policy.resilience.keys, policy.resilience.phases, (policy.resilience.require,))
    by_workload: dict[Reference, list[GroupResilience]] = {}
    for group in groups:
        own = group.policy_group.resilience
        if own != _SILENT:
            for workload in group.owners:
                by_workload.setdefault(workload, []).append(own)
    return Demands(usual=usual, others={workload: _join(own, usual) for workload, own in by_workload.items()})


_SILENT = GroupResilience()
"""The demand of a group that states none."""


def _join(groups: Sequence[GroupResilience], usual: Demand) -> Demand:
    """Return all that groups demand of one workload; where a group leaves something out, the default applies."""
    each = [
        Demand(
            usual.keys if group.keys is None else group.keys,
            group.phases or usual.phases,
            usual.required if group.require is None else (group.require,),
        )
        for group in groups
    ]
    phases = {phase for demand in each for phase in demand.phases}
    return Demand(
        tuple(dict.fromkeys(key for demand in each for key in demand.keys)),
        tuple(phase for phase in Phase if phase in phases),
        tuple(dict.fromkeys(required for demand in each for required in demand.required)),
    )
