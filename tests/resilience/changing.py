"""Changes carried out on a snapshot, and cheaper ones of the same kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final

from msgspec import structs

from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import InclusionPolicy
from rebalancer.resilience.changed import Change, ChangedConstraint
from rebalancer.resilience.changes import Changes, find_all_changes
from rebalancer.resilience.rows import find_resilience
from rebalancer.scheduling.view import View
from tests.build import change_specs

BOTH: Final = tuple(Phase)


def find(snapshot: Snapshot, phases: Sequence[Phase] = BOTH, name: str = "", key: str = ZONE) -> Sequence[Changes]:
    """Return the changes of all workloads at risk when a zone, or node, is lost, or of the one with a name."""
    view = View(snapshot)
    losses = find_resilience(view, [key], phases, lambda workload: name in {"", workload.name})
    found, left = find_all_changes(view, [key], phases, [*losses], named=True)
    assert not left
    return found


def over(key: str, index: int = 0, *, skew: int | None = None) -> ChangedConstraint:
    """Return a constraint with another maxSkew, or else with nodeTaintsPolicy: Honor."""
    return ChangedConstraint(index=index, key=key, honor=skew is None, max_skew=skew)


def carry_out(snapshot: Snapshot, workload: Reference, change: Change) -> Snapshot:
    """Return the cluster with a change made: other templates and pods of the workload, and further nodes."""

    def changed(app: str, spec: PodSpec) -> PodSpec:
        spread = list(spec.spread)
        for one in change.constraints if app == workload.name else ():
            old = spread[one.index]
            assert old.topology_key == one.key
            spread[one.index] = structs.replace(
                old,
                node_taints_policy=InclusionPolicy.HONOR if one.honor else old.node_taints_policy,
                max_skew=old.max_skew if one.max_skew is None else one.max_skew,
            )
        return structs.replace(spec, spread=tuple(spread))

    nodes = list(snapshot.nodes)
    for more in change.nodes:
        like = snapshot.node[more.like]
        for number in range(more.number):
            name = f"{more.like}-more-{number}"
            labels = type(like.labels)({**like.labels, HOSTNAME: name})
            nodes.append(structs.replace(like, name=name, uid=name, labels=labels))
    return replace(change_specs(snapshot, changed), nodes=tuple(nodes))


def guarantees(snapshot: Snapshot, phases: Sequence[Phase]) -> Mapping[tuple[str, Phase, Reference], int]:
    """Return what is guaranteed of each workload after each loss, but where it is whole, at most what it wants."""
    rows = find_resilience(View(snapshot), [ZONE], phases, lambda _: True)
    return {(one.value, one.phase, row.workload): min(row.guaranteed, row.wanted) for one in rows for row in one.rows}


def holds(snapshot: Snapshot, changed: Snapshot, workload: Reference, phases: Sequence[Phase]) -> bool:
    """Return whether a change makes a workload whole, by the bounds, and nobody has less."""
    wanted = {
        Reference(one.namespace, one.kind, one.name): one.replicas for one in snapshot.workloads if one.owner is None
    }
    before, after = guarantees(snapshot, phases), guarantees(changed, phases)
    least = {place: wanted[place[2]] if place[2] == workload else kept for place, kept in before.items()}
    kept = {place: after.get(place, wanted[place[2]]) for place in {*before, *after}}
    return all(many >= least.get(place, wanted[place[2]]) for place, many in kept.items())


def cheaper(snapshot: Snapshot, workload: Reference, change: Change) -> Iterator[Change]:
    """Yield some cheaper changes of the same kind."""
    spread = next(one.template.spec.spread for one in snapshot.workloads if one.name == workload.name and one.template)
    if change.nodes and not change.constraints:
        fewer = [structs.replace(more, number=more.number - 1) for more in change.nodes]
        yield Change(nodes=tuple(more for more in fewer if more.number))
    if change.nodes:
        return
    honoring = [one for one in change.constraints if one.honor]
    if all(one.max_skew is None for one in change.constraints):
        for number in range(len(honoring)):
            yield Change(constraints=tuple(honoring[:number] + honoring[number + 1 :]))
    elif not honoring:
        skews = {one.index: one.max_skew or 0 for one in change.constraints}
        ranges = [range(one.max_skew, max(one.max_skew, *skews.values()) + 1) for one in spread]
        total = sum(skews.get(index, one.max_skew) for index, one in enumerate(spread))
        for chosen in product(*ranges) if prod(map(len, ranges)) < 60 else ():
            if sum(chosen) < total:
                yield Change(
                    constraints=tuple(
                        over(one.topology_key, index, skew=skew)
                        for index, (one, skew) in enumerate(zip(spread, chosen, strict=True))
                    )
                )
