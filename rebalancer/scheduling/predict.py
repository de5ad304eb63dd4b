"""What the scheduler would decide for a pod: node by node, plugin by plugin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import feasible, iterate_nominated_nodes, prepare_filters
from rebalancer.scheduling.node_affinity import NOT_NAMED, NodeAffinityFilter
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.pod_topology_spread import constraints_of
from rebalancer.scheduling.preemption import PreemptionOutlook, find_preemptions
from rebalancer.scheduling.sampling import prepare_search
from rebalancer.scheduling.scoring import best, scores, totals
from rebalancer.scheduling.tie_breaking import find_top, guess_winner
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.verdicts import SUCCESS, Verdict
from rebalancer.scheduling.versions import VersionRules
from rebalancer.scheduling.view import View

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, kw_only=True)
class NodePrediction:
    """One node. `scores` are 0 to 100 by plugin before weighting; `total` is None if nothing is scored.

    Nodes that do not pass are not scored, nor is a node that passes alone.
    """

    name: str
    verdicts: Mapping[str, Verdict]
    scores: Mapping[str, int]
    total: int | None

    @property
    def feasible(self) -> bool:
        return all(self.verdicts.values())

    @property
    def rejected_by(self) -> str | None:
        """Return the plugin that the scheduler would name: the first in its order that rejects.

        If a pod's affinity names nodes, no other filter examines the other nodes.
        """
        if self.verdicts.get(NodeAffinityFilter.name) is NOT_NAMED:
            return NodeAffinityFilter.name
        return next((name for name, verdict in self.verdicts.items() if not verdict), None)

    @property
    def verdict(self) -> Verdict:
        """The scheduler's result for the node: the message of the plugin that rejects it, or success."""
        return SUCCESS if self.rejected_by is None else self.verdicts[self.rejected_by]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What would happen to a pod if the scheduler placed it now.

    `candidates` are the nodes that the scheduler may pick. It scores `scored` of the feasible nodes: in a large cluster
    not all of them. The candidates are then the nodes that rank highest in any sample, while scores and totals are
    computed as if all nodes were scored. `unpredictable`: why the prediction is not reliable, None if it is.
    """

    pod: Pod
    nodes: Sequence[NodePrediction]
    feasible: frozenset[str]
    candidates: frozenset[str]
    certain: Mapping[str, str]
    """Label values that all candidates share, for the keys of the pod's constraints, the zone and the host name."""
    failure: str
    """The FailedScheduling message, up to its first full stop, if no node fits; else empty."""
    scored: int
    preemption: PreemptionOutlook | None
    """What the scheduler would preempt for the pod; None if a node is feasible."""
    likely: str | None
    """The most likely node; None if the scheduler picks one of several candidates at random."""
    unpredictable: Unpredictable | None

    @property
    def sampled(self) -> bool:
        """Whether the scheduler scores only some of the feasible nodes."""
        return self.scored < len(self.feasible)

    @cached_property
    def node(self) -> Mapping[str, NodePrediction]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}


def predict(pod: Pod, view: View) -> Prediction:
    """Simulate the scheduler for one pod in one state, without changing it.

    `pod.node`, where the pod runs now, is not read (a manifest's node is `pod.spec.node_name`). For a replacement, pass
    the state in which it would be scheduled. The cost is proportional to nodes times plugins; `feasibility.feasible`
    and `scoring.best` give no reasons and take a fraction of the time.
    """
    filters = prepare_filters(pod, view)
    admitted = feasible(pod, view)
    ordered = [name for name in view.nodes.by_name if name in admitted]
    search = prepare_search(pod, view)
    in_part = search.enough < sum(search.zones)
    scored = scores(pod, view, ordered) if len(ordered) > 1 else {}
    sums = totals(scored, view, ordered) if scored else {}
    candidates = best(pod, view, admitted) if in_part else find_top(sums) if sums else admitted
    crowded = _evaluate_nominated_nodes(pod, view)
    nodes = tuple(
        _make_node_prediction(name, crowded.get(name) or _evaluate_node(name, filters), scored, sums)
        for name in view.nodes.by_name
    )
    return Prediction(
        pod=pod,
        nodes=nodes,
        feasible=admitted,
        candidates=candidates,
        certain=_find_common_values(pod, candidates, view),
        failure="" if admitted else describe_failure(nodes, filters, view.rules),
        scored=min(len(ordered), search.enough),
        preemption=None if admitted else _predict_preemption(pod, nodes, filters, view),
        likely=guess_winner(candidates, {name: sums[name] for name in candidates} if in_part and sums else sums, view),
        unpredictable=unpredictable(pod, view),
    )


def _make_node_prediction(
    name: str,
    verdicts: Mapping[str, Verdict],
    scored: Mapping[str, Mapping[str, int]],
    sums: Mapping[str, int],
) -> NodePrediction:
    return NodePrediction(
        name=name,
        verdicts=verdicts,
        scores={plugin: values[name] for plugin, values in scored.items()} if name in sums else {},
        total=sums.get(name),
    )


def _evaluate_node(name: str, filters: Sequence[Filter]) -> Mapping[str, Verdict]:
    return {plugin.name: plugin.verdict(name) if plugin.refusal is None else plugin.refusal for plugin in filters}


def _evaluate_nominated_nodes(pod: Pod, view: View) -> Mapping[str, Mapping[str, Verdict]]:
    """Return the verdicts of the nodes that reject the pod once the pods nominated for them have arrived."""
    verdicts_by_node = {
        name: _evaluate_node(name, prepare_filters(pod, state)) for name, state in iterate_nominated_nodes(pod, view)
    }
    return {name: verdicts for name, verdicts in verdicts_by_node.items() if not all(verdicts.values())}


def _predict_preemption(
    pod: Pod, nodes: Sequence[NodePrediction], filters: Sequence[Filter], view: View
) -> PreemptionOutlook:
    """Predict from the results of all nodes; if a plugin refuses a pod as a whole, each node has that result."""
    refusal = _find_refusal(filters)
    results = {node.name: node.verdict if refusal is None else refusal for node in nodes}
    return find_preemptions(pod, results, view)


def _find_refusal(filters: Sequence[Filter]) -> Verdict | None:
    """Return why a plugin refuses the pod as a whole, None if none does."""
    return next((plugin.refusal for plugin in filters if plugin.refusal is not None), None)


def describe_failure(nodes: Sequence[NodePrediction], filters: Sequence[Filter], rules: VersionRules) -> str:
    """Return the scheduler's message for a pod that no node admits, up to its first full stop.

    Source: `framework.FitError`. Reasons with the number of nodes, in the order of the text; one plugin for each node.
    The rest of the event's message repeats the nodes that preemption would not help.
    """
    if not nodes:
        return NO_NODES
    head = f"0/{len(nodes)} nodes are available:"
    refused = _find_refusal(filters)
    if refused is not None:
        return f"{head} {refused.message}."
    histogram: dict[str, int] = {}
    for node in nodes:
        if node.verdict is NOT_NAMED and not rules.unexamined_nodes_counted:
            continue
        for reason in node.verdict.reasons:
            histogram[reason] = histogram.get(reason, 0) + 1
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in histogram.items()))
    return f"{head} {reasons}." if reasons else head


def _find_common_values(pod: Pod, candidates: frozenset[str], view: View) -> Mapping[str, str]:
    constraints = constraints_of(pod, view)
    keys = {HOSTNAME, ZONE, *(constraint.key for constraint in (*constraints.hard, *constraints.soft))}
    agreed = {}
    for key in sorted(keys):
        values = {view.nodes.values(key).get(name) for name in candidates}
        value = values.pop() if len(values) == 1 else None
        if value is not None:
            agreed[key] = value
    return agreed
