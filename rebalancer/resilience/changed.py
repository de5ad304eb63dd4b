"""Changes to try: other fields of a workload's constraints, and additional nodes; and a loss with them.

After the rollout that a patch starts, all pods of the workload have the new constraint. The model leaves them where
they are: a running pod keeps its node despite its own constraints, so only later pods change the loss. Where a rollout
puts pods is not known; verify a patch after it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct, structs

from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME, NOT_READY, Node
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.resilience.loss import NODE_OWNERS, Loss
from rebalancer.scheduling.feasibility import admissible
from rebalancer.scheduling.view import View

_KINDS_OF_NODES: Final = 12
"""Nodes are added of at most this many kinds, the most frequent ones."""


class ChangedConstraint(Struct, frozen=True, kw_only=True, gc=False):
    """A changed constraint at `index` of the template, over `key`.

    It has nodeTaintsPolicy: Honor, or another maxSkew. `max_skew` is None where it does not change.
    """

    index: int
    key: str
    honor: bool = False
    max_skew: int | None = None

    def apply(self, constraint: SpreadConstraint) -> SpreadConstraint:
        """Return a constraint with the change."""
        return structs.replace(
            constraint,
            node_taints_policy=InclusionPolicy.HONOR if self.honor else constraint.node_taints_policy,
            max_skew=constraint.max_skew if self.max_skew is None else self.max_skew,
        )


class MoreNodes(Struct, frozen=True, kw_only=True, gc=False):
    """This many more nodes like the node named `like`."""

    number: int
    like: str


class Change(Struct, frozen=True, kw_only=True, gc=False):
    """Constraints that change, and additional nodes."""

    constraints: tuple[ChangedConstraint, ...] = ()
    nodes: tuple[MoreNodes, ...] = ()

    def change_spec(self, spec: PodSpec) -> PodSpec:
        """Return a spec with the changed constraints.

        Constraints that do not come from the template stay as they are.
        """
        spread = list(spec.spread)
        for one in self.constraints:
            if one.index < len(spread) and spread[one.index].topology_key == one.key:
                spread[one.index] = one.apply(spread[one.index])
        return structs.replace(spec, spread=tuple(spread))

    def change_loss(self, loss: Loss, workload: Reference) -> Loss:
        """Return a loss in which the next pods of a workload have the changed constraints."""
        if not self.constraints:
            return loss
        services = (
            replace(one, sample=structs.replace(one.sample, spec=self.change_spec(one.sample.spec)))
            if one.workload == workload
            else one
            for one in loss.services
        )
        return replace(loss, services=tuple(services))

    def change_view(self, view: View) -> View:
        """Return the state with the additional nodes; each has the DaemonSet pods that such a node would have."""
        if not self.nodes:
            return view
        snapshot, nodes, pods = view.snapshot, list[Node](), list[Pod]()
        for more in self.nodes:
            like = view.nodes.by_name[more.like]
            names = [f"{like.name}+{number + 1}" for number in range(more.number)]
            nodes += [_make_node(like, name) for name in names]
            followers = [pod for pod in view.pods_on(like.name) if _belongs_to_node(pod)]
            pods += [_make_follower(pod, name) for name in names for pod in followers]
        changed = replace(snapshot, nodes=(*snapshot.nodes, *nodes), pods=(*snapshot.pods, *pods))
        return View(changed, view.profile)


def find_template(workload: Reference, view: View) -> tuple[Workload, PodTemplate] | None:
    """Return a workload and its template, or None if the template is not known."""
    for owner in view.snapshot.workloads:
        if Reference(owner.namespace, owner.kind, owner.name) == workload and owner.template is not None:
            return owner, owner.template
    return None


def find_changeable(template: PodTemplate, sample: Pod) -> Iterator[ChangedConstraint]:
    """Yield the hard constraints of a template that its next pod has at the same index, unchanged."""
    for index, (written, made) in enumerate(zip(template.spec.spread, sample.spec.spread, strict=False)):
        hard = written.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
        if hard and written.topology_key == made.topology_key:
            yield ChangedConstraint(index=index, key=written.topology_key)


def find_kinds_of_nodes(sample: Pod, view: View, key: str) -> Sequence[tuple[str, ...]]:
    """Return where nodes may be added: one node of each kind that admits a pod, or such nodes in all domains of a key.

    Nodes of one kind have equal labels (except their names), taints and resources. Nodes that are not Ready, cordoned
    or about to leave belong to no kind. The kinds with the most nodes come first. Kinds that differ only in the key are
    together.
    """
    kinds: dict[tuple[object, str | None], list[str]] = {}
    for name in sorted(admissible(sample, view)):
        node = view.nodes.by_name[name]
        if node.ready and not node.unschedulable and node.deleted is None and not _is_ill(node):
            own = _own_names(node)
            labels = frozenset(
                (other, value) for other, value in node.labels.items() if other != key and value not in own
            )
            resources = node.allocatable, node.pods
            kinds.setdefault(((labels, node.taints, resources), node.labels.get(key)), []).append(name)
    largest = sorted(kinds, key=lambda one: (-len(kinds[one]), kinds[one]))[:_KINDS_OF_NODES]
    together: dict[object, list[str]] = {}
    for one in sorted(largest, key=lambda one: kinds[one]):
        together.setdefault(one[0], []).append(kinds[one][0])
    single = [(kinds[one][0],) for one in largest]
    return [*single, *[tuple(names) for names in together.values() if len(names) > 1]]


def is_shared(key: str, view: View) -> bool:
    """Return whether a label's values differ from the node names, so that another node of a kind adds no new value."""
    by_name = view.nodes.by_name
    return any(value not in _own_names(by_name[name]) for name, value in view.nodes.values(key).items())


def _own_names(node: Node) -> Collection[str | None]:
    return node.name, node.labels.get(HOSTNAME)


def _is_ill(node: Node) -> bool:
    return bool(node.draining or node.problem or any(taint.key in NOT_READY for taint in node.taints))


def _belongs_to_node(pod: Pod) -> bool:
    return pod.mirror or (pod.owner is not None and pod.owner.kind in NODE_OWNERS)


def _make_node(like: Node, name: str) -> Node:
    own = _own_names(like)
    labels = Labels({key: name if value in own else value for key, value in like.labels.items()})
    return structs.replace(like, name=name, uid=name, labels=labels, images=())


def _make_follower(pod: Pod, node: str) -> Pod:
    return structs.replace(pod, name=f"{pod.name}+{node}", uid=f"{pod.uid}+{node}", node=node)
