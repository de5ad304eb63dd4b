"""Which pods of a group may move, and which pending pods stop it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from benchmarks.planning_states import zone_returned
from rebalancer.model.labels import Labels
from rebalancer.model.reasons import Reason, State
from rebalancer.model.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim
from rebalancer.planning.plan import Plan
from rebalancer.planning.scope.movable import NodeGone, VolumeInUse
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.build import cause_of
from tests.planning.clusters import GENEROUS, planned, pods, policy, returned, stateful


def test_a_pod_of_others_on_a_node_that_is_gone_changes_nothing() -> None:
    """It may still be there for minutes; the pods that may move are on nodes that exist."""
    snapshot = zone_returned(9, 1, replicas=6)
    lost = structs.replace(snapshot.pods[0], namespace="other", name="lost", uid="lost", node="gone", owner=None)
    plans = planned(snapshot), planned(replace(snapshot, pods=(*snapshot.pods, lost)))
    assert plans[0].fates.going
    assert plans[0].fates.going[0].pod == plans[1].fates.going[0].pod


def test_volumes_that_reach_everywhere_tie_nobody() -> None:
    """Pods whose volumes follow them are moved like any other."""
    plan = planned(stateful({}))
    assert len(plan.fates.going) == 1


def test_pinned_by_volumes() -> None:
    """Pods whose volumes keep them in their zone stay, and that is what the report says."""
    plan = planned(stateful({"db-0": "a", "db-1": "a", "db-2": "b", "db-3": "b"}))
    assert plan.fates.going == ()
    assert (plan.components[0].state, plan.components[0].reason) == (State.UNFIXABLE, Reason.VOLUME_PINNED)
    some = planned(stateful({"db-0": "a", "db-1": "a"}))
    assert {eviction.pod.name for eviction in some.fates.going} <= {"db-2", "db-3"}
    assert len(some.fates.going) == 1


def test_a_missing_pod_with_volumes() -> None:
    """While a pod with volumes of its own is missing, nobody knows where its replacement can go."""
    snapshot = stateful({})
    plan = planned(replace(snapshot, pods=snapshot.pods[1:]), policy(budgets=GENEROUS))
    assert plan.fates.going == ()


def test_volumes_that_were_not_read() -> None:
    """A pod with claims is left alone where volumes were not read."""
    plan = planned(replace(stateful({}), unknown=frozenset({"PersistentVolume"})))
    assert plan.fates.going == ()
    assert {refused.reason for refused in plan.refusals} == {Reason.NOT_PREDICTABLE}


def test_a_volume_that_dies_with_its_pod() -> None:
    """A pod with an ephemeral volume is left alone: where the new volume can be is not known."""
    snapshot = returned()
    last = snapshot.pods[-1]
    claim = PersistentVolumeClaim(namespace="shop", name="scratch", volume="v", bound=True, owner_uid=last.uid)
    tied = pods(snapshot, lambda pod: structs.replace(pod, claims=("scratch",)) if pod.uid == last.uid else pod)
    plan = planned(replace(tied, claims=(claim,), volumes=(PersistentVolume(name="v"),)))
    assert last.uid not in {eviction.pod.uid for eviction in plan.fates.going}
    assert {refused.reason for refused in plan.refusals if refused.pod} == {Reason.NOT_PREDICTABLE}


def sharing_a_volume(
    on: Mapping[str, int],
    *,
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    driver: str = "disk",
    drivers: Sequence[CSIDriver] | None = None,
    started: Collection[str] = ("a-1", "b-1"),
    attached: bool = True,
) -> Plan:
    """Plan for a Deployment whose pods share one volume, which every node reaches; those on some nodes have started.

    `drivers` are the CSIDrivers, None where they were not read.
    """
    snapshot = a_cluster("abc", on=on, spread={ZONE: 1}).snapshot()
    workloads = [
        structs.replace(owner, template=structs.replace(owner.template, claims=("shared",)))
        for owner in snapshot.workloads
        if owner.template is not None
    ]
    one = ("ReadWriteOnce",)
    claim = PersistentVolumeClaim(namespace="default", name="shared", volume="v", bound=True, access_modes=one)
    volume = PersistentVolume(
        name="v", driver=driver, attached=attached, access_modes=modes, claim=("default", "shared"), phase="Bound"
    )
    users = pods(snapshot, lambda pod: structs.replace(pod, claims=("shared",), has_sandbox=pod.node in started))
    known: frozenset[str] = frozenset() if drivers is None else frozenset({"CSIDriver"})
    of_storage: dict[str, Any] = {
        "claims": (claim,),
        "volumes": (volume,),
        "csi_drivers": drivers or (),
        "known": known,
    }
    return planned(replace(users, workloads=workloads, **of_storage), policy(budgets=GENEROUS))


def test_pods_that_share_a_volume_which_one_node_can_attach_stay_there() -> None:
    """Elsewhere a replacement would wait for the volume for as long as the others live."""
    plan = sharing_a_volume({"a-1": 3})
    assert plan.fates.going == ()
    (refusal,) = [one.refusal for one in plan.refusals if one.pod == plan.refusals[0].pod]
    assert isinstance(refusal, VolumeInUse)
    assert (refusal.claim, refusal.node, len(refusal.pods)) == ("default/shared", "a-1", 2)
    assert "PersistentVolumeClaim default/shared) is attached to node a-1" in str(refusal)
    assert "or read CSIDrivers: disk may attach nothing (attachRequired: false)" in str(refusal)


@pytest.mark.parametrize(
    "drivers",
    [
        pytest.param((CSIDriver(name="disk"),), id="the driver attaches"),
        pytest.param((), id="nobody says that it does not"),
        pytest.param((CSIDriver(name="other", attach_required=False),), id="another one does not"),
    ],
)
def test_what_a_driver_attaches_is_known_where_csi_drivers_were_read(drivers: Sequence[CSIDriver]) -> None:
    plan = sharing_a_volume({"a-1": 3}, drivers=drivers)
    assert plan.fates.going == ()
    assert not any("read CSIDrivers" in str(one.refusal) for one in plan.refusals)


def test_a_pod_that_waits_for_a_volume_elsewhere_does_not_show_that_nothing_is_attached() -> None:
    plan = sharing_a_volume({"a-1": 3, "b-1": 1}, started=["a-1"])
    assert plan.fates.going == ()
    nodes = {one.refusal.node for one in plan.refusals if isinstance(one.refusal, VolumeInUse)}
    assert nodes == {"a-1"}
    assert sharing_a_volume({"a-1": 3, "b-1": 1}, started=[]).fates.going == ()


@pytest.mark.parametrize(
    ("on", "fields"),
    [
        pytest.param({"a-1": 3, "b-1": 1}, {}, id="pods on two nodes show that the driver attaches nothing"),
        pytest.param({"a-1": 3}, {"modes": ("ReadWriteMany",)}, id="many nodes may mount it"),
        pytest.param({"a-1": 3}, {"modes": ("ReadWriteOnce", "ReadOnlyMany")}, id="many nodes may read it"),
        pytest.param({"a-1": 3}, {"modes": ()}, id="nobody says how many nodes may have it"),
        pytest.param({"a-1": 3}, {"driver": "", "attached": False}, id="no driver attaches it"),
        pytest.param(
            {"a-1": 3}, {"drivers": [CSIDriver(name="disk", attach_required=False)]}, id="the driver does not"
        ),
    ],
)
def test_a_volume_that_other_nodes_can_have_too_ties_nobody(on: dict[str, int], fields: dict[str, Any]) -> None:
    assert sharing_a_volume(on, **fields).fates.going


def test_a_relabelled_pod_is_not_moved() -> None:
    """A pod whose labels no longer match is not counted, so moving it would repair nothing."""
    snapshot = returned()
    odd = snapshot.pods[0].uid
    relabelled = pods(
        snapshot, lambda pod: structs.replace(pod, labels=Labels({"app": "other"})) if pod.uid == odd else pod
    )
    plan = planned(relabelled)
    assert odd not in {eviction.pod.uid for eviction in plan.fates.going}
    assert odd not in {refused.pod for refused in plan.refusals}


def test_a_gated_pod_of_its_own() -> None:
    """It shows that new pods are held back: the replacement of another one would be, too."""
    snapshot = returned()
    first = snapshot.pods[0]
    gated = structs.replace(first, node=None, ready=False, spec=structs.replace(first.spec, gated=True))
    plan = planned(replace(snapshot, pods=(gated, *snapshot.pods[1:])))
    assert plan.fates.going == ()
    assert plan.components[0].reason is Reason.NOT_PREDICTABLE


def test_pods_of_a_lost_node() -> None:
    """While pods of a node that is gone are not replaced yet, nothing is planned on counts that leave them out."""
    snapshot = returned()
    without = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != "b-2"))
    plan = planned(without)
    assert plan.fates.going == ()
    assert plan.components[0].reason is Reason.GROUP_IN_FLIGHT
    cause = cause_of(plan.components[0])
    assert isinstance(cause, NodeGone)
    assert cause.node == "b-2"
