"""Small clusters of services that compete for zones and nodes, drawn; one zone or node of each is lost."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Self

from msgspec import structs

from rebalancer.model.affinity import PodAffinity
from rebalancer.model.labels import LabelSelector
from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import HostPort, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import InclusionPolicy
from rebalancer.resilience.loss import Loss, lose
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.build import away_from, change_specs

APPS: Final = "pqr"
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A service: where its pods are, what each requests, and what its template says besides."""

    cpu: int
    memory: int
    priority: int
    preempts: bool
    apart: str
    """The key of anti-affinity to itself, "" without."""
    port: int
    """A host port, 0 without."""
    counts_all: bool
    """Whether its constraints count the pods of all services."""
    spread: Mapping[str, int]
    honors: bool
    zones: int
    """minDomains of its constraint on zones."""
    stateful: bool
    more: bool
    """Whether it wants one replica more."""
    on: Counter[str] = field(default_factory=Counter)

    @classmethod
    def draw(cls, random: Random, kinds: str) -> Self:
        """Draw one that makes use of some kinds of rules: two resources, priorities, ports, anti-affinity, labels."""
        return cls(
            cpu=random.choice((500, 500, 1_000)),
            memory=random.choice((200, 1_000, 2_000)) if "m" in kinds else 100,
            priority=random.choice((0, 0, 5, 10)) if "y" in kinds else 0,
            preempts="y" not in kinds or random.random() < 0.8,
            apart=random.choice(("", HOSTNAME, HOSTNAME, ZONE)) if "a" in kinds else "",
            port=random.choice((0, 80, 80, 443)) if "h" in kinds else 0,
            counts_all="l" in kinds and random.random() < 0.6,
            spread=random.choice(({}, {}, {ZONE: 1}, {ZONE: 2}, {HOSTNAME: 1}, {ZONE: 1, HOSTNAME: 1})),
            honors=random.random() < 0.3,
            zones=random.choice((1, 1, 3)),
            stateful=random.random() < 0.3,
            more=random.random() < 0.15,
        )

    def change(self, app: str, spec: PodSpec) -> PodSpec:
        """Return the spec of its pods."""
        taints = InclusionPolicy.HONOR if self.honors else InclusionPolicy.IGNORE
        spread = tuple(
            structs.replace(
                one,
                node_taints_policy=taints,
                min_domains=self.zones if one.topology_key == ZONE else None,
                selector=LabelSelector.of({"of": "all"}) if self.counts_all else one.selector,
            )
            for one in spec.spread
        )
        return structs.replace(
            spec,
            spread=spread,
            requests=self.requests,
            preempts=self.preempts,
            host_ports=(HostPort("0.0.0.0", "TCP", self.port),) if self.port else (),
            pod_affinity=PodAffinity(anti_required=(away_from(app, self.apart),) if self.apart else ()),
        )

    @property
    def requests(self) -> Resources:
        """What a pod requests."""
        return Resources(cpu=self.cpu, memory=self.memory * _MEGABYTE)


def draw_loss(seed: int, kinds: str | None = None, *, twins: bool = False) -> Loss:
    """Draw a cluster of three zones with up to three services, and lose a zone of it, or a node.

    `kinds` are what services make use of besides CPU and constraints (`Drawn.draw`); without, that is drawn. Of `twins`
    most say the same, and differ in where their pods are.
    """
    random = Random(seed)
    if kinds is None:
        kinds = random.choice(("", "", "m", "y", "a", "h", "l", "my", "ma", "ahl"))
    nodes = {f"{zone}-{number}": zone for zone in "abc" for number in range(random.randint(1, 2))}
    services = {app: Drawn.draw(random, kinds) for app in APPS[: random.randint(1, 3)]}
    if twins:
        services = {
            app: replace(services[APPS[0]], on=Counter()) if random.random() < 0.8 else service
            for app, service in services.items()
        }
    for service in services.values():
        service.on.update(random.choice(list(nodes)) for _ in range(random.randint(1, 4)))
    builder = ClusterBuilder()
    for node, zone in nodes.items():
        cpu = sum(service.cpu * service.on[node] for service in services.values())
        memory = sum(service.memory * service.on[node] for service in services.values())
        cpu += random.choice((0, 500, 500, 1_000, 1_000, 2_000))
        memory += random.choice((0, 500, 1_000, 3_000)) if "m" in kinds else 8_000
        builder.node(node, cpu=cpu, memory=memory * _MEGABYTE, zone=zone)
    for app, service in services.items():
        add = builder.stateful_set if service.stateful else builder.deployment
        add(
            app,
            on=service.on,
            spread=service.spread,
            cpu=service.cpu,
            priority=service.priority,
            replicas=service.on.total() + service.more,
        )
    view = View(_finish(builder.snapshot(), services))
    key = random.choice((ZONE, ZONE, HOSTNAME))
    lost = random.choice(sorted(view.nodes.groups(key).items()))[1]
    return lose(view, lost, random.choice(list(Phase)))


def _finish(snapshot: Snapshot, services: Mapping[str, Drawn]) -> Snapshot:
    changed = change_specs(snapshot, lambda app, spec: services[app].change(app, spec), of="all")
    pods = tuple(structs.replace(pod, requests=pod.spec.requests) for pod in changed.pods)
    owners = (
        owner
        if owner.template is None
        else structs.replace(owner, template=structs.replace(owner.template, requests=owner.template.spec.requests))
        for owner in changed.workloads
    )
    return replace(changed, pods=pods, workloads=tuple(owners))
