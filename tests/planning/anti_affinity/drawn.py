"""Clusters with anti-affinity that is not honoured, drawn, and an oracle of its own: pairs, placements and subsets.

Nothing of the package is asked who conflicts with whom: a term is read by its labels and namespaces here once more.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations, product
from random import Random

from msgspec import structs

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, PreferredPodTerm
from rebalancer.model.labels import LabelSelector
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import change_specs

APPS = "abc"


@dataclass(frozen=True)
class Term:
    """A term of the pods of an app: over a key, to the pods of another app, in some namespaces.

    `weight` is that of a preferred one, 0 of a required one.
    """

    app: str
    key: str
    to: str
    everywhere: bool
    weight: int = 0

    @property
    def declared(self) -> PodAffinityTerm:
        """The term as the package models it."""
        selector = LabelSelector.of({}) if self.everywhere else None
        return PodAffinityTerm(
            topology_key=self.key, selector=LabelSelector.of({"app": self.to}), namespace_selector=selector
        )


@dataclass(frozen=True)
class Drawn:
    """A cluster: the zone of each node (None: without the key), the namespace of each app, its pods, the terms."""

    zones: Mapping[str, str | None]
    namespaces: Mapping[str, str]
    pods: tuple[tuple[str, str], ...]
    """The app and the node of each."""
    terms: tuple[Term, ...]

    def snapshot(self) -> Snapshot:
        """Return the cluster."""
        builder = ClusterBuilder()
        for node, zone in self.zones.items():
            labels = {} if zone is None else {"zone": zone}
            builder.node(node, cpu=16_000, memory=2**36, **labels)
        for app, namespace in self.namespaces.items():
            on: dict[str, int] = {}
            for of, node in self.pods:
                if of == app:
                    on[node] = on.get(node, 0) + 1
            if on:
                builder.deployment(app, on=on, namespace=namespace)
        return change_specs(builder.snapshot(), self._declare)

    def _declare(self, app: str, spec: PodSpec) -> PodSpec:
        own = [term for term in self.terms if term.app == app]
        affinity = PodAffinity(
            anti_required=tuple(term.declared for term in own if not term.weight),
            anti_preferred=tuple(PreferredPodTerm(term.weight, term.declared) for term in own if term.weight),
        )
        return structs.replace(spec, pod_affinity=affinity)

    def domain(self, node: str, key: str) -> str | None:
        """Return the domain of a node, None where it lacks the key."""
        return node if key == HOSTNAME else self.zones[node]

    @cached_property
    def selecting(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """The keys over which pods of two apps keep each other away, whoever declares it."""
        found: dict[tuple[str, str], list[str]] = {}
        for term in self.terms:
            if term.weight:
                continue
            if term.everywhere or self.namespaces[term.app] == self.namespaces[term.to]:
                for pair in {(term.app, term.to), (term.to, term.app)}:
                    found.setdefault(pair, []).append(term.key)
        return found

    def conflict(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        """Return whether two pods, each an app on a node, keep each other away."""
        for key in self.selecting.get((one[0], other[0]), ()):
            domain = self.domain(one[1], key)
            if domain is not None and domain == self.domain(other[1], key):
                return True
        return False

    def conflicts(self, pods: Sequence[tuple[str, str]]) -> bool:
        """Return whether any two of these do."""
        return any(self.conflict(one, other) for one, other in combinations(pods, 2))

    def weigh(self, pods: Sequence[tuple[str, str]]) -> int:
        """Return the weights over the ordered pairs in one domain of which the first prefers to avoid the second."""
        return sum(
            term.weight
            for term in self.terms
            for one, other in permutations(pods, 2)
            if (one[0], other[0]) == (term.app, term.to)
            and (term.everywhere or self.namespaces[term.app] == self.namespaces[term.to])
            and self.domain(one[1], term.key) is not None
            and self.domain(one[1], term.key) == self.domain(other[1], term.key)
        )

    def minimum(self) -> int | None:
        """Return the fewest pods that are to move until none conflict; None where no placement has all apart."""
        for number in range(len(self.pods) + 1):
            for moving in combinations(range(len(self.pods)), number):
                staying = [pod for index, pod in enumerate(self.pods) if index not in moving]
                if not self.conflicts(staying) and self._place(staying, [self.pods[index][0] for index in moving]):
                    return number
        return None

    def _place(self, standing: Sequence[tuple[str, str]], apps: Sequence[str]) -> bool:
        """Return whether pods of these apps find nodes beside others."""
        if not apps:
            return True
        return any(
            not any(self.conflict((apps[0], node), other) for other in standing)
            and self._place([*standing, (apps[0], node)], apps[1:])
            for node in self.zones
        )

    def can_be_forced(self, pods: tuple[tuple[str, str], ...], evictions: int) -> bool:
        """Return whether so many evictions end all conflicts wherever each replacement lands, none of which waits."""
        if not self.conflicts(pods):
            return True
        if not evictions:
            return False
        return any(self._is_safe(pods, index, evictions) for index in range(len(pods)))

    def _is_safe(self, pods: tuple[tuple[str, str], ...], index: int, evictions: int) -> bool:
        app, staying = pods[index][0], (*pods[:index], *pods[index + 1 :])
        free = [node for node in self.zones if not any(self.conflict((app, node), other) for other in staying)]
        return bool(free) and all(self.can_be_forced((*staying, (app, node)), evictions - 1) for node in free)


def draw(seed: int) -> Drawn:
    """Draw a cluster of up to three apps, a third of these across namespaces, in which pods conflict."""
    random = Random(seed)
    while True:
        drawn = _draw(random)
        if drawn.conflicts(drawn.pods):
            return drawn


def draw_preferring(seed: int) -> Drawn:
    """Draw the same in which most terms are preferred, and what is required is satisfied."""
    random = Random(seed)
    while True:
        drawn = _draw(random)
        terms = [replace(term, weight=random.choice((0, 1, 10, 100, 100))) for term in drawn.terms]
        preferring = replace(drawn, terms=tuple(terms))
        if preferring.weigh(drawn.pods) and not preferring.conflicts(drawn.pods):
            return preferring


def _draw(random: Random) -> Drawn:
    zones = {
        f"n{number}": random.choice("abc") if random.random() < 0.9 else None for number in range(random.randint(2, 5))
    }
    apart = random.random() < 1 / 3
    apps = APPS[: random.randint(1, 3)]
    namespaces = {app: random.choice("xy") if apart else "x" for app in apps}
    pods = [(app, random.choice([*zones])) for app in apps for _ in range(random.randint(1, 3))]
    terms = {
        Term(random.choice(apps), random.choice((HOSTNAME, HOSTNAME, ZONE)), random.choice(apps), apart)
        for _ in range(random.randint(1, 3))
    }
    ordered = sorted(terms, key=lambda term: (term.app, term.key, term.to))
    return Drawn(zones, namespaces, tuple(pods), tuple(ordered))


def every_layout(nodes: int, pods: int) -> Iterator[Drawn]:
    """Yield every layout of one app that keeps its own pods apart over host names."""
    zones = {f"n{number}": "a" for number in range(nodes)}
    for places in product(zones, repeat=pods):
        if list(places) == sorted(places):
            on = tuple(("a", node) for node in places)
            yield Drawn(zones, {"a": "x"}, on, (Term("a", HOSTNAME, "a", everywhere=False),))
