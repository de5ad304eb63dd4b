"""A StatefulSet that its volumes pin: whose claims would have to be given up, as `explain` says it.

Four pods, three in zone a and one in b, none in c; their volumes are of their zones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rebalancer.advice.claims import ClaimRecipe, NoClaimRecipe, find_claim_recipe
from rebalancer.documents.explanation import ExplanationDetails, explain_pod, explain_workload
from rebalancer.model.moves import Reference
from rebalancer.reporting.text.explanation import explanation_text
from tests.control_plane.manifests import HOSTNAME, ZONE, spread
from tests.known_states.build import (
    CROWDED,
    State,
    bound_claim,
    cluster,
    make,
    minutes_ago,
    stateful_set,
    storage_class,
    unready,
)

DB = Reference("shop", "StatefulSet", "db")
LABELS = {"app": "db"}


def database(
    on: Sequence[str] = CROWDED,
    reach: Mapping[str, str] | None = None,
    binding: str = "WaitForFirstConsumer",
    **spec: Any,
) -> State:
    """Return the StatefulSet; its volumes reach the zones of their nodes, or the nodes with these labels."""
    state = cluster(stateful_set("db", on, claims=["data"], **spec), [storage_class(binding)])
    for ordinal, node in enumerate(on):
        state.add(*bound_claim(f"data-db-{ordinal}", {ZONE: node[0]} if reach is None else reach))
    return state


def recipe(state: State) -> ClaimRecipe | NoClaimRecipe | None:
    made = state.evaluate()
    return find_claim_recipe(DB, made.view, made.assessment, made.plan)


def waiting(state: State, *ordinals: int) -> State:
    """Let pods wait for a node, their claims bound."""
    for ordinal in ordinals:
        pod = state.get("Pod", f"db-{ordinal}")
        del pod["spec"]["nodeName"]
        pod["status"] = {"phase": "Pending"}
    return state


def test_the_highest_ordinal_of_the_fullest_zone_gives_up_its_claim() -> None:
    found = recipe(database())
    assert found == ClaimRecipe("shop", "db", ("db-2",), ("data-db-2",), 4)
    assert str(found).splitlines()[1:] == [
        "  kubectl -n shop delete pvc data-db-2 --wait=false",
        "  kubectl -n shop delete pod db-2",
    ]
    assert "The data of data-db-2 is lost" in str(found)


def test_as_many_as_are_needed_one_after_the_other() -> None:
    """Four in zone a, one in b: 2,2,1 takes two of a."""
    found = recipe(database(("a-0",) * 4 + ("b-0",)))
    assert isinstance(found, ClaimRecipe)
    assert (found.pods, found.scaled_to) == (("db-3", "db-2"), None)
    assert str(found).splitlines()[1:] == [
        "  kubectl -n shop delete pvc data-db-3 --wait=false",
        "  kubectl -n shop delete pod db-3",
        "  kubectl -n shop wait --for=create pod/db-3 --timeout=10m",
        "  kubectl -n shop wait --for=condition=Ready pod/db-3 --timeout=10m",
        "  kubectl -n shop delete pvc data-db-2 --wait=false",
        "  kubectl -n shop delete pod db-2",
    ]


def test_more_than_three_are_scaled_down_together() -> None:
    found = recipe(database(("a-0",) * 7))
    assert isinstance(found, ClaimRecipe)
    assert found.scaled_to is not None
    assert found.pods == tuple(f"db-{ordinal}" for ordinal in range(found.scaled_to, 7))
    assert str(found).splitlines()[1:] == [
        f"  kubectl -n shop scale statefulset db --replicas {found.scaled_to}",
        f"  kubectl -n shop delete pvc {' '.join(found.claims)}",
        "  kubectl -n shop scale statefulset db --replicas 7",
    ]


def test_a_pod_that_waits_for_its_volumes_zone_gives_up_its_claim() -> None:
    """Zone a has two, and maxSkew 1 admits no third there while b has one and c none; its volume is of zone a."""
    state = waiting(database(("a-0", "a-0", "b-0", "a-0")), 3)
    found = recipe(state)
    assert isinstance(found, ClaimRecipe)
    assert found.pods == ("db-3",)


def down(state: State, *ordinals: int) -> State:
    """Let pods run without being Ready."""
    for ordinal in ordinals:
        unready(state.get("Pod", f"db-{ordinal}"))
    return state


def test_no_healthy_replica_is_given_up_while_another_is_down() -> None:
    """New claims of db-3, in zone b, do not help, and db-2, which would, is healthy."""
    found = recipe(down(database(("a-0", "a-0", "a-0", "b-0")), 3))
    assert found == NoClaimRecipe(unready=("db-3",))
    assert str(found).startswith("pod db-3 is not Ready, and its new claims alone do not help: no healthy")
    assert "pods db-0, db-1 are not Ready, and their new" in str(NoClaimRecipe(unready=("db-0", "db-1")))


def test_the_one_that_is_down_may_be_given_up() -> None:
    for ordinal in (0, 1, 2):
        found = recipe(down(database(), ordinal))
        assert isinstance(found, ClaimRecipe)
        assert (found.pods, found.scaled_to) == ((f"db-{ordinal}",), None)


def test_what_is_down_is_repaired_in_the_order_in_which_it_is_created() -> None:
    """OrderedReady creates db-1 before db-3, and a healthy one is given up only after both."""
    found = recipe(waiting(database(("a-0", "a-0", "a-0", "a-0", "b-0")), 1, 3))
    assert isinstance(found, ClaimRecipe)
    assert (found.pods[:2], found.scaled_to) == (("db-1", "db-3"), None)


def test_nothing_is_scaled_down_while_a_replica_is_down() -> None:
    for ordinal in (0, 8):
        for state in (down(database(("a-0",) * 9), ordinal), waiting(database(("a-0",) * 9), ordinal)):
            assert recipe(state) == NoClaimRecipe(unready=(f"db-{ordinal}",))


def test_no_replica_is_given_up_while_another_is_missing() -> None:
    state = waiting(database(("a-0", "a-0", "b-0", "a-0")), 3)
    state.get("Pod", "db-0")["metadata"]["deletionTimestamp"] = minutes_ago(1)
    found = recipe(state)
    assert found == NoClaimRecipe(missing=("db-0",))
    assert "pod db-0 is missing or being deleted" in str(found)


def test_an_autoscaler_would_undo_a_scale_down() -> None:
    for on, scaled in ((("a-0",) * 7, True), (CROWDED, False)):
        state = database(on)
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
        fields = {"scaleTargetRef": target, "minReplicas": len(on), "maxReplicas": 9}
        state.add(make("autoscaling/v2", "HorizontalPodAutoscaler", "db-load", spec=fields))
        found = recipe(state)
        if scaled:
            assert found == NoClaimRecipe(autoscaler="shop/db-load")
            assert "HorizontalPodAutoscaler shop/db-load would undo it" in str(found)
        else:
            assert isinstance(found, ClaimRecipe)


def test_volumes_that_reach_every_node_need_not_be_given_up() -> None:
    assert recipe(database(reach={"kubernetes.io/os": "linux"})) is None


def test_claims_that_are_not_the_templates_own_are_left_out() -> None:
    """They are not made anew."""
    state = database()
    state.get("StatefulSet", "db")["spec"]["volumeClaimTemplates"] = []
    assert recipe(state) is None


def test_what_satisfies_its_constraints_has_no_recipe() -> None:
    assert recipe(database(("a-0", "a-0", "b-0", "c-0"))) is None


def test_a_class_that_binds_at_once_is_named() -> None:
    found = recipe(database(binding="Immediate"))
    assert found == NoClaimRecipe(immediate=("disks",))
    assert "use one with volumeBindingMode WaitForFirstConsumer" in str(found)


def test_where_new_volumes_can_be_made_nowhere_else_nothing_helps() -> None:
    state = database()
    state.get("StorageClass", "disks")["allowedTopologies"] = [
        {"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}
    ]
    found = recipe(state)
    assert found == NoClaimRecipe()
    assert "neither new claims of up to 3 pods nor a scale-down" in str(found)


def test_a_recipe_is_certain_whatever_node_the_scheduler_picks() -> None:
    """MaxSkew 2 over 4,1,0: without one of a the new pod may go to b, 3,2,0. A second one leaves no such choice."""
    rules = [spread(ZONE, labels=LABELS, max_skew=2)]
    found = recipe(database(("a-0",) * 4 + ("b-0",), topologySpreadConstraints=rules))
    assert isinstance(found, ClaimRecipe)
    assert (found.pods, found.scaled_to) == (("db-3", "db-2"), None)


def test_nodes_count_as_well_as_zones() -> None:
    """Two hard constraints."""
    rules = [spread(ZONE, labels=LABELS), spread(HOSTNAME, labels=LABELS)]
    found = recipe(database(topologySpreadConstraints=rules))
    assert isinstance(found, ClaimRecipe)
    assert found.pods == ("db-2",)


def test_explain_shows_the_recipe_for_the_workload_and_for_its_pods() -> None:
    for made in (database(), database(("a-0", "b-0", "c-0"))):
        evaluation = made.evaluate()
        found = find_claim_recipe(DB, evaluation.view, evaluation.assessment, evaluation.plan)
        details = ExplanationDetails(claims=found)
        snapshot = evaluation.view.snapshot
        pod = next(pod for pod in snapshot.pods if pod.name == "db-0")
        for document in (
            explain_workload(DB, evaluation.assessment, evaluation.plan, snapshot, details),
            explain_pod(pod, evaluation.view, evaluation.assessment, evaluation.plan, details),
        ):
            said = [one for one in document.path if one.question == "What would repair it in spite of its volumes?"]
            assert [one.answer for one in said] == (["giving up data-db-2"] if found is not None else [])
            assert "kubectl -n shop delete pod db-2" in explanation_text(document) or found is None
