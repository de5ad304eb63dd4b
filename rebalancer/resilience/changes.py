"""The cheapest change of each kind after which a workload is whole for certain, whichever domain is lost.

Problem: which constraint to loosen, how far, or how many nodes to add. Idea: try changes of a kind, the cheapest first.
Bound each loss with the change anew (`bounds`), beginning with the loss that refuted the last change. The first change
that holds is the cheapest that does: no order of the bounds in maxSkew or in nodes is assumed. A change holds if the
workload keeps all its pods after every loss, and no other workload has a lower guarantee than before. Nodes that are
silent already are taken to stay so, and their pods to be replaced (`settled`): otherwise nothing would be certain of
these pods.

Example: 4, 4 and 4 pods, maxSkew 1, the third zone silent. With nodeTaintsPolicy: Honor the lost zone is no domain; or
maxSkew 6 allows 6 and 6 beside 0. Two kinds together are tried only if neither holds alone.

Cost: bounding a loss of 150,000 pods takes half a second for one workload and two seconds for all. So a search takes 30
s there, and mostly less than 1 s in small clusters. Its work is limited, and the answer says when the limit was
reached.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from msgspec import Struct, structs

from rebalancer.model.facts import Fact
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.spread import InclusionPolicy
from rebalancer.model.workloads import PodTemplate
from rebalancer.resilience.bounds import find_guarantees
from rebalancer.resilience.changed import (
    Change,
    ChangedConstraint,
    MoreNodes,
    find_changeable,
    find_kinds_of_nodes,
    find_template,
    is_shared,
)
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.least_skews import find_least_skew
from rebalancer.resilience.loss import Loss, lose
from rebalancer.resilience.reason import StaysTerminating
from rebalancer.resilience.rows import LostDomain, Verdict, choose_domains
from rebalancer.resilience.settled import Settled, settle
from rebalancer.scheduling.view import View

MOST_NODES: Final = 10
"""At most this many additional nodes are tried."""

_MORE_SKEW: Final = 4
"""maxSkew is tried up to this far above the least value that the counts allow."""

_WORK: Final = 3_000
"""Losses made or bounded at most for a named workload; a loss counts once more for each `_SIZE` pods and nodes."""

_WORK_OF_ALL: Final = 400
"""The same limit for all workloads together where none is named."""

_SIZE: Final = 5_000

_MOST_WORKLOADS: Final = 10
"""Without named workloads, changes are searched for this many at most; in clusters above `_LARGEST`, for none."""

_LARGEST: Final = 20_000
"""Pods and nodes."""

Place = tuple[str, str, Phase]
"""A loss: key, value, phase."""


class Changes(Struct, frozen=True, kw_only=True, gc=False):
    """The cheapest change of each kind that holds.

    If no change is needed once the pods of the `silent` nodes are replaced, the only change is an empty one.
    `complete`: all changes were tried. `group` is the kind's group. `obstacle` says why no change was tried; it is None
    if any was.
    """

    workload: Reference
    group: str
    changes: tuple[Change, ...]
    complete: bool
    silent: int = 0
    obstacle: Fact | None = None


class WorkDoneError(Exception):
    """The search for one workload has reached its work limit."""


def find_all_changes(
    view: View, keys: Sequence[str], phases: Sequence[Phase], losses: Iterable[LostDomain], *, named: bool
) -> tuple[Sequence[Changes], int]:
    """Return the changes for the workloads at risk, worst first, and how many workloads were not searched.

    `named`: somebody has asked about these workloads only.
    """
    failed: dict[Reference, list[Place]] = {}
    worst: dict[Reference, float] = {}
    for loss in losses:
        for row in loss.rows:
            if row.verdict is not Verdict.YES:
                failed.setdefault(row.workload, []).append((loss.key, loss.value, loss.phase))
                worst[row.workload] = min(worst.get(row.workload, 1.0), row.guaranteed / row.wanted)
    chosen = sorted(failed, key=lambda workload: (worst[workload], workload))
    if not named:
        small = len(view.snapshot.pods) + len(view.snapshot.nodes) <= _LARGEST
        chosen = chosen[: _MOST_WORKLOADS if small else 0]
    found, left = list[Changes](), _WORK_OF_ALL
    settled = settle(view) if chosen else Settled(view)
    for workload in chosen:
        work = _WORK if named else left
        trials = _Trials(settled.view, keys, phases, workload, failed[workload], work)
        changes = _find_changes(trials, settled.silent)
        left -= work - max(0, trials.left)
        if named or changes.complete or changes.changes:
            found.append(changes)
    return found, len(failed) - len(found)


def _find_changes(trials: "_Trials", silent: int) -> Changes:
    """Return what makes a workload whole, as far as the work limit allows."""
    known = find_template(trials.workload, trials.view)
    found: list[Change] = []
    complete, obstacle = True, None
    try:
        obstacle = trials.find_obstacle()
        if obstacle is None:
            for change in _find_cheapest(trials, known[1] if known is not None else PodTemplate(), silent):
                found.append(change)  # noqa: PERF402 - those found before the search ends are kept
    except WorkDoneError:
        complete = False
    return Changes(
        workload=trials.workload,
        group=known[0].group if known is not None else "",
        changes=tuple(found),
        complete=complete,
        silent=silent,
        obstacle=obstacle,
    )


def _find_cheapest(trials: "_Trials", template: PodTemplate, silent: int) -> Iterator[Change]:
    if silent and trials.holds(Change()):
        yield Change()
        return
    yield from _Search(trials, template).find_cheapest()


class _Trials:
    """Tests whether changes hold, and counts the work that this takes."""

    def __init__(
        self,
        view: View,
        keys: Sequence[str],
        phases: Sequence[Phase],
        workload: Reference,
        failed: Sequence[Place],
        work: int,
    ) -> None:
        self.view: Final = view
        self.workload: Final = workload
        self.keys: Final = keys
        self._phases = phases
        self._failed = failed
        self._refuting: Place | None = None
        self.left = work
        self._cost = 1 + (len(view.snapshot.pods) + len(view.snapshot.nodes)) // _SIZE
        self._added: tuple[tuple[MoreNodes, ...], View] = ((), view)
        self._losses: dict[Place, Loss] = {}

    def lose(self, place: Place, change: Change) -> Loss:
        """Return a loss with a change applied."""
        view = self._add_nodes(change)
        if place not in self._losses:
            self._spend()
            key, value, phase = place
            self._losses[place] = lose(view, view.nodes.groups(key)[value], phase)
        return change.change_loss(self._losses[place], self.workload)

    def _add_nodes(self, change: Change) -> View:
        """Return the state with the nodes of a change; the last such state is cached with its losses."""
        if change.nodes != self._added[0]:
            self._added, self._losses = (change.nodes, change.change_view(self.view)), {}
        return self._added[1]

    def lose_failed(self, change: Change, key: str = "") -> Iterator[Loss]:
        """Yield the losses, of one key or of all keys, after which the workload is not whole despite a change."""
        for place in self._failed:
            if key in {"", place[0]}:
                yield self.lose(place, change)

    def find_obstacle(self) -> Fact | None:
        """Return why no change helps: its pods are not replaced, or no bound can be computed for them."""
        for loss in self.lose_failed(Change()):
            own = [number for number, one in enumerate(loss.services) if one.workload == self.workload]
            services = [loss.services[number] for number in own]
            kept = sum(one.wanted - one.bound - one.pending for one in services)
            if kept > 0:
                return StaysTerminating(kept)
            unknown = Competition(loss).unknown
            obstacle = next((unknown[number] for number in own if unknown.get(number) is not None), None)
            if obstacle is not None:
                return obstacle
        return None

    def holds(self, change: Change) -> bool:
        """Return whether the workload is whole after every loss.

        No other workload may keep less than without the change.
        """
        domains = {key: choose_domains(key, self._add_nodes(change)) for key in self.keys}
        places = [(key, value, phase) for key in self.keys for value in domains[key] for phase in self._phases]
        refuted = next((place for place in sorted(places, key=self._rank) if not self._is_whole(place, change)), None)
        if refuted is not None:
            self._refuting = refuted
            return False
        return all(self._is_no_worse(place, change) for place in places)

    def _rank(self, place: Place) -> tuple[bool, bool]:
        """Return a sort key that puts the losses that refute most changes first."""
        return place != self._refuting, place not in self._failed

    def _is_whole(self, place: Place, change: Change) -> bool:
        loss = self.lose(place, change)
        own = {number for number, one in enumerate(loss.services) if one.workload == self.workload}
        kept, wanted = self._bound(loss, own), _sum_wanted(loss)
        return kept[self.workload] >= wanted[self.workload]

    def _is_no_worse(self, place: Place, change: Change) -> bool:
        """Return whether this workload keeps all its pods, and no other one keeps less than without the change."""
        loss = self.lose(place, change)
        kept, wanted = self._bound(loss), _sum_wanted(loss)
        least = {**self._keep_unchanged(place), self.workload: wanted[self.workload]}
        return all(kept[one] >= min(least.get(one, 0), wanted[one]) for one in wanted)

    def _keep_unchanged(self, place: Place) -> Mapping[Reference, int]:
        """Return what each workload is guaranteed without a change; the searches for all workloads share it."""
        key, value, phase = place
        nodes = self.view.nodes.groups(key).get(value)
        if nodes is None:
            return {}
        return self.view.memo(("guaranteed", *place), lambda: self._bound(lose(self.view, nodes, phase)))

    def _bound(self, loss: Loss, only: Collection[int] | None = None) -> Mapping[Reference, int]:
        self._spend()
        return _sum_guaranteed(loss, find_guarantees(loss, only))

    def _spend(self) -> None:
        self.left -= self._cost
        if self.left < 0:
            raise WorkDoneError


def _sum_wanted(loss: Loss) -> Mapping[Reference, int]:
    wanted: dict[Reference, int] = {}
    for service in loss.services:
        if service.workload is not None:
            wanted[service.workload] = wanted.get(service.workload, 0) + service.wanted
    return wanted


def _sum_guaranteed(loss: Loss, guarantees: Sequence[int]) -> Mapping[Reference, int]:
    kept: dict[Reference, int] = {}
    for service, many in zip(loss.services, guarantees, strict=True):
        if service.workload is not None:
            kept[service.workload] = kept.get(service.workload, 0) + many
    return kept


class _Search:
    """The changes of a workload in the order of their costs."""

    def __init__(self, trials: _Trials, template: PodTemplate) -> None:
        self._trials = trials
        loss = next(trials.lose_failed(Change()))
        sample = next(one.sample for one in loss.services if one.workload == trials.workload)
        self._constraints = [*find_changeable(template, sample)]
        spread = template.spec.spread
        self._skews = {one.index: spread[one.index].max_skew for one in self._constraints}
        ignored = InclusionPolicy.IGNORE
        self._ignoring = [one for one in self._constraints if spread[one.index].node_taints_policy is ignored]
        keys = [key for key in (*trials.keys, *[one.key for one in self._constraints]) if is_shared(key, trials.view)]
        self._nodes = _count_nodes(find_kinds_of_nodes(sample, trials.view, keys[0] if keys else ""))

    def find_cheapest(self) -> Iterator[Change]:
        """Yield the first change of each kind that holds; combine two kinds only if neither holds by itself."""
        is_found = False
        for change in self._find_first([self._honoring(), self._with_skews(Change()), self._with_nodes([Change()])]):
            yield change
            is_found = True
        if not is_found:
            both = (change for honoring in self._honoring() for change in self._with_skews(honoring))
            yield from self._find_first([both, self._with_nodes([*self._honoring()]), self._with_nodes_and_skews()])

    def _find_first(self, kinds: Iterable[Iterable[Change]]) -> Iterator[Change]:
        for kind in kinds:
            change = next((one for one in kind if self._trials.holds(one)), None)
            if change is not None:
                yield change

    def _honoring(self) -> Iterator[Change]:
        """Yield changes to nodeTaintsPolicy: Honor, those of few constraints first."""
        for many in range(1, len(self._ignoring) + 1):
            for chosen in combinations(self._ignoring, many):
                yield Change(constraints=tuple(structs.replace(one, honor=True) for one in chosen))

    def _with_skews(self, change: Change, more: int = _MORE_SKEW) -> Iterator[Change]:
        """Yield changes with larger values of maxSkew, in ascending order of their sum.

        The first is the least that the counts allow.
        """
        least = [self._find_least(one, change) for one in self._constraints]
        for total in range(more + 1):
            for added in _split(total, len(least)):
                skews = [one + extra for one, extra in zip(least, added, strict=True)]
                if skews != [*self._skews.values()]:
                    yield self._set_skews(change, skews)

    def _find_least(self, constraint: ChangedConstraint, change: Change, key: str = "") -> int:
        losses = self._trials.lose_failed(change, key)
        return find_least_skew(constraint, self._skews[constraint.index], losses, self._trials.workload)

    def _is_closed(self, change: Change) -> bool:
        """Return whether nodes cannot help: the counts refute the change when a domain of the nodes' key is lost.

        An additional node is in an existing domain, and is lost with it.
        """
        shared = [one for one in self._constraints if is_shared(one.key, self._trials.view)]
        return any(self._find_least(one, change, one.key) > self._skews[one.index] for one in shared)

    def _set_skews(self, change: Change, skews: Collection[int]) -> Change:
        changed = {one.index: one for one in change.constraints}
        for constraint, skew in zip(self._constraints, skews, strict=True):
            if skew != self._skews[constraint.index]:
                base = changed.get(constraint.index, constraint)
                changed[constraint.index] = structs.replace(base, max_skew=skew)
        return structs.replace(change, constraints=tuple(changed[index] for index in sorted(changed)))

    def _with_nodes(self, changes: Sequence[Change]) -> Iterator[Change]:
        """Yield changes with additional nodes, the fewest first."""
        opened = [change for change in changes if not self._is_closed(change)]
        for nodes in self._nodes if opened else ():
            for change in opened:
                yield structs.replace(change, nodes=nodes)

    def _with_nodes_and_skews(self) -> Iterator[Change]:
        for nodes in self._nodes:
            yield from self._with_skews(Change(nodes=nodes), more=1)


def _split(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as a sum of this many numbers."""
    if parts == 1:
        yield (total,)
    for first in range(total + 1) if parts > 1 else ():
        for rest in _split(total - first, parts - 1):
            yield first, *rest


def _count_nodes(kinds: Sequence[Sequence[str]]) -> Sequence[tuple[MoreNodes, ...]]:
    """Return which nodes may be added, fewest first: all of one kind, or equally many in each of some domains."""
    more = [
        tuple(MoreNodes(number=number, like=like) for like in kind)
        for kind in kinds
        for number in range(1, MOST_NODES // len(kind) + 1)
    ]
    return sorted(more, key=lambda nodes: sum(one.number for one in nodes))
