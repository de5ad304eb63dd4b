"""Small clusters of services that are spread over zones and nodes, drawn; one zone or node of each is lost."""

from random import Random
from typing import Final

from msgspec import structs

from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import PodSpec
from rebalancer.model.spread import InclusionPolicy
from rebalancer.resilience.loss import Loss, Phase, lose
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.build import change_specs

APPS: Final = "pqr"


def draw_loss(seed: int) -> Loss:
    """Draw a cluster of three zones with up to three services, and lose a zone of it, or a node."""
    random = Random(seed)
    nodes = {f"{zone}-{number}": zone for zone in "abc" for number in range(random.randint(1, 2))}
    services: dict[str, tuple[int, dict[str, int]]] = {}
    used = dict.fromkeys(nodes, 0)
    for app in APPS[: random.randint(1, 3)]:
        cpu, on = random.choice((500, 500, 1_000)), dict[str, int]()
        for _ in range(random.randint(1, 4)):
            node = random.choice(list(nodes))
            used[node] += cpu
            on[node] = on.get(node, 0) + 1
        services[app] = cpu, on
    builder = ClusterBuilder()
    for node, zone in nodes.items():
        free = random.choice((0, 500, 500, 1_000, 1_000, 2_000))
        builder.node(node, cpu=used[node] + free, memory=8 * 2**30, zone=zone)
    for app, (cpu, on) in services.items():
        spread = random.choice(({}, {}, {ZONE: 1}, {ZONE: 2}, {HOSTNAME: 1}, {ZONE: 1, HOSTNAME: 1}))
        replicas = sum(on.values()) + (random.random() < 0.15)
        add = builder.deployment if random.random() < 0.7 else builder.stateful_set
        add(app, on=on, spread=spread, cpu=cpu, replicas=replicas)
    honoring = {app for app in APPS if random.random() < 0.3}
    deep = {app: random.choice((1, 1, 3)) for app in APPS}

    def change(app: str, spec: PodSpec) -> PodSpec:
        taints = InclusionPolicy.HONOR if app in honoring else InclusionPolicy.IGNORE
        constraints = tuple(
            structs.replace(one, node_taints_policy=taints, min_domains=deep[app] if one.topology_key == ZONE else None)
            for one in spec.spread
        )
        return structs.replace(spec, spread=constraints)

    view = View(change_specs(builder.snapshot(), change))
    key = random.choice((ZONE, ZONE, HOSTNAME))
    lost = random.choice(sorted(view.nodes.groups(key).items()))[1]
    return lose(view, lost, random.choice(list(Phase)))
