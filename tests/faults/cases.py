"""What is repaired while faults go on: workloads whose third zone came back empty, small enough to be quick.

The nodes of a lane are two in each of three zones. `placement` is where the pods are at first, by node index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.control_plane.layout import Workload as LaidOut
from tests.control_plane.layout import deployment, spread, stateful_set
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.faults.history import Workload


@dataclass(frozen=True, kw_only=True)
class Case:
    """A workload, its skew and its bounds."""

    name: str
    kind: str = "deployments"
    placement: Sequence[int]
    keys: Sequence[str] = (ZONE, HOSTNAME)
    """Of its constraints."""
    soft: bool = False
    minimum: int
    max_unavailable: int = 1
    budget: int = 3
    """maxUnavailable of its PodDisruptionBudget."""
    limits: Sequence[Mapping[str, Any]] = field(default=())
    """Of a group of the policy."""

    @property
    def replicas(self) -> int:
        """How many pods it has."""
        return len(self.placement)

    def lay_out(self, app: str, namespace: str, nodes: Sequence[str], selector: Mapping[str, str]) -> LaidOut:
        """Return its pods and owners."""
        make = deployment if self.kind == "deployments" else stateful_set
        constraints = [spread(key, labels={"app": app}, soft=self.soft) for key in self.keys]
        places = [nodes[index] for index in self.placement]
        return make(
            app, places, namespace=namespace, nodeSelector=dict(selector), topologySpreadConstraints=constraints
        )  # fmt: skip

    def groups(self, app: str) -> list[dict[str, Any]]:
        """Return the groups of the policy."""
        if not self.limits:
            return []
        selector = {"matchLabels": {"app": app}}
        return [{"name": "group", "selector": selector, "limits": [dict(limit) for limit in self.limits]}]

    def is_repaired(self, counts: Mapping[str, int], nodes: Sequence[str]) -> bool:
        """Whether the pods, counted by node, are spread as evenly as they can be over each key."""
        zones = [
            counts.get(first, 0) + counts.get(second, 0) for first, second in zip(nodes[::2], nodes[1::2], strict=True)
        ]
        spreads = {ZONE: zones, HOSTNAME: [counts.get(node, 0) for node in nodes]}
        even = all(max(spreads[key]) - min(spreads[key]) <= 1 for key in self.keys)
        share = not self.limits or 3 * max(zones) <= self.replicas
        return sum(zones) == self.replicas and (even or self.soft) and share

    def facts(self) -> Workload:
        """Return what the checker needs."""
        return Workload(
            replicas=self.replicas, max_unavailable=self.max_unavailable, budget=self.budget, minimum=self.minimum
        )


NESTED: Final = Case(name="two nested keys", placement=(0, 1, 2, 3) * 3, minimum=4)
"""3 3 | 3 3 | 0 0 must become 2 2 | 2 2 | 2 2."""

CASES: Final = (
    Case(name="deployment by zone", placement=(0, 2) * 4, keys=(ZONE,), minimum=2),
    Case(name="stateful set", kind="statefulsets", placement=(0, 2, 0, 2, 1, 3), minimum=2),
    NESTED,
    Case(
        name="share limit",
        placement=(0, 1, 2, 3) * 3,
        keys=(ZONE,),
        soft=True,
        minimum=4,
        limits=({"name": "zone-third", "topologyKey": ZONE, "maxShare": "<=1/3", "action": "Evict"},),
    ),
    Case(name="bound by its budget", placement=(0, 1, 2, 3) * 3, minimum=4, max_unavailable=6, budget=1),
)
"""One of each kind of reason why a pod moves or has to wait."""
