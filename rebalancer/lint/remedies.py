"""The smallest change of a manifest after which all its pods find a node, tried on the model that found they do not.

Problem: which field to change, and how far.

Idea: try changes of one field after the other, and take the first that solves the problem. The order is
nodeTaintsPolicy: Honor, fewer minDomains, a larger maxSkew (first the smallest that the counts allow), and then fewer
replicas or a smaller maxReplicas. A change solves the problem if all of these are true: all pods of the manifest are
certain to find a node, no other manifest gets a finding, no budget then allows nothing, and the manifest's own rollout
does not newly wedge.

Example: 4 pods with required anti-affinity on 3 nodes have no constraint to loosen, and 3 replicas solve the problem.

Cost: a placement of all pods for each trial; `_WORK` bounds the trials of one call.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import structs

from rebalancer.lint.budgets import check_budgets
from rebalancer.lint.finding import Operation, Rule, set_field
from rebalancer.lint.ground import Ground, reference_of
from rebalancer.lint.manifest import Manifest, Manifests, Path
from rebalancer.lint.not_whole import find_not_whole
from rebalancer.lint.rollouts import check_rollouts
from rebalancer.lint.steps import check_steps
from rebalancer.model.labels import Labels
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint
from rebalancer.resilience.changed import find_changeable
from rebalancer.resilience.least_skews import find_least_skew
from rebalancer.resilience.loss import Loss, lose
from rebalancer.resilience.reason import Reasons
from rebalancer.resilience.rows import Remaining, Verdict, choose_domains, find_remaining
from rebalancer.scheduling.view import View

REPLICAS: Final[Path] = ("spec", "replicas")
MAX_REPLICAS: Final[Path] = ("spec", "maxReplicas")

_WORK: Final = 100
"""How many changes one call may try. In larger clusters a change counts once more for each `_SIZE` pods and nodes."""

_SIZE: Final = 500

_MOST_VALUES: Final = 8
"""The most values of a field that are tried."""

_FIELDS: Final = {"node_taints_policy": "nodeTaintsPolicy", "min_domains": "minDomains", "max_skew": "maxSkew"}
"""The fields of a constraint that are changed, by their names in the model."""


class _Candidate(NamedTuple):
    """A changed manifest, and the operations that change its document in the same way."""

    manifest: Manifest
    patch: tuple[Operation, ...]


class Remedies:
    """The changes for the findings of one call; they share the search budget `_WORK`."""

    def __init__(self, ground: Ground, short: Collection[Reference]) -> None:
        """Begin with the `short` manifests, whose pods do not all find a node in the cluster."""
        self._ground, self._short, self._left = ground, short, _WORK
        self._cost = 1 + (len(ground.deployed.snapshot.pods) + len(ground.deployed.snapshot.nodes)) // _SIZE

    def place(self, manifest: Manifest, row: Remaining) -> tuple[Operation, ...]:
        """Return the change after which all pods of a manifest find a node; none if none is known."""
        candidates = [*_loosen(manifest, lose_none(self._ground.deployed))]
        if manifest.find(REPLICAS) is not None:
            candidates += [_scale(manifest, number) for number in range(row.possible, 0, -1)[:_MOST_VALUES]]
        return self._find_first(candidates, partial(self._holds, manifest, lambda _: ()))

    def scale(self, manifest: Manifest, scaled: View) -> tuple[Operation, ...]:
        """Return the change of a constraint after which all pods find a node even if an autoscaler chooses the most."""
        return self._find_first(_loosen(manifest, lose_none(scaled)), partial(self._holds, manifest, _scale_most))

    def limit_scaling(self, manifest: Manifest, scaler: Manifest, row: Remaining) -> tuple[Operation, ...]:
        """Return the change to the largest maxReplicas with which all pods of the scaled workload find a node."""
        own = reference_of(manifest)

        def holds(changed: Manifest) -> bool:
            ground = self._change(scaler, changed)
            return all(_is_certain(loss, own) for loss in (lose_none(ground.deployed), *_scale_most(ground)))

        sizes = range(min(row.possible, row.wanted - 1), manifest.replicas - 1, -1)
        return self._find_first((_limit_scaling(scaler, most) for most in sizes[:_MOST_VALUES]), holds)

    def lose_zone(self, manifest: Manifest, zone: str) -> tuple[Operation, ...]:
        """Return the change of a constraint after which all pods come back, whichever zone is lost.

        The loss of `zone` is tried first.
        """
        lost = _lose_zone(self._ground, zone)
        holds = partial(self._holds, manifest, lambda ground: _lose_zones(ground, zone))
        return self._find_first(_loosen(manifest, lost), holds)

    def select_nodes(self, manifest: Manifest, key: str, value: str, *, is_at_risk: bool) -> tuple[Operation, ...]:
        """Return the change to a node selector with which all pods find a node.

        Unless the workload `is_at_risk`, its pods must also find a node after the loss of any zone.
        """
        candidate = _select_nodes(manifest, key, value)
        holds = partial(self._holds, manifest, lambda ground: () if is_at_risk else _lose_zones(ground))
        return self._find_first([candidate], holds)

    def _find_first(self, candidates: Iterable[_Candidate], holds: Callable[[Manifest], bool]) -> tuple[Operation, ...]:
        for candidate in candidates:
            self._left -= self._cost
            if self._left < 0:
                break
            if holds(candidate.manifest):
                return candidate.patch
        return ()

    def _change(self, old: Manifest, new: Manifest) -> Ground:
        """Return the cluster with the manifest `new` in the place of `old`."""
        changed = tuple(new if one is old else one for one in self._ground.manifests.every)
        return replace(self._ground, manifests=Manifests(changed))

    def _holds(self, old: Manifest, lose_more: Callable[[Ground], Iterable[Loss]], new: Manifest) -> bool:
        """Return whether all pods of a changed manifest certainly find a node, and nothing else gets worse."""
        ground, own = self._change(old, new), reference_of(new)
        whole = lose_none(ground.deployed)
        if not all(_is_certain(loss, own) for loss in (whole, *lose_more(ground))):
            return False
        if len([*check_budgets(ground.manifests)]) > len([*check_budgets(self._ground.manifests)]):
            return False
        worse = find_not_whole(whole, ground.by_workload).keys() - self._short
        return not worse and (not _wedges(new, ground) or _wedges(old, self._ground))


def _wedges(manifest: Manifest, ground: Ground) -> bool:
    found = (*check_rollouts(manifest, ground), *check_steps(manifest, ground))
    return any(one.rule is Rule.ROLLOUT_WEDGES for one in found)


def lose_none(view: View) -> Loss:
    """Return a loss of no node, which only places the pending pods."""
    return lose(view, frozenset(), Phase.GONE)


def _scale_most(ground: Ground) -> Iterator[Loss]:
    if ground.scaled is not None:
        yield lose_none(ground.scaled)


def _lose_zone(ground: Ground, zone: str) -> Loss:
    return lose(ground.deployed, ground.deployed.nodes.groups(ZONE)[zone], Phase.GONE)


def _lose_zones(ground: Ground, *first: str) -> Iterator[Loss]:
    zones = choose_domains(ZONE, ground.deployed)
    return (_lose_zone(ground, zone) for zone in (*first, *(zone for zone in zones if zone not in first)))


def _is_certain(loss: Loss, workload: Reference) -> bool:
    """Return whether all pods of a workload find a node whatever kube-scheduler chooses."""
    if workload in (Reasons(loss).stuck or ()):  # one order refutes it, sooner than bounds do
        return False
    rows = find_remaining(loss, lambda one: one == workload, briefly=True)
    return all(row.verdict is Verdict.YES for row in rows)


def _read_spread(manifest: Manifest) -> Sequence[SpreadConstraint]:
    workload = manifest.workload
    return workload.template.spec.spread if workload is not None and workload.template is not None else ()


def _loosen(manifest: Manifest, loss: Loss) -> Iterator[_Candidate]:
    """Yield changes of one field of one hard constraint; changes that keep the maximum skew come first.

    After the loss, not all pods find a node. Values of maxSkew that the counts refute are not tried.
    """
    spread = _read_spread(manifest)
    own = reference_of(manifest)
    template, sample = next(
        (one.owner.template, one.sample)
        for one in loss.services
        if one.workload == own and one.owner is not None and one.owner.template is not None
    )
    hard = [*find_changeable(template, sample)]
    for one in hard:
        if spread[one.index].node_taints_policy is InclusionPolicy.IGNORE:
            yield _constrain(manifest, one.index, node_taints_policy=InclusionPolicy.HONOR)
    for one in hard:
        for least in range((spread[one.index].min_domains or 1) - 1, 0, -1)[:_MOST_VALUES]:
            yield _constrain(manifest, one.index, min_domains=least)
    for one in hard:
        current = spread[one.index].max_skew
        first = max(current + 1, find_least_skew(one, current, [loss], own))
        for skew in range(first, first + _MOST_VALUES):
            yield _constrain(manifest, one.index, max_skew=skew)


def _constrain(manifest: Manifest, index: int, **changed: Any) -> _Candidate:
    """Return a manifest with another value of one field of the constraint at this index.

    The field has its name in the model.
    """
    workload = manifest.workload
    assert workload is not None
    assert workload.template is not None
    assert manifest.template is not None
    template = workload.template
    spread = tuple(
        structs.replace(row, **changed) if at == index else row for at, row in enumerate(template.spec.spread)
    )
    ((name, value),) = changed.items()
    path = (*manifest.template, "spec", "topologySpreadConstraints", index, _FIELDS[name])
    made = structs.replace(template, spec=structs.replace(template.spec, spread=spread))
    return _Candidate(
        replace(manifest, workload=structs.replace(workload, template=made)), set_field(manifest, path, value)
    )


def _select_nodes(manifest: Manifest, key: str, value: str) -> _Candidate:
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    assert manifest.template is not None
    template, affinity = manifest.workload.template, manifest.workload.template.spec.node_affinity
    selected = structs.replace(affinity, selector=Labels({**affinity.selector, key: value}))
    made = structs.replace(template, spec=structs.replace(template.spec, node_affinity=selected))
    changed = replace(manifest, workload=structs.replace(manifest.workload, template=made))
    return _Candidate(changed, set_field(manifest, (*manifest.template, "spec", "nodeSelector", key), value))


def _scale(manifest: Manifest, replicas: int) -> _Candidate:
    assert manifest.workload is not None
    changed = structs.replace(manifest.workload, replicas=replicas)
    return _Candidate(replace(manifest, workload=changed), set_field(manifest, REPLICAS, replicas))


def _limit_scaling(scaler: Manifest, most: int) -> _Candidate:
    assert scaler.autoscaler is not None
    changed = structs.replace(scaler.autoscaler, max_replicas=most)
    return _Candidate(replace(scaler, autoscaler=changed), set_field(scaler, MAX_REPLICAS, most))
