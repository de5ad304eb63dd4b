"""In every cluster violations are those of the scheduler's own filter, pair by pair, and the number is the least."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.anti_affinity.evaluate import evaluate_anti_affinity
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.controllers import find_reference
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.inter_pod_affinity import OWN_ANTI_AFFINITY, THEIR_ANTI_AFFINITY, InterPodAffinity
from rebalancer.scheduling.view import View
from tests.assessment.anti_affinity.drawn import clusters
from tests.drawing import examples

Pair = frozenset[str]


def find_pairs(snapshot: Snapshot) -> set[Pair]:
    """Return the pairs of living pods of which one could not be placed where it is, were it pending."""
    living = [
        one
        for one in snapshot.pods
        if one.node in snapshot.node and one.phase is not PodPhase.SUCCEEDED and one.deleted is None
    ]
    return {
        frozenset((one.uid, other.uid))
        for one, other in combinations(living, 2)
        if not are_revisions(one, other, snapshot) and excludes(one, other, snapshot)
    }


def excludes(one: Pod, other: Pod, snapshot: Snapshot) -> bool:
    """Ask the filter, both ways: it gives the same answer."""
    answers = set()
    for pending, placed in ((one, other), (other, one)):
        waiting = structs.replace(pending, node=None, phase=PodPhase.PENDING)
        verdict = InterPodAffinity(waiting, View(replace(snapshot, pods=(placed,)))).verdict(str(pending.node))
        answers.add(verdict in {OWN_ANTI_AFFINITY, THEIR_ANTI_AFFINITY})
    (answer,) = answers
    return answer


def are_revisions(one: Pod, other: Pod, snapshot: Snapshot) -> bool:
    """Say whether the pods are of two ReplicaSets of one Deployment."""
    owners = [snapshot.workload.get(pod.owner.uid) if pod.owner is not None else None for pod in (one, other)]
    uids = {owner.owner.uid if owner is not None and owner.owner is not None else None for owner in owners}
    return owners[0] is not owners[1] and uids == {f"Deployment/{one.namespace}/{one.labels['app']}"}


def with_only(snapshot: Snapshot, namespace: str, term: PodAffinityTerm) -> Snapshot:
    """Return the cluster in which pods declare this term, of those of a namespace that do, and no other."""

    def narrow(pod: Pod) -> Pod:
        declared = pod.namespace == namespace and term in pod.spec.pod_affinity.anti_required
        affinity = PodAffinity(anti_required=(term,) if declared else ())
        return structs.replace(pod, spec=structs.replace(pod.spec, pod_affinity=affinity))

    return replace(snapshot, pods=tuple(map(narrow, snapshot.pods)))


def cover(pairs: Iterable[Pair], pods: Sequence[str]) -> int:
    """Return the fewest pods of which each pair has one."""
    wanted = list(pairs)
    for number in range(len(pods) + 1):
        if any(all(pair & {*chosen} for pair in wanted) for chosen in combinations(pods, number)):
            return number
    raise AssertionError


def uids_by_domain(one: EvaluatedTerm) -> dict[str, set[str]]:
    return {conflict.domain: {pod.uid for side in conflict.sides for pod in side.pods} for conflict in one.conflicts}


@examples(400)
@given(snapshot=clusters)
def test_conflicts_are_those_of_the_filter(snapshot: Snapshot) -> None:
    """Term by term; and the pods of all terms together are those that conflict by any."""
    evaluated = evaluate_anti_affinity(View(snapshot))
    for one in evaluated:
        pairs = find_pairs(with_only(snapshot, one.namespace, one.term))
        pods = {uid: snapshot.pod[uid] for pair in pairs for uid in pair}
        by_domain: dict[str, set[str]] = {}
        for uid, pod in pods.items():
            by_domain.setdefault(snapshot.node[str(pod.node)].labels[one.term.topology_key], set()).add(uid)
        assert uids_by_domain(one) == by_domain
        assert one.violated == bool(pairs)
    concerned = {uid for one in evaluated for uids in uids_by_domain(one).values() for uid in uids}
    assert concerned == {uid for pair in find_pairs(snapshot) for uid in pair}


@examples(200)
@given(snapshot=clusters, seed=st.integers())
def test_the_order_of_pods_changes_nothing(snapshot: Snapshot, seed: int) -> None:
    pods = Random(seed).sample(snapshot.pods, k=len(snapshot.pods))
    other = replace(snapshot, pods=tuple(pods))
    assert evaluate_anti_affinity(View(snapshot)) == evaluate_anti_affinity(View(other))


@examples(400)
@given(snapshot=clusters)
def test_the_excess_is_the_fewest_pods_that_would_have_to_move(snapshot: Snapshot) -> None:
    for one in evaluate_anti_affinity(View(snapshot)):
        pairs = find_pairs(with_only(snapshot, one.namespace, one.term))
        for conflict in one.conflicts:
            uids = sorted(uids_by_domain(one)[conflict.domain])
            assert conflict.excess == cover([pair for pair in pairs if pair <= {*uids}], uids)


@examples(200)
@given(snapshot=clusters)
def test_every_side_says_whose_pods_they_are_and_who_declares(snapshot: Snapshot) -> None:
    view = View(snapshot)
    for one in evaluate_anti_affinity(view):
        for conflict in one.conflicts:
            for side in conflict.sides:
                assert {find_reference(pod, view) for pod in side.pods} == {side.workload}
                declaring = {
                    pod.namespace == one.namespace and one.term in pod.spec.pod_affinity.anti_required
                    for pod in side.pods
                }
                assert declaring == {side.declares}


@examples(400)
@given(snapshot=clusters)
def test_what_is_infeasible_has_no_placement(snapshot: Snapshot) -> None:
    """Whatever is moved to whichever node: more pods than domains conflict with each other."""
    for one in evaluate_anti_affinity(View(snapshot)):
        if one.state is State.INFEASIBLE:
            pairs = find_pairs_anywhere(with_only(snapshot, one.namespace, one.term))
            assert one.separation is not None
            needed = one.separation.pods
            uids = sorted({uid for pair in pairs for uid in pair})
            domains = {node.labels.get(one.term.topology_key) for node in snapshot.nodes}
            assert None not in domains
            assert needed > len(domains) == one.separation.domains
            assert any(
                all(frozenset(pair) in pairs for pair in combinations(chosen, 2))
                for chosen in combinations(uids, needed)
            )


def find_pairs_anywhere(snapshot: Snapshot) -> set[Pair]:
    """Return the pairs that conflict wherever they share a domain."""
    first = snapshot.nodes[0].name
    gathered = tuple(structs.replace(pod, node=first) if pod.node in snapshot.node else pod for pod in snapshot.pods)
    return find_pairs(replace(snapshot, pods=gathered))


@examples(200)
@given(snapshot=clusters)
def test_free_domains_are_those_in_which_the_filter_admits_another_pod(snapshot: Snapshot) -> None:
    """Of the pods that declare the term and are selected by it, which a terminating pod keeps away, too."""
    for one in evaluate_anti_affinity(View(snapshot)):
        if one.separation is None or one.separation.free is None:
            continue
        view = View(with_only(snapshot, one.namespace, one.term))
        sample = next(
            pod
            for pod in view.snapshot.pods
            if one.term in pod.spec.pod_affinity.anti_required
            and pod.phase is not PodPhase.SUCCEEDED
            and selects(one.term, one.namespace, pod, view)
        )
        waiting = structs.replace(sample, node=None, phase=PodPhase.PENDING, uid="another")
        admitted = InterPodAffinity(waiting, view).admit(view.nodes.names)
        assert one.separation.free == len({snapshot.node[name].labels[one.term.topology_key] for name in admitted})
