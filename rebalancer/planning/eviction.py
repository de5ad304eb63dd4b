"""An eviction as planning decides it, and its repair: purpose, other evictions of the step, and targets."""

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from rebalancer.model.moves import Reference, Target
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause
from rebalancer.planning.scope.components import Counts


class OutlookSource(Protocol):
    """Computes where a step leads, from the layout or from the nodes that a search followed."""

    def targets(self) -> tuple[Target, ...]:
        """Return for each key the domains in which replacements may be placed."""

    def counts(self) -> Counts | None:
        """Return the counts once the step has taken effect; None if they are not known."""

    def landings(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return which of these nodes may take a replacement; empty if that is not known."""


class Outlook:
    """Where a step leads. Like a `Proof`, it is computed when first read, so a fresh plan does not hold it as data.

    Computing all outlooks with the plan costs 0.34 s for the 5,000 repairs of 150,000 pods, where assess and plan take
    1.2 s: 1.28 times as long. Few cycles read more than the outlooks of the evictions that go now.
    """

    def __init__(self, source: OutlookSource) -> None:
        self._source = source

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """For each key the domains in which replacements may be placed."""
        return self._source.targets()

    @cached_property
    def counts(self) -> Counts | None:
        """The counts once the step has taken effect; None if they are not known."""
        return self._source.counts()

    def landings(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return which of these nodes may take a replacement.

        None if the outlook was read from a file, which has the domains alone.
        """
        return self._source.landings(nodes)

    def __eq__(self, other: object) -> bool:
        """Return whether two outlooks say the same; this computes both."""
        if not isinstance(other, Outlook):
            return NotImplemented
        return self.targets == other.targets and self.counts == other.counts

    def __hash__(self) -> int:
        """Hash the targets."""
        return hash(self.targets)


class ViolatedRequirement(Struct, frozen=True, kw_only=True, gc=False):
    """A violated constraint or limit, as far as it concerns the victims of a step.

    `limit` is the name of a limit with its group, "" for a constraint; `bound` is the limit's bound as documents show
    it, a constraint's maxSkew. `emptiest` is the least count of a domain. `domain` are the counting domains of the
    victims' nodes, `held` their pods.
    """

    key: str
    limit: str
    bound: str
    emptiest: int
    domain: Mapping[str, str]
    held: Mapping[str, int]

    def __hash__(self) -> int:
        """Hash the identity, not the counts: these are mappings, which cannot be hashed."""
        return hash((self.key, self.limit, self.bound, self.emptiest))


class ViolatedTerm(Struct, frozen=True, kw_only=True, gc=False):
    """A violated term of podAntiAffinity, as far as it concerns the victims of a step.

    `declared` are the workloads that declare it; `weight` is 0 for a required term. `domain` are the domains of the
    victims' nodes, `together` the pods that conflict there, by name.
    """

    key: str
    declared: tuple[Reference, ...]
    weight: int = 0
    domain: Mapping[str, str]
    together: Mapping[str, tuple[str, ...]]

    def __hash__(self) -> int:
        """Hash the identity, not the pods: these are in mappings, which cannot be hashed."""
        return hash((self.key, self.declared))


class Preempted(Struct, frozen=True, gc=False):
    """The pods of lower priority that kube-scheduler deletes if it takes this node for a replacement."""

    node: str
    pods: tuple[Pod, ...]


class Repair(Struct, frozen=True, kw_only=True):
    """What the evictions of one step have in common."""

    step: int
    group: str
    cause: Cause
    needed: int = 1
    """A prefix of the step is a step, too, if it has at least this many evictions."""
    forced: bool = True
    """Whether the scheduler can only repay the evictions; otherwise its scores predict that it does."""
    extra: bool = False
    """Whether the step may use the repair's one extra eviction above the minimum."""
    goal: int = 0
    """If more than this many evictions are left after the step, the step did use the extra eviction."""
    lasting: timedelta = timedelta(0)
    """How long the violation must have lasted before a pod is evicted."""
    outlook: Outlook | None = None
    violated: tuple[ViolatedRequirement, ...] = ()
    """The requirements that the step repairs."""
    apart: tuple[ViolatedTerm, ...] = ()
    """The terms of podAntiAffinity that the step repairs."""
    preempts: tuple[Preempted, ...] = ()
    """The outcomes of a repair by preemption: one of them will occur. () for every other repair."""
    added: int = 0
    """In a surge, how many added pods are Ready before the step's pods go in a scale-down; 0 for evictions."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """For each key the domains in which the replacements may be placed."""
        return () if self.outlook is None else self.outlook.targets


class Eviction(Struct, frozen=True, kw_only=True, gc=False):
    """One eviction, a part of a repair's next step."""

    repair: Repair
    pod: Pod
    workload: Reference

    @property
    def step(self) -> int:
        """The step's number in the plan."""
        return self.repair.step

    @property
    def group(self) -> str:
        """The name of the component that the step repairs."""
        return self.repair.group

    @property
    def cause(self) -> Cause:
        """The kind of violation that the step repairs."""
        return self.repair.cause

    @property
    def needed(self) -> int:
        """The least number of the step's pods that must be evicted together."""
        return self.repair.needed

    @property
    def forced(self) -> bool:
        """Whether the scheduler can only repay the step."""
        return self.repair.forced

    @property
    def targets(self) -> tuple[Target, ...]:
        """For each key the domains in which its replacement may be placed."""
        return self.repair.targets

    @property
    def preempted(self) -> tuple[str, ...]:
        """The UIDs of the pods that may be preempted for its replacement, sorted."""
        return tuple(sorted({pod.uid for outcome in self.repair.preempts for pod in outcome.pods}))

    @property
    def concerned(self) -> tuple[str, ...]:
        """The UIDs of the evicted pod and of all pods that may be preempted."""
        return (self.pod.uid, *self.preempted)

    @property
    def owner_uid(self) -> str:
        """The UID of the pod's controller."""
        return self.pod.owner.uid if self.pod.owner else ""
