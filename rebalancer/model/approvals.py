"""Approvals of mode Approve as the memory stores them: a proposal, its coverage, a standing approval."""

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from rebalancer.model.moments import Moment


class CoveredRepair(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A repair that an approval of a whole plan covers, from its first step to its last."""

    component: str
    """A token of the component's name."""
    violations: tuple[str, ...]
    """Tokens of the constraints and limits that the component violates."""
    workloads: tuple[str, ...]
    """NAMESPACE/KIND/NAME in small letters, including the workloads of pods that may be preempted."""
    evictions: int
    """How many pods the repair takes away at most, according to the plan."""


class Coverage(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What an approval of a whole plan covers, and the state in which it was proposed.

    `templates` has a token of each covered workload's template. `zones` are the zones with a Ready node.
    """

    repairs: tuple[CoveredRepair, ...] = ()
    templates: tuple[tuple[str, str], ...] = ()
    zones: tuple[str, ...] = ()


NO_COVERAGE: Final = Coverage()


class Proposal(Struct, frozen=True, gc=False, kw_only=True):
    """Evictions that wait for a person's approval, or are approved."""

    hash: str
    """The hash that a person approves."""
    policy: str
    """The policy's hash."""
    since: Moment
    """When it was proposed.

    Once approved: when that was, or when the last of its evictions was admitted.
    """
    uids: tuple[str, ...]
    """The UIDs of the pods, in order."""
    approved: bool = False
    preempted: tuple[str, ...] = ()
    """The UIDs of the pods that may be preempted for the replacements."""
    coverage: Coverage | UnsetType = UNSET
    """What its approval as a whole would cover.

    An earlier release stored no coverage, and a memory that was too large has none.
    """

    @property
    def concerned(self) -> frozenset[str]:
        """The UIDs of all pods that may be evicted or preempted."""
        return frozenset((*self.uids, *self.preempted))


class StandingApproval(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An approval of the plan with the hash `plan` and of all later steps of its repairs, until its end."""

    id: str
    """The identity of the document that approved the plan."""
    plan: str
    evictions: int
    """How many pods may be taken away."""
    until: Moment
    since: Moment
    policy: str
    coverage: Coverage
    by: str = ""
    """The person whom the document names."""
    spent: tuple[tuple[str, int], ...] = ()
    """How many pods were taken away, or may have been, by token of the evicted pod's UID.

    Counted are the evicted pod, and the pods that may be preempted for its replacement.
    """

    @property
    def left(self) -> int:
        """How many pods may still be taken away."""
        return max(0, self.evictions - sum(pods for _, pods in self.spent))
