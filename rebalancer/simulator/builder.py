"""Builds the first snapshot of a simulated cluster: nodes, workloads with their pods, and budgets, with one call each.

The snapshot is stable: statuses are as the controllers would have written them, so nothing happens before the first
change.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import Final

from msgspec import structs

from rebalancer.creation.defaults import DEFAULT_TOLERATIONS
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.cluster import DisruptionBudget, Namespace
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.nodes import HOSTNAME, ZONE, Node
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.simulator.disruption import compute_status

START: Final = datetime(2026, 1, 1, tzinfo=UTC)

_LONG_AGO = timedelta(days=1)
_GIBIBYTE: Final = 2**30


class ClusterBuilder:
    """Collects the objects of a snapshot.

    `on` is the number of running pods by node; the simulation creates the other replicas. Labels named `zone` get the
    key topology.kubernetes.io/zone.
    """

    def __init__(self, at: datetime = START) -> None:
        self._at = at
        self._before = at - _LONG_AGO
        self._nodes: list[Node] = []
        self._workloads: list[Workload] = []
        self._pods: list[Pod] = []
        self._budgets: list[DisruptionBudget] = []
        self._serial = count(1)

    def node(self, name: str, *, cpu: int = 16_000, memory: int = 64 * _GIBIBYTE, **labels: str) -> None:
        """Add a node; the label `zone` gets the key topology.kubernetes.io/zone."""
        zone = {ZONE: labels.pop("zone")} if "zone" in labels else {}
        self._nodes.append(
            Node(
                name=name,
                uid=self._uid(),
                labels=Labels({HOSTNAME: name, **zone, **labels}),
                allocatable=Resources(cpu=cpu, memory=memory, ephemeral_storage=100 * _GIBIBYTE),
                ready_since=self._before,
                created=self._before,
            )
        )

    def zones(self, names: Iterable[str], nodes: int) -> None:
        """Add `nodes` nodes to each zone, named after the zone: `a-1`, `a-2`, `b-1` and so on."""
        for zone in names:
            for number in range(1, nodes + 1):
                self.node(f"{zone}-{number}", zone=zone)

    def deployment(
        self,
        name: str,
        *,
        on: Mapping[str, int] | None = None,
        replicas: int | None = None,
        spread: Mapping[str, int] | None = None,
        namespace: str = "default",
        cpu: int = 100,
        priority: int = 0,
    ) -> Workload:
        """Add a Deployment with its ReplicaSet. `spread` are its hard constraints: maxSkew by topology key."""
        revision = sha256(f"{namespace}/{name}".encode()).hexdigest()[:10]
        labels = {"app": name}
        wanted = replicas if replicas is not None else sum((on or {}).values())
        top = self._workload("Deployment", namespace, name, labels, wanted)
        hashed = {**labels, "pod-template-hash": revision}
        template = _make_template(hashed, labels, spread or {}, cpu, priority)
        below = self._workload("ReplicaSet", namespace, f"{name}-{revision}", hashed, wanted, template, revision, top)
        names = (f"{below.name}-{number}" for number in count(1))
        self._populate(below, template, on or {}, names)
        self._workloads.insert(-1, structs.replace(top, template=structs.replace(template, labels=Labels(labels))))
        return top

    def stateful_set(
        self,
        name: str,
        *,
        on: Mapping[str, int] | None = None,
        replicas: int | None = None,
        spread: Mapping[str, int] | None = None,
        namespace: str = "default",
        cpu: int = 100,
        priority: int = 0,
        cluster: str = "",
    ) -> Workload:
        """Add a StatefulSet; its pods are numbered in the order of `on`.

        With `cluster` the StatefulSet is a shard: its constraints count the pods of all shards of that name, and no
        zone admits two pods of one shard.
        """
        labels = {"app": name, **({"cluster": cluster} if cluster else {})}
        wanted = replicas if replicas is not None else sum((on or {}).values())
        counted = {"cluster": cluster} if cluster else labels
        template = _make_template(labels, counted, spread or {}, cpu, priority, apart={"app": name} if cluster else {})
        made = self._workload("StatefulSet", namespace, name, labels, wanted, template, f"{name}-1")
        self._populate(made, template, on or {}, (f"{name}-{number}" for number in count()))
        return made

    def budget(
        self,
        name: str,
        *,
        min_available: int | str | None = None,
        max_unavailable: int | str | None = None,
        app: str | None = None,
        namespace: str = "default",
        always_allow: bool = False,
    ) -> None:
        """Add a PodDisruptionBudget for the workload `app`; without it, for the workload of the budget's name."""
        self._budgets.append(
            DisruptionBudget(
                namespace=namespace,
                name=name,
                uid=self._uid(),
                selector=LabelSelector.of({"app": app or name}),
                min_available=min_available,
                max_unavailable=max_unavailable,
                always_allow=always_allow,
            )
        )

    def snapshot(self) -> Snapshot:
        """Return the snapshot, with all statuses computed."""
        workloads = {workload.uid: workload for workload in self._workloads}
        names = sorted({workload.namespace for workload in self._workloads})
        return Snapshot(
            taken_at=self._at,
            pods=tuple(self._pods),
            nodes=tuple(self._nodes),
            workloads=tuple(self._workloads),
            budgets=tuple(
                compute_status(
                    budget,
                    [pod for pod in self._pods if pod.namespace == budget.namespace],
                    workloads.get,
                    self._at,
                )
                for budget in self._budgets
            ),
            namespaces=tuple(
                Namespace(name=name, labels=Labels({"kubernetes.io/metadata.name": name})) for name in names
            ),
        )

    def _uid(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._serial):012x}"

    def _workload(
        self,
        kind: str,
        namespace: str,
        name: str,
        labels: Mapping[str, str],
        replicas: int,
        template: PodTemplate | None = None,
        revision: str = "",
        owner: Workload | None = None,
    ) -> Workload:
        made = Workload(
            group="apps",
            kind=kind,
            namespace=namespace,
            name=name,
            uid=self._uid(),
            labels=Labels(labels),
            selector=LabelSelector.of(labels),
            template=template,
            replicas=replicas,
            current=replicas,
            ready=replicas,
            updated=replicas,
            revision=revision,
            owner=_make_reference(owner) if owner is not None else None,
            created=self._before,
        )
        if template is not None:
            self._workloads.append(made)
        return made

    def _populate(self, owner: Workload, template: PodTemplate, on: Mapping[str, int], names: Iterable[str]) -> None:
        """Add the running pods, which have been Ready for a day; the simulated controllers create the missing pods."""
        places = [node for node, number in on.items() for _ in range(number)]
        for name, node in zip(names, places, strict=False):
            labels = dict(template.labels)
            if owner.kind == "StatefulSet":
                labels["statefulset.kubernetes.io/pod-name"] = name
                labels["apps.kubernetes.io/pod-index"] = name.rpartition("-")[2]
                labels["controller-revision-hash"] = owner.revision
            self._pods.append(
                Pod(
                    namespace=owner.namespace,
                    name=name,
                    uid=self._uid(),
                    labels=Labels(labels),
                    spec=structs.replace(template.spec, tolerations=DEFAULT_TOLERATIONS),
                    node=node,
                    phase=PodPhase.RUNNING,
                    ready=True,
                    ready_since=self._before,
                    created=self._before,
                    owner=_make_reference(owner),
                    requests=template.requests,
                    scored=template.scored,
                )
            )


def _make_reference(owner: Workload) -> OwnerReference:
    return OwnerReference(group=owner.group, kind=owner.kind, name=owner.name, uid=owner.uid)


def _make_template(
    labels: Mapping[str, str],
    selected: Mapping[str, str],
    spread: Mapping[str, int],
    cpu: int,
    priority: int,
    apart: Mapping[str, str] | None = None,
) -> PodTemplate:
    """Return a template whose pods share no zone with pods that have the labels `apart`."""
    requests = Resources(cpu=cpu, memory=cpu * 1_000_000)
    scored = (requests.cpu, requests.memory)
    constraints = tuple(
        SpreadConstraint(
            topology_key=key,
            max_skew=max_skew,
            when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
            selector=LabelSelector.of(selected),
        )
        for key, max_skew in spread.items()
    )
    anti = (PodAffinityTerm(topology_key=ZONE, selector=LabelSelector.of(apart)),) if apart else ()
    spec = PodSpec(
        spread=constraints,
        requests=requests,
        scored=scored,
        priority=priority,
        pod_affinity=PodAffinity(anti_required=anti),
    )
    return PodTemplate(labels=Labels(labels), spec=spec, requests=requests, scored=scored)
