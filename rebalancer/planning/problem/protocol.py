"""The interface of a component's problem, for pods of one class and of several.

A problem is a component whose pods are eligible, with the pods that may move and the capacity of the nodes.
`decision.decide` works on both kinds, with other methods for each. This module declares what both kinds provide.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, Self

from msgspec import Struct

from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.planning.diagnosis.relaxation import Relaxable
from rebalancer.planning.eviction import OutlookSource, Preempted
from rebalancer.planning.plan import Proof
from rebalancer.planning.scope.components import Component
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.victims import Allowed, Victim
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.search.report import Attempt
from rebalancer.planning.steps.lookahead import LookaheadModel


class ProvedMinimum(Struct, frozen=True, gc=False):
    """The evictions that the repair takes, the proved lower bound, and why no fewer are enough."""

    evictions: int
    lower_bound: int
    proof: Proof


class Infeasible(Struct, frozen=True, gc=False):
    """Why no repair exists; `relaxable` is a component for which a relaxation can be searched, else None."""

    state: State
    refusal: Refusal
    relaxable: Relaxable | None = None


class Step(Struct, frozen=True, gc=False, kw_only=True):
    """The victims of a step; every prefix of at least `needed` victims is a step, too."""

    victims: tuple[Victim, ...] = ()
    needed: int = 1
    concurrent: int = 1
    """How many evictions may be under way at once, including evictions that follow a stuck replacement."""
    extra: int = 0
    """By how many evictions the whole repair may exceed the minimum.

    If positive, it is proved that no order of evictions is certain to reach the minimum.
    """
    nodes: frozenset[str] | None = None
    """The nodes that may take replacements, None if counting alone shows them."""
    preempts: tuple[Preempted, ...] = ()
    """The outcomes of a step by preemption: one of them will occur."""
    added: int = 0


class StepSearch(Struct, frozen=True, gc=False, kw_only=True):
    """The result of a search for a step: the step, None if there is none, and the methods that were tried.

    Without a step, `refusal` and `state` say why, if that is known; otherwise `complete` says whether every candidate
    was visited. `final`: no other search can find a step either.
    """

    step: Step | None = None
    attempts: tuple[Attempt, ...] = ()
    refusal: Refusal | None = None
    state: State = State.VIOLATED
    final: bool = False
    complete: bool = True


class Reservation(Struct, frozen=True, gc=False):
    """Capacity that replacements may take: `pods` pods like `sample` on each of the nodes."""

    nodes: frozenset[str]
    sample: Pod
    pods: int


class Problem(Protocol):
    """One component's problem."""

    @property
    def component(self) -> Component:
        """The constraints and limits that are repaired together, with their workloads."""

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What is required of its pods."""

    @property
    def pods(self) -> PodPartition:
        """The component's pods: which may move, which stay, which are pending."""

    @property
    def always_looks_ahead(self) -> bool:
        """Whether every search examines the real nodes; then the component is planned after the others."""

    @property
    def victims(self) -> Iterable[Victim]:
        """The pods that may move."""

    def within(self, allowed: Mapping[str, Allowed], latest: Allowed) -> Self:
        """Return the problem with only those pods movable whose eviction is `allowed`, by UID, by `latest`."""

    def minimum(self) -> ProvedMinimum | Infeasible:
        """Return the minimum number of evictions, or why no repair exists."""

    def lookahead_model(self, budget: SearchBudget) -> LookaheadModel:
        """Return the model for a search on the real nodes; solving supposed states spends `budget`."""

    def reservations(self, victims: Sequence[Victim]) -> Iterable[Reservation]:
        """Return the capacity that the replacements of these victims may take."""

    def landings(self, step: Step, nodes: frozenset[str]) -> frozenset[str]:
        """Return which of these nodes may take a replacement of the step."""

    def outlook(self, step: Step) -> OutlookSource:
        """Return the outlook of a step, which is computed when read."""
