"""A state of a cluster that is to be repaired, and how it is laid out.

Each lives in a namespace and on nodes of its own, so that many can run side by side on one control plane: the pods'
node selector names the scenario, and by it the constraints count on its nodes only.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from tests.control_plane.layout import Workload, nodes, pdb, replica_set, spread, stateful_set
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.resources import Manifest
from tests.planning.contingent_oracle import Game
from tests.planning.states import Counts

LABEL = "test.rebalancer.dev/scenario"
APP = "app"
UNBOUND = 10**6
"""A maxSkew that stands for no constraint in arithmetic."""

Parts = list[Manifest | Workload]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One state. `counts` are pods per node, a list per zone; `zone` and `host` the maxSkews, None: no constraint.

    `budget` is a PodDisruptionBudget's maxUnavailable, `out` how many evictions may be
    concurrent in the search for what can be forced. `least` is the fewest evictions where counting does not give it.
    `limit` is a group of the policy whose limit is that every node holds less than a third. Pods whose names begin with
    `dear` are victims of last resort. `late` are pods that an owner gets after all others are placed: (name of the
    StatefulSet, its replicas).
    """

    name: str
    title: str
    counts: Counts
    zone: int | None = None
    host: int | None = None
    budget: int | None = None
    out: int = 4
    least: int | None = None
    limit: dict[str, Any] | None = None
    dear: str = ""
    late: tuple[str, int] | None = None
    make: Callable[["Scenario"], list[Workload]]

    @property
    def labels(self) -> dict[str, str]:
        """The labels that its constraints and its budget select."""
        return {APP: self.name}

    @property
    def constraints(self) -> list[dict[str, Any]]:
        """Its hard constraints."""
        wanted = ((ZONE, self.zone), (HOSTNAME, self.host))
        return [spread(key, labels=self.labels, max_skew=skew) for key, skew in wanted if skew is not None]

    @property
    def names(self) -> list[list[str]]:
        """The names of its nodes, as `counts`."""
        return [[f"{self.zone_name(place)}-{i}" for i in range(len(zone))] for place, zone in enumerate(self.counts)]

    def zone_name(self, place: int) -> str:
        """Return the name of a zone; no other scenario has one like it."""
        return f"{self.name}-{'abcdefgh'[place]}"

    @property
    def placement(self) -> list[str]:
        """The node of each pod."""
        nodes, counts = chain.from_iterable(self.names), chain.from_iterable(self.counts)
        return [node for node, count in zip(nodes, counts, strict=True) for _ in range(count)]

    def parts(self) -> Parts:
        """Return all that has to be laid out."""
        zones = {self.zone_name(place): len(zone) for place, zone in enumerate(self.counts)}
        made: Parts = [*nodes(zones, labels={LABEL: self.name}), *self.make(self)]
        if self.budget is not None:
            made.append(pdb("budget", self.labels, namespace=self.name, max_unavailable=self.budget))
        return made

    @property
    def pod_names(self) -> list[str]:
        """The names of its pods at the beginning."""
        names = [name for workload in self.make(self) for name in workload.pod_names]
        return names if self.late is None else [*names, f"{self.late[0]}-{self.late[1] - 1}"]

    @property
    def game(self) -> Game:
        """What can be forced: the game with its bounds, and as many concurrent evictions as its budget allows."""
        out = self.out if self.budget is None else min(self.out, self.budget)
        return Game(self.zone or UNBOUND, self.host or UNBOUND, out=out)

    @property
    def distance(self) -> int:
        """The fewest evictions that repair it."""
        if self.least is not None:
            return self.least
        minimum = self.game.distance(self.counts)
        assert minimum is not None, f"{self.name} cannot be repaired"
        return minimum

    def forced(self, *, spare: int = 1) -> int | None:
        """Return the fewest evictions that repair it whatever the scheduler picks, None if it cannot be forced.

        A limit is never forced: the pods' own constraints hold already.
        """
        if self.limit is not None:
            return None
        return self.least if self.least is not None else self.game.forced(self.counts, spare=spare)


def one_workload(scenario: Scenario) -> list[Workload]:
    """Return one ReplicaSet of equal pods."""
    return [
        replica_set(
            "web",
            scenario.placement,
            namespace=scenario.name,
            labels=scenario.labels,
            nodeSelector={LABEL: scenario.name},
            topologySpreadConstraints=scenario.constraints,
        )
    ]


def last_zone_with_files(scenario: Scenario) -> list[Workload]:
    """Return one ReplicaSet whose pods in the last zone have an emptyDir, which the others do not have."""
    (workload,) = one_workload(scenario)
    files = [{"name": "files", "emptyDir": {}}]
    there = set(scenario.names[-1])
    pods = [
        {**pod, "spec": {**pod["spec"], "volumes": files}} if pod["spec"]["nodeName"] in there else pod
        for pod in workload.pods
    ]
    return [replace(workload, pods=tuple(pods))]


def cheap_and_dear(scenario: Scenario) -> list[Workload]:
    """Return two ReplicaSets under one selector, of priority 100 and 1000: every other pod is of the second."""
    placement = scenario.placement
    return [
        replica_set(
            name,
            placement[first::2],
            namespace=scenario.name,
            labels={**scenario.labels, "tier": name},
            nodeSelector={LABEL: scenario.name},
            topologySpreadConstraints=scenario.constraints,
            priorityClassName=name,
        )
        for first, name in enumerate(PRIORITIES)
    ]


def three_shards(scenario: Scenario) -> list[Workload]:
    """Return three StatefulSets of two that never share a zone; the second pod of the last one is still to come."""
    (a_0, a_1), (b_0, b_1), (_, c_1) = scenario.names
    return [
        stateful_set(
            f"shard-{number}",
            placement,
            namespace=scenario.name,
            labels={**scenario.labels, "shard": str(number)},
            nodeSelector={LABEL: scenario.name},
            topologySpreadConstraints=scenario.constraints,
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"shard": str(number)}}}
                    ]
                }
            },
        )
        for number, placement in enumerate(([a_0, b_0], [b_1, a_1], [c_1]))
    ]


def softly_spread(scenario: Scenario) -> list[Workload]:
    """Return one ReplicaSet with a soft constraint of maxSkew 1 over the nodes, too."""
    (workload,) = one_workload(scenario)
    soft = spread(HOSTNAME, labels=scenario.labels, soft=True)
    for manifest in (*workload.pods, *(owner["spec"]["template"] for owner in workload.owners)):
        manifest["spec"]["topologySpreadConstraints"] = [*scenario.constraints, soft]
    return [workload]


PRIORITIES = {"cheap": 100, "dear": 1000}


def priority_classes() -> list[Manifest]:
    """Return the PriorityClasses that `cheap_and_dear` needs."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never",
        }
        for name, value in PRIORITIES.items()
    ]
