"""A prediction held against what the scheduler's log says: every difference as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rebalancer.scheduling.pod_topology_spread import PodTopologySpread
from rebalancer.scheduling.predict import Prediction
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from tests.fidelity.scheduler_log import Decision

QUIET: Final = ("DynamicResources", "VolumeBinding")
"""They give 0 to every node where they have nothing to say; pods with resource claims are not predicted."""


def differences(prediction: Prediction, decision: Decision, view: View) -> list[str]:
    """Return what differs; nothing differs if the model is right."""
    return [
        *_feasible(prediction, decision),
        *_scores(prediction, decision, view.profile),
        *_failure(prediction, decision),
        *_landing(prediction, decision),
        *_rejections(prediction, decision, view),
    ]


def _feasible(prediction: Prediction, decision: Decision) -> Iterator[str]:
    feasible = prediction.feasible
    if decision.totals and set(decision.totals) != feasible:
        yield f"feasible: model {sorted(feasible)}, scheduler {sorted(decision.totals)}"
    elif decision.feasible >= 0 and decision.feasible != len(feasible):
        yield f"feasible: model {len(feasible)} nodes, scheduler {decision.feasible}"
    elif decision.failure and feasible:
        yield f"feasible: model {sorted(feasible)}, scheduler none: {decision.failure}"


def _scores(prediction: Prediction, decision: Decision, profile: Profile) -> Iterator[str]:
    if not decision.totals:
        return
    plugins = {plugin for node in prediction.nodes for plugin in node.scores}
    for plugin in sorted(plugins | set(decision.scores)):
        ours = {
            node.name: node.scores[plugin] * profile.weights[plugin]
            for node in prediction.nodes
            if plugin in node.scores
        }
        theirs = decision.scores.get(plugin, {})
        if plugin in QUIET and not ours and not any(theirs.values()):
            continue
        if ours != theirs:
            wrong = {
                name: (ours.get(name), theirs.get(name))
                for name in {*ours, *theirs}
                if ours.get(name) != theirs.get(name)
            }
            yield f"{plugin}: (model, scheduler) {wrong}"
    totals = {node.name: node.total for node in prediction.nodes if node.total is not None}
    if totals != decision.totals:
        yield f"totals: model {totals}, scheduler {decision.totals}"


def _failure(prediction: Prediction, decision: Decision) -> Iterator[str]:
    if decision.failure and not f"{decision.failure} ".startswith(f"{prediction.failure} "):
        yield f"message: model {prediction.failure!r}, scheduler {decision.failure!r}"


def _landing(prediction: Prediction, decision: Decision) -> Iterator[str]:
    if decision.landing and decision.landing not in prediction.candidates:
        yield f"landing: model one of {sorted(prediction.candidates)}, scheduler {decision.landing}"


def _rejections(prediction: Prediction, decision: Decision, view: View) -> Iterator[str]:
    """Nodes that PodTopologySpread and TaintToleration rejected: of these two the scheduler names node by node.

    TaintToleration does so where its reason leaves out the taint; before, the message says which taints there are.
    """
    rejected = {node.name: node.rejected_by for node in prediction.nodes}
    spread = {name for name, by in rejected.items() if by == PodTopologySpread.name}
    if not (decision.failure and not decision.spread_failures) and spread != set(decision.spread_failures):
        yield f"spread rejects: model {sorted(spread)}, scheduler {sorted(decision.spread_failures)}"
    tainted = {name for name, by in rejected.items() if by == "TaintToleration"}
    logged = view.rules.taint_reason_short and not (decision.failure and not decision.tainted)
    if logged and tainted != decision.tainted:
        yield f"taints reject: model {sorted(tainted)}, scheduler {sorted(decision.tainted)}"
    counts = {count.constraint.key: count for count in PodTopologySpread(prediction.pod, view).counts}
    for name, failure in decision.spread_failures.items():
        if "matchNum" not in failure:
            continue
        ours = counts[failure["topologyKey"]]
        value = view.nodes.by_name[name].labels[failure["topologyKey"]]
        numbers = (ours.by_domain.filled.get(value, 0), ours.self_match, ours.minimum)
        theirs = (int(failure["matchNum"]), int(failure["selfMatchNum"]), int(failure["minMatchNum"]))
        if numbers != theirs:
            yield f"spread on {name} (count, self-match, minimum): model {numbers}, scheduler {theirs}"
