"""The Resilience document: what is left of each workload after the loss of a domain."""

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Number, Text, WorkloadName, workload_name
from rebalancer.model.labels import Labels
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import Node
from rebalancer.model.spread import InclusionPolicy
from rebalancer.model.workloads import BUILT_IN
from rebalancer.resilience.changed import Change, ChangedConstraint, MoreNodes
from rebalancer.resilience.changes import Changes
from rebalancer.resilience.comparison import ChangedLoss, Effect
from rebalancer.resilience.rows import LostDomain, Remaining, Verdict

_QUORUM: Final = 3
"""From this many pods on, a majority must stay."""

_MOST_CHANGES: Final = 60
"""Up to this many changed losses are listed, because several proposals are stored in one ConfigMap."""


class RemainingWorkload(CamelCaseStruct, frozen=True, kw_only=True):
    """A workload in a loss: of `wanted` pods `now` are Ready on other nodes at once.

    When nothing moves any more, at least `guaranteed` run, for any order and nodes that kube-scheduler chooses, and at
    most `possible`. `verdict` is `yes` if all pods certainly come back, and `no` if not all can. Otherwise it is
    `order`: the order of deletions and placements decides, or what `reason` names. `reason` says why not all certainly
    come back, "" if they do.
    """

    namespace: Text
    workload: WorkloadName
    wanted: Number
    now: Number
    guaranteed: Number
    possible: Number
    verdict: Verdict
    reason: str

    @property
    def keeps_majority(self) -> bool:
        """Whether more than half of the pods are Ready at once; always true of fewer than three pods."""
        return self.wanted < _QUORUM or 2 * self.now > self.wanted


class DomainLoss(CamelCaseStruct, frozen=True, kw_only=True):
    """The loss of one domain in one phase: the workloads that lose pods by the loss, or are not whole after it.

    While its nodes are `silent`, they are tainted, and StatefulSets do not replace their pods; once they are `gone`,
    their Node objects are deleted.
    """

    key: Text
    value: str
    phase: Phase
    nodes: Number
    workloads: tuple[RemainingWorkload, ...]


class ConstraintChange(CamelCaseStruct, frozen=True, kw_only=True):
    """Changed fields of the entry at `index` of a template's `topologySpreadConstraints`.

    `nodeTaintsPolicy` is "" and `maxSkew` 0 if they do not change.
    """

    index: Number
    topology_key: Text
    node_taints_policy: str
    max_skew: Number


class AddedNodes(CamelCaseStruct, frozen=True, kw_only=True):
    """Additional nodes, with the labels, taints, resources and DaemonSets' pods of the node `like`.

    `domains` are the domains of that node: its values of the `topologyKeys` that it has.
    """

    number: Number
    like: Text
    domains: Mapping[str, str]


class ChangeThatHolds(CamelCaseStruct, frozen=True, kw_only=True):
    """A change that brings a workload back whole for certain after any loss, and leaves no other workload fewer pods.

    Without constraints and nodes, the workload comes back without a change once the pods on `silentNodes` are replaced.
    `command` patches the constraints, "" if none changes. A patch starts a rollout, so compute the numbers again after
    it.
    """

    constraints: tuple[ConstraintChange, ...]
    nodes: tuple[AddedNodes, ...]
    command: str


class WorkloadChanges(CamelCaseStruct, frozen=True, kw_only=True):
    """The cheapest change of each kind that holds for a workload that is not whole after some loss.

    The kinds are nodeTaintsPolicy: Honor, a larger maxSkew, and up to 10 additional nodes, in one domain or the same
    number in each. If no single kind holds, two are combined. `complete` is false if the search took too long and ended
    early. `obstacle` is why no change was tried, "" if some were.

    `silentNodes` are not Ready now and have pods that will be replaced. The changes hold once those pods are deleted,
    while these nodes are not Ready.
    """

    namespace: Text
    workload: WorkloadName
    changes: tuple[ChangeThatHolds, ...]
    complete: bool
    obstacle: str = ""
    silent_nodes: Number = 0


class ResilienceDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """What is left of each workload after the loss of a domain of `topologyKeys`, by domain and phase.

    `workloads` is how many were evaluated. For a key with many domains, only losses of the fullest are computed, and
    `notComputed` counts the domains left out. The model has no new nodes and no evictions by Rebalancer, and pods on a
    node become Ready.

    `changes` has the workloads that are not whole after a loss, the worst first: at most 10 unless the command names
    them, and none in large clusters. For `changesNotComputed` workloads, the search ended too early. `planned` counts
    the workloads that are not whole after a loss and whose repair moves pods, now or later.
    """

    api_version: str = API_VERSION
    kind: str = "Resilience"
    topology_keys: tuple[Text, ...]
    workloads: Number
    not_computed: Number
    domains: tuple[DomainLoss, ...]
    changes: tuple[WorkloadChanges, ...] = ()
    changes_not_computed: Number = 0
    planned: Number = 0


def resilience_document(
    keys: Sequence[str],
    workloads: int,
    losses: Iterable[LostDomain],
    existing: int,
    changes: Iterable[Changes] = (),
    not_searched: int = 0,
    nodes: Mapping[str, Node] | None = None,
    planned: Collection[Reference] = (),
) -> ResilienceDocument:
    """Convert the results; `existing` counts the domains of each key, `nodes` are the nodes of the cluster.

    `planned` are workloads whose pods a repair moves.
    """
    losses = tuple(losses)
    at_risk = {row.workload for loss in losses for row in loss.rows if row.verdict is not Verdict.YES}
    domains = tuple(_domain_loss(loss) for loss in losses)
    return ResilienceDocument(
        topology_keys=tuple(keys),
        workloads=workloads,
        not_computed=existing - len({(one.key, one.value) for one in domains}),
        domains=domains,
        changes=tuple(_workload_changes(one, keys, nodes or {}) for one in changes),
        changes_not_computed=not_searched,
        planned=len(at_risk.intersection(planned)),
    )


def _domain_loss(loss: LostDomain) -> DomainLoss:
    return DomainLoss(
        key=loss.key,
        value=loss.value,
        phase=loss.phase,
        nodes=loss.nodes,
        workloads=tuple(_remaining_workload(row) for row in loss.rows),
    )


def _remaining_workload(row: Remaining) -> RemainingWorkload:
    return RemainingWorkload(
        namespace=row.workload.namespace,
        workload=workload_name(row.workload),
        wanted=row.wanted,
        now=row.now,
        guaranteed=row.guaranteed,
        possible=row.possible,
        verdict=row.verdict,
        reason=str(row.reason) if row.reason is not None else "",
    )


class ChangedLossEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """The loss of a domain for one workload, before and after evictions: of `wanted` pods, how many run in the end."""

    namespace: Text
    workload: WorkloadName
    key: Text
    domain: str
    phase: Phase
    wanted: Number
    guaranteed_before: Number
    guaranteed_after: Number
    possible_before: Number
    possible_after: Number


class LossesChanged(CamelCaseStruct, frozen=True, kw_only=True):
    """How evictions change what the loss of a zone leaves of the workloads whose pods are evicted.

    A workload is listed with its worst loss before and after (mostly the same loss) if the two differ or leave pods
    out; `more` counts unlisted workloads. `notComputed` says why not all were computed, "" if they were.
    """

    rows: tuple[ChangedLossEntry, ...] = ()
    more: Number = 0
    not_computed: str = ""


def losses_changed(effect: Effect) -> LossesChanged:
    """Convert an effect, the worst losses first if it is too long to be stored."""
    worst = sorted(effect.rows, key=lambda row: row.after.guaranteed / max(1, row.wanted))[:_MOST_CHANGES]
    listed = set(worst)
    return LossesChanged(
        rows=tuple(_changed_loss(row) for row in effect.rows if row in listed),
        more=len(effect.rows) - len(worst),
        not_computed="" if effect.unknown is None else str(effect.unknown),
    )


def _changed_loss(row: ChangedLoss) -> ChangedLossEntry:
    return ChangedLossEntry(
        namespace=row.workload.namespace,
        workload=workload_name(row.workload),
        key=row.key,
        domain=row.value,
        phase=row.phase,
        wanted=row.wanted,
        guaranteed_before=row.before.guaranteed,
        guaranteed_after=row.after.guaranteed,
        possible_before=row.before.possible,
        possible_after=row.after.possible,
    )


def _workload_changes(found: Changes, keys: Sequence[str], nodes: Mapping[str, Node]) -> WorkloadChanges:
    return WorkloadChanges(
        namespace=found.workload.namespace,
        workload=workload_name(found.workload),
        changes=tuple(_change_that_holds(one, found, keys, nodes) for one in found.changes),
        complete=found.complete,
        obstacle="" if found.obstacle is None else str(found.obstacle),
        silent_nodes=found.silent,
    )


def _change_that_holds(
    change: Change, found: Changes, keys: Sequence[str], nodes: Mapping[str, Node]
) -> ChangeThatHolds:
    return ChangeThatHolds(
        constraints=tuple(_constraint_change(one) for one in change.constraints),
        nodes=tuple(_added_nodes(more, keys, nodes[more.like].labels) for more in change.nodes),
        command=_command(found.workload, found.group, change.constraints) if change.constraints else "",
    )


def _added_nodes(more: MoreNodes, keys: Sequence[str], labels: Labels) -> AddedNodes:
    domains = {key: labels[key] for key in keys if key in labels}
    return AddedNodes(number=more.number, like=more.like, domains=domains)


def _constraint_change(changed: ChangedConstraint) -> ConstraintChange:
    return ConstraintChange(
        index=changed.index,
        topology_key=changed.key,
        node_taints_policy=str(InclusionPolicy.HONOR) if changed.honor else "",
        max_skew=changed.max_skew or 0,
    )


def _command(workload: Reference, group: str, constraints: Iterable[ChangedConstraint]) -> str:
    """Return the command that patches a workload's template."""
    patch = [
        {"op": "add", "path": f"/spec/template/spec/topologySpreadConstraints/{one.index}/{field}", "value": value}
        for one in constraints
        for field, value in (("nodeTaintsPolicy", str(InclusionPolicy.HONOR)), ("maxSkew", one.max_skew))
        if (one.honor if field == "nodeTaintsPolicy" else value is not None)
    ]
    kind = workload.kind.partition(".")[0].lower()
    resource = kind if BUILT_IN.get(workload.kind) == group else f"{kind}.{group}"
    names = (shlex.quote(one) for one in (workload.namespace, resource, workload.name))
    return "kubectl -n {} patch {} {} --type=json -p {}".format(
        *names, shlex.quote(json.dumps(patch, separators=(",", ":")))
    )
