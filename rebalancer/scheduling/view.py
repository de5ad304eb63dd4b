"""One state of a cluster, actual or hypothetical: the input of every function of this package.

A `View` is made once from a snapshot. Its methods `without`, `with_placed` and `terminating` return hypothetical
states. They share all indexes with the first view and store only the pods whose node differs, as `ViewDelta`s, so a
planner can step through thousands of them. Views are immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple, Self, TypeVar

from msgspec import structs

from rebalancer.model.affinity import PodAffinity, Taint, TaintEffect
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moments import Clock
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload
from rebalancer.scheduling.node_index import NodeCounts, NodeIndex
from rebalancer.scheduling.node_usage import Usage, add_usage, get_charge
from rebalancer.scheduling.population import NO_AFFINITY, NO_COUNTS, PlacedPod, Population, reaches_out
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.versions import VersionRules, get_version_rules

T = TypeVar("T")

SETTLE_AFTER: Final = 1024
"""After this many moved pods the indexes are rebuilt, because the deltas then cost more than they save."""

MOST_SCORED: Final = 64
"""Keys whose scores are stored: thousands of pod classes times thousands of nodes would fill the memory."""

UNREACHABLE: Final = tuple(
    Taint("node.kubernetes.io/unreachable", effect) for effect in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
)
"""Taints that the node controller adds to a node whose kubelet does not report."""


class ViewDelta(NamedTuple):
    """A pod that a node has in addition to the indexes (`sign` 1), or no longer has (-1)."""

    pod: Pod
    node: str
    sign: int
    terminating: bool


def compute_deltas(before: PlacedPod | None, now: PlacedPod) -> Iterable[ViewDelta]:
    """Yield the deltas of moving a pod: one less where the indexes have it, one more on its new node."""
    if before is not None and before.node is not None:
        yield ViewDelta(before.pod, before.node, -1, before.terminating)
    if now.node is not None:
        yield ViewDelta(now.pod, now.node, 1, now.terminating)


def discard_deltas(
    pod: Pod,
    hypothetical: PlacedPod,
    before: PlacedPod | None,
    inside: dict[str, tuple[ViewDelta, ...]],
    on: dict[str, tuple[ViewDelta, ...]],
) -> None:
    """Remove the deltas of an earlier move of a pod."""
    for index, key in (
        (inside, pod.namespace),
        *((on, placed.node) for placed in (hypothetical, before) if placed is not None and placed.node is not None),
    ):
        if key in index:
            index[key] = tuple(change for change in index[key] if change.pod.uid != pod.uid)
            if not index[key]:
                del index[key]


class View:
    """A snapshot, a scheduler profile, and the node of each pod in this state.

    `clock`, if given, has the snapshot's time and is shared by several views.
    """

    def __init__(self, snapshot: Snapshot, profile: Profile = DEFAULT_PROFILE, clock: Clock | None = None) -> None:
        self.snapshot = snapshot
        self.clock = Clock(snapshot.taken_at) if clock is None else clock
        self.profile = profile
        self.rules: VersionRules = get_version_rules(snapshot.version)
        self.nodes = NodeIndex(snapshot.nodes)
        self._memo: dict[Hashable, Any] = {}
        self._population = Population(snapshot.pods, self.nodes.by_name, self.rules, snapshot.runs)
        self._moved: dict[str, PlacedPod] = {}
        self.changes_in: Mapping[str, tuple[ViewDelta, ...]] = {}
        """The deltas to the shared indexes, by namespace."""
        self.changes_on: Mapping[str, tuple[ViewDelta, ...]] = {}
        """The deltas to the shared indexes, by node."""
        self._last_without: tuple[tuple[datetime, tuple[str, ...]], Self] | None = None
        """The last result of `without`, with its time and UIDs."""

    def at(self, moment: datetime) -> Self:
        """Return the same state at a later time, with its cached results as long as these hold."""
        later = copy(self)
        later.snapshot, later.clock = self.snapshot.at(moment), Clock(moment, self.clock.holds_until)
        return later

    # Hypothetical states

    def without(self, pods: Iterable[Pod]) -> Self:
        """Return the state in which these pods are gone.

        The last such state is stored: all classes of a component are evaluated in the state without any of its pods.
        """
        gone = tuple(pods)
        key = self.snapshot.taken_at, tuple(pod.uid for pod in gone)
        if self._last_without is None or self._last_without[0] != key:
            self._last_without = key, self._gone(gone)
        return self._last_without[1]

    def _gone(self, pods: Sequence[Pod]) -> Self:
        if len(pods) <= SETTLE_AFTER or self._moved:
            return self._with_moves((pod, None, False) for pod in pods)
        gone = {pod.uid for pod in pods}
        placed = [one for one in self._population.placed_pods if one.pod.uid not in gone]
        return self._derive(Population(placed, self.nodes.by_name, self.rules), {}, {}, {})

    def with_placed(self, pod: Pod, node: str) -> Self:
        """Return the state in which this pod runs on this node, wherever it was before.

        Its labels stay as they are; the API server would add the zone and region of the node.
        """
        return self._with_moves([(pod, node, False)])

    def terminating(self, pods: Iterable[Pod]) -> Self:
        """Return the state in which these pods are terminating.

        Their resources, ports, volumes and affinity still count; spread no longer counts them.
        """
        return self._with_moves((pod, self.where(pod), True) for pod in pods)

    def without_nodes(self, nodes: Iterable[str]) -> Self:
        """Return the state without these nodes and their pods: they no longer form domains."""
        gone = set(nodes)
        left = tuple(node for node in self.snapshot.nodes if node.name not in gone)
        derived = self._without_pods_of(gone, left)
        derived.changes_on = {node: changes for node, changes in derived.changes_on.items() if node not in gone}
        return derived

    def with_unreachable(self, nodes: Iterable[str]) -> Self:
        """Return the state some minutes after these nodes became unreachable: they run no pods and take none.

        The Node objects stay, and with them their domains, which are then empty.
        """
        silent = set(nodes)
        # No capacity either: a pod that tolerates every taint would be bound there and not run.
        there = tuple(
            structs.replace(node, taints=(*node.taints, *UNREACHABLE), ready=False, ready_since=None, pods=0)
            if node.name in silent
            else node
            for node in self.snapshot.nodes
        )
        derived = self._without_pods_of(silent, there)
        # The capacity of these nodes, like that of changed nodes, is computed again.
        derived.changes_on = {**dict.fromkeys(silent, ()), **derived.changes_on}
        return derived

    def _without_pods_of(self, deserted: Iterable[str], nodes: tuple[Node, ...]) -> Self:
        """Return the state without the pods of some nodes, and with other nodes than before."""
        # A copy, because the stored state without these pods serves both ways of losing the nodes.
        derived = copy(self.without(pod for node in sorted(deserted) for pod in self.pods_on(node)))
        derived._last_without = None  # noqa: SLF001
        # Cached results that depend on the nodes are no longer valid; the index of the other pods and its sums are.
        derived.snapshot, derived.nodes = replace(self.snapshot, nodes=nodes), NodeIndex(nodes)
        derived._memo = {}  # noqa: SLF001
        return derived

    def _with_moves(self, pods: Iterable[tuple[Pod, str | None, bool]]) -> Self:
        moved, inside, on = dict(self._moved), dict(self.changes_in), dict(self.changes_on)
        for pod, node, terminating in pods:
            if node is not None and node not in self.nodes.by_name:
                raise KeyError(f"pod {pod}: node {node!r} not found")
            now = PlacedPod(pod, node, terminating)
            if pod.uid in moved:
                discard_deltas(pod, moved[pod.uid], self._population.placement_of(pod.uid), inside, on)
            for change in compute_deltas(self._population.placement_of(pod.uid), now):
                namespace = change.pod.namespace
                inside[namespace] = (*inside.get(namespace, ()), change)
                on[change.node] = (*on.get(change.node, ()), change)
            moved[pod.uid] = now
        if len(moved) <= SETTLE_AFTER:
            return self._derive(self._population, moved, inside, on)
        placed = list(self._derive(self._population, moved, inside, on).placed_pods())
        return self._derive(Population(placed, self.nodes.by_name, self.rules), {}, {}, {})

    def _derive(
        self,
        population: Population,
        moved: dict[str, PlacedPod],
        changes_in: Mapping[str, tuple[ViewDelta, ...]],
        changes_on: Mapping[str, tuple[ViewDelta, ...]],
    ) -> Self:
        """Return a state of the same snapshot with other pods moved.

        It is not a copy, because results computed from this state's placement do not hold for the new state.
        """
        derived = object.__new__(type(self))
        derived.snapshot, derived.clock, derived.profile = self.snapshot, self.clock, self.profile
        derived.rules, derived.nodes = self.rules, self.nodes
        derived.changes_in, derived.changes_on = changes_in, changes_on
        derived._memo, derived._last_without = self._memo, None  # changed here before anybody else sees the view
        derived._population, derived._moved = population, moved
        return derived

    # Pods and their nodes

    def where(self, pod: Pod) -> str | None:
        """Return the pod's node in this state, None without one."""
        placed = self._moved.get(pod.uid) or self._population.placement_of(pod.uid)
        return placed.node if placed is not None else None

    def placed_pods(self) -> Iterable[PlacedPod]:
        """Yield every pod that is on a node in this state."""
        moved = self._moved
        yield from (placed for placed in self._population.placed_pods if placed.pod.uid not in moved)
        yield from (placed for placed in moved.values() if placed.node is not None)

    @property
    def all_on_nodes(self) -> bool:
        """Whether every pod of the snapshot that names a node is known to be on an existing node."""
        return self._population.all_on_nodes and self._population.nodes is self.nodes.by_name

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return the pods on a node, including terminating pods."""
        changes = self.changes_on.get(node)
        pods = self._population.on[node]
        if changes is None:
            return pods
        gone = {change.pod.uid for change in changes if change.sign < 0}
        return [pod for pod in pods if pod.uid not in gone] + [change.pod for change in changes if change.sign > 0]

    def owner_named(self, group: str, kind: str, namespace: str, name: str) -> Workload | None:
        return self.memo("owners", self._owners).get((group, kind, namespace, name))

    def _owners(self) -> Mapping[tuple[str, str, str, str], Workload]:
        return {
            (workload.group, workload.kind, workload.namespace, workload.name): workload
            for workload in self.snapshot.workloads
        }

    # Counting

    def live(self, namespace: str, selector: LabelSelector) -> Mapping[str, int]:
        """Count matching pods that are not terminating, by node; nodes without matching pods are absent."""
        sets = self._population.live.get(namespace)
        counts = sets.per_node(selector) if sets is not None else NO_COUNTS
        return self._apply_deltas(counts, namespace, selector, terminating=(False,))

    def live_alike(self, namespace: str, labels: Labels, number: int) -> NodeCounts | None:
        """Count by node the pods of an owner that are known to have these labels and a node, `number` in all.

        Nearly all pods with these labels belong to that owner; then the counts are the result of `live`. None if they
        do not, or if pods have moved.
        """
        sets = self._population.live.get(namespace)
        if sets is None or not self.all_on_nodes or namespace in self.changes_in:
            return None
        return sets.counts_of(labels) if len(sets.nodes_of.get(labels, ())) == number else None

    def present(self, namespace: str, selector: LabelSelector) -> Mapping[str, int]:
        """Count matching pods by node, including terminating pods."""
        sets = self._population.live.get(namespace)
        counts = sets.per_node(selector) if sets is not None else NO_COUNTS
        ending = self._population.terminating.get(namespace)
        if ending is not None:
            counts = _sum(counts, ending.per_node(selector))
        return self._apply_deltas(counts, namespace, selector, terminating=(False, True))

    def _apply_deltas(
        self, counts: Mapping[str, int], namespace: str, selector: LabelSelector, terminating: tuple[bool, ...]
    ) -> Mapping[str, int]:
        changes = self.changes_in.get(namespace)
        if changes is None:
            return counts
        adjusted: dict[str, int] | None = None
        matches: dict[Labels, bool] = {}
        for pod, node, sign, ending in changes:
            if ending not in terminating:
                continue
            matching = matches.get(pod.labels)
            if matching is None:
                matching = matches[pod.labels] = selector.matches(pod.labels)
            if matching:
                if adjusted is None:
                    adjusted = dict(counts)
                adjusted[node] = adjusted.get(node, 0) + sign
        if adjusted is None:
            return counts
        return {node: count for node, count in adjusted.items() if count}

    def affine_towards(self, namespace: str) -> Iterable[tuple[str, PodAffinity, Mapping[str, int]]]:
        """Yield pods with affinity terms that may select a pod of this namespace: (their namespace, terms, by node)."""
        near = {namespace, *self.changes_in}
        for other in near:
            for affinity, places in self._find_affine_pods(other).items():
                if other == namespace or reaches_out(affinity):
                    yield other, affinity, places
        for other, known in self._population.reaching.items():
            if other not in near:
                yield from ((other, affinity, places) for affinity, places in known.items())

    def repelling(self, pod: Pod) -> Iterable[tuple[str, PodAffinity, Mapping[str, int]]]:
        """Yield pods whose anti-affinity may select this pod: (their namespace, terms, by node)."""
        meant = {*self._population.repelling(pod.namespace, pod.labels), *self._affine_changes}
        for other, affinity in meant:
            if affinity.anti_required:
                yield other, affinity, self._count_by_node(other, affinity)

    def count_label_sets(self, namespace: str) -> int:
        """Return the number of distinct label sets of a namespace's pods that count for spread."""
        sets = self._population.live.get(namespace)
        return len(sets.nodes_of) if sets is not None else 0

    def find_label_sets(self, namespace: str, selector: LabelSelector) -> Iterable[Labels]:
        """Return the label sets that a selector matches, among the pods of a namespace that are not terminating.

        They are the snapshot's: a pod that has moved keeps its labels.
        """
        sets = self._population.live.get(namespace)
        return sets.matching(selector) if sets is not None else ()

    def find_unread(self, pod: Pod) -> str | None:
        """Return a namespace whose pods have unread affinity terms that may select this pod, or None."""
        return self._population.find_unread(pod.namespace, pod.labels)

    def _count_by_node(self, namespace: str, affinity: PodAffinity) -> Mapping[str, int]:
        places: Mapping[str, int] = self._population.affine.get(namespace, {}).get(affinity, NO_COUNTS)
        changed = self._affine_changes.get((namespace, affinity))
        return places if changed is None else _sum(places, changed)

    @cached_property
    def _affine_changes(self) -> Mapping[tuple[str, PodAffinity], Mapping[str, int]]:
        """Changes of the number of pods with affinity terms, by node, for the namespaces with changes."""
        counts: dict[tuple[str, PodAffinity], dict[str, int]] = {}
        for namespace, changes in self.changes_in.items():
            for pod, node, sign, _ in changes:
                if pod.spec.pod_affinity != NO_AFFINITY:
                    of = counts.setdefault((namespace, pod.spec.pod_affinity), {})
                    of[node] = of.get(node, 0) + sign
        return counts

    def _find_affine_pods(self, namespace: str) -> Mapping[PodAffinity, Mapping[str, int]]:
        known = self._population.affine.get(namespace, {})
        changed = [affinity for inside, affinity in self._affine_changes if inside == namespace]
        return {**known, **{affinity: self._count_by_node(namespace, affinity) for affinity in changed}}

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Namespaces that hold pods the scheduler knows of."""
        population = self._population
        return frozenset({*population.live, *population.terminating, *self.changes_in})

    # Capacity

    def used(self, node: str) -> Usage:
        """Return the resources in use on a node."""
        before = self._population.used(node)
        changes = self.changes_on.get(node)
        if changes is None:
            return before
        return add_usage(((get_charge(change.pod, self.rules), change.sign) for change in changes), before)

    def fitting_nodes(self, key: Hashable, fits: Callable[[Node, Usage], bool]) -> frozenset[str]:
        """Return the nodes for which `fits` holds; computed once for each `key`."""
        nodes = self._population.fitting_nodes(key, fits)
        changed = self.changes_on
        if not changed:
            return nodes
        by_name = self.nodes.by_name
        return nodes.difference(changed).union(node for node in changed if fits(by_name[node], self.used(node)))

    def scored_nodes(
        self, key: Hashable, score: Callable[[View, Sequence[str]], Mapping[str, int]]
    ) -> Mapping[str, int]:
        """Return a score by node that depends on what runs there; computed once for each `key`.

        Only nodes on which pods have moved are scored again. The scores of the last `MOST_SCORED` keys are stored.
        """
        known = self._population.scored
        scored = known.get((self.nodes, key))
        if scored is None:
            if len(known) == MOST_SCORED:
                del known[next(iter(known))]
            before = self._derive(self._population, {}, {}, {})
            scored = known[self.nodes, key] = score(before, tuple(self.nodes.by_name))
        changed = self.changes_on
        return {**scored, **score(self, tuple(changed))} if changed else scored

    def claim_users(self, namespace: str, name: str) -> int:
        """Return how many pods use a claim, including terminating pods."""
        changes = self.changes_in.get(namespace, ())
        moved = sum(change.sign for change in changes if name in change.pod.claims)
        return self._population.claim_users.get((namespace, name), 0) + moved

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, from the cache that all views of one snapshot share.

        Only for results that do not depend on where pods are.
        """
        cached = self._memo.get(key)
        if cached is None:
            cached = self._memo[key] = make()
        answer: T = cached
        return answer


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> Mapping[str, int]:
    total = dict(left)
    for node, count in right.items():
        total[node] = total.get(node, 0) + count
    return {node: count for node, count in total.items() if count}
