"""What a person approves in mode Approve, as the memory stores it: a proposal, what it covers, a standing approval."""

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from rebalancer.model.moments import Moment


class CoveredRepair(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A repair that an approval of a whole plan covers, from its first step to its last.

    `component` and `violations` are tokens: of the component's name, and of the constraints and limits that it
    violates. `workloads` are NAMESPACE/KIND/NAME in small letters, those of pods that may be preempted among them.
    `evictions` is how many pods the repair takes away at most, by the plan.
    """

    component: str
    violations: tuple[str, ...]
    workloads: tuple[str, ...]
    evictions: int


class Coverage(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What an approval of a whole plan covers, and the state in which it was proposed.

    `templates` has a token of each covered workload's template, `zones` are those that have a Ready node.
    """

    repairs: tuple[CoveredRepair, ...] = ()
    templates: tuple[tuple[str, str], ...] = ()
    zones: tuple[str, ...] = ()


NO_COVERAGE: Final = Coverage()


class Proposal(Struct, frozen=True, gc=False, kw_only=True):
    """Evictions that wait for the approval of a person, or have it: `uids` are those of the pods, in order.

    `hash` is what a person approves, `policy` the policy's hash. `since` is when it was proposed; once it is approved,
    when that was or when the last of its evictions was admitted. `preempted` are the UIDs of the pods that may be
    preempted for their replacements. `coverage` is what its approval as a whole would cover; an earlier release has
    stored none, and there is none in a memory that was too large.
    """

    hash: str
    policy: str
    since: Moment
    uids: tuple[str, ...]
    approved: bool = False
    preempted: tuple[str, ...] = ()
    coverage: Coverage | UnsetType = UNSET

    @property
    def concerned(self) -> frozenset[str]:
        """The UIDs of all pods that it may cost."""
        return frozenset((*self.uids, *self.preempted))


class StandingApproval(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An approval of the plan with the hash `plan` and of all later steps of its repairs, until its end.

    `id` is the identity of the document that approved it, `by` whom that names. `evictions` is how many pods may be
    taken away, `spent` by token of the evicted pod's UID how many were, or may have been: the pod itself, and those
    that may be preempted for its replacement.
    """

    id: str
    plan: str
    evictions: int
    until: Moment
    since: Moment
    policy: str
    coverage: Coverage
    by: str = ""
    spent: tuple[tuple[str, int], ...] = ()

    @property
    def left(self) -> int:
        """How many pods may still be taken away."""
        return max(0, self.evictions - sum(pods for _, pods in self.spent))
