"""Owners that would not bring an evicted pod back as it was, or not at all: their pods stay; their likes' are moved."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec import structs

from rebalancer.account.numbers import plan_numbers
from rebalancer.model.cluster import Autoscaler
from rebalancer.model.facts import Fact
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, pod_ordinal
from rebalancer.planning.diagnosis.obstacles import PodsStay
from rebalancer.planning.plan import Plan
from rebalancer.planning.scope.eligibility import EligibilityChecker, NodeSilent, OwnerRollingOut, PodsReplaced
from rebalancer.planning.scope.movable import TemplatesDiffer
from rebalancer.planning.scope.owners import (
    AutoscalerScales,
    CreationFails,
    LowerOrdinalNotReady,
    OwnsObjects,
    PodsTerminating,
    SeveralReplicaSets,
    refuse_scaled,
)
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster, with_owners
from tests.planning.clusters import database, evicted, owners, planned, pods, policy, returned, sharing

ROLLOUT = OwnerReference(group="argoproj.io", kind="Rollout", name="pay", uid="rollout")


def named(snapshot: Snapshot, pod_name: str, **fields: Any) -> Snapshot:
    """Change one pod."""
    return pods(snapshot, lambda pod: structs.replace(pod, **fields) if pod.name == pod_name else pod)


def same(snapshot: Snapshot) -> Snapshot:
    """Let all pods share the labels and the spec of the first one, as the pods of a ReplicaSet do."""
    first = snapshot.pods[0]
    return pods(snapshot, lambda pod: structs.replace(pod, labels=first.labels, spec=first.spec))


def causes(plan: Plan) -> set[Fact]:
    """Return why pods stay, each pod's own reason and that of the component."""
    facts = [refused.refusal for refused in plan.refusals]
    facts += [component.refusal for component in plan.components if component.refusal is not None]
    return {fact.cause if isinstance(fact, PodsStay) else fact for fact in facts}


def held(revisions: Sequence[int], partition: int, **fields: Any) -> Snapshot:
    """Return the database whose pods are of these revisions, db-1 or db-2; it is updating to db-2."""
    wanted = [f"db-{revision}" for revision in revisions]
    snapshot = database(
        **{
            "revision": "db-2",
            "current_revision": "db-1",
            "partition": partition,
            "updated": wanted.count("db-2"),
            **fields,
        }
    )
    of_pod = dict(zip([pod.uid for pod in snapshot.pods], wanted, strict=True))
    return pods(
        snapshot,
        lambda pod: structs.replace(pod, labels=Labels({**pod.labels, "controller-revision-hash": of_pod[pod.uid]})),
    )


class TestPartition:
    """A rollout that has ended at its partition stops no repair; one that is under way does."""

    @pytest.mark.parametrize(
        ("revisions", "partition"), [([1, 1, 1, 2], 3), ([1, 2, 2, 2], 1), ([1, 1, 1, 1], 4), ([1, 1, 1, 1], 9)]
    )
    def test_a_rollout_that_has_ended_at_its_partition_stops_no_repair(
        self, revisions: list[int], partition: int
    ) -> None:
        """Below it a pod comes back as it is, at or above it with the newest template, which it has already."""
        assert evicted(planned(held(revisions, partition))) == ["db-0"]

    def test_a_partition_counts_from_the_first_ordinal(self) -> None:
        snapshot = held([1, 1, 1, 2], 3, first_ordinal=5)
        moved = pods(snapshot, lambda pod: structs.replace(pod, name=f"db-{5 + int(pod.name[-1])}"))
        assert evicted(planned(moved)) == ["db-5"]

    @pytest.mark.parametrize(
        ("revisions", "partition", "fields", "in_place"),
        [
            ([1, 1, 1, 2], 2, {}, 3),
            ([2, 1, 1, 2], 3, {}, 3),
            ([1, 1, 1, 2], 0, {}, 1),
            ([1, 1, 1, 2], 3, {"current_revision": ""}, 1),
        ],
        ids=["one above is old", "one below is new", "no partition", "no older revision"],
    )
    def test_a_rollout_that_is_under_way_is_left_to_itself(
        self, revisions: list[int], partition: int, fields: dict[str, Any], in_place: int
    ) -> None:
        """A pod that would come back at another revision than it has may belong to any rollout, forward or back."""
        plan = planned(held(revisions, partition, **fields))
        assert evicted(plan) == []
        assert causes(plan) == {OwnerRollingOut("StatefulSet", 4, 4, in_place)}

    def test_while_a_pod_below_it_is_replaced_no_other_goes(self) -> None:
        """As without a partition, where the status counts no terminating pod as updated."""
        snapshot = held([1, 1, 1, 2], 3, parallel=True)
        plan = planned(named(snapshot, "db-3", deleted=snapshot.taken_at))
        assert causes(plan) == {OwnerRollingOut("StatefulSet", 4, 4, 3)}

    def test_pods_of_two_templates_that_are_scheduled_alike_are_moved_alike(self) -> None:
        """Such as those that differ in an image: most rollouts that somebody holds at a partition."""
        snapshot = pods(held([1, 2, 2, 2], 1), self.template(images=("db:2",)))
        assert evicted(planned(named(snapshot, "db-0", annotations=Labels({"rebalancer.dev/exclude": "true"})))) == [
            "db-1"
        ]

    def test_pods_of_a_template_that_is_scheduled_otherwise_stay(self) -> None:
        """The plan is made for pods of the first pod's template: those of the other one are counted and stay."""
        snapshot = pods(held([1, 2, 2, 2], 1), self.template(requests=Resources(cpu=500)))
        plan = planned(snapshot)
        assert evicted(plan) == ["db-0"]
        assert TemplatesDiffer("db-0", "db-2") in causes(plan)

    def test_pods_whose_replacements_would_not_be_counted_stay(self) -> None:
        """Here the constraint counts a label that is set at run time: the newest template does not have it."""
        role = {"role": "data"}

        def counted(spec: PodSpec) -> PodSpec:
            (constraint,) = spec.spread
            return structs.replace(spec, spread=(structs.replace(constraint, selector=LabelSelector.of(role)),))

        def labelled(pod: Pod) -> Pod:
            return structs.replace(pod, spec=counted(pod.spec), labels=Labels({**pod.labels, **role}))

        def templated(owner: Workload) -> Workload:
            assert owner.template is not None
            return structs.replace(owner, template=structs.replace(owner.template, spec=counted(owner.template.spec)))

        plan = planned(owners(pods(held([1, 2, 2, 2], 1), labelled), templated))
        assert evicted(plan) == ["db-0"]
        assert TemplatesDiffer("db-0", "db-2") in causes(plan)

    def test_pods_whose_template_is_not_predictable_stay(self) -> None:
        snapshot = pods(held([1, 2, 2, 2], 1), self.template(unpredictable=("resourceClaims",)))
        plan = planned(snapshot)
        assert evicted(plan) == ["db-0"]
        assert Reason.NOT_PREDICTABLE in {fact.reason for fact in causes(plan) if isinstance(fact, Unpredictable)}

    def template(self, **fields: Any) -> Callable[[Pod], Pod]:
        """Change the pods of revision db-2."""

        def change(pod: Pod) -> Pod:
            spec: PodSpec = structs.replace(pod.spec, **fields)
            is_new = pod.labels["controller-revision-hash"] == "db-2"
            return structs.replace(pod, spec=spec, requests=spec.requests) if is_new else pod

        return change


class TestOrder:
    """Under OrderedReady a pod is not created before all of lower ordinals are Ready."""

    def test_while_a_pod_is_not_ready_none_above_it_is_evicted(self) -> None:
        snapshot = named(database({"b-1": 1, "a-1": 3}), "db-0", ready=False)
        plan = planned(snapshot)
        assert evicted(plan) == []
        assert causes(plan) == {LowerOrdinalNotReady("StatefulSet", "db-0", "is not Ready")}
        assert {refused.reason for refused in plan.refusals} == {Reason.CANNOT_CREATE}

    def test_the_pod_that_is_not_ready_and_those_below_it_may_go(self) -> None:
        """They come back at once: the lowest that is not Ready is the one that the controller acts on."""
        assert evicted(planned(named(database(), "db-0", ready=False))) == ["db-0"]
        lower = planned(named(database(), "db-3", ready=False))
        assert evicted(lower) == ["db-0"]

    def test_under_parallel_pods_are_not_created_in_turn(self) -> None:
        snapshot = named(database({"b-1": 1, "a-1": 3}, parallel=True), "db-0", ready=False)
        assert evicted(planned(snapshot)) == ["db-1"]

    def test_the_pods_of_a_deployment_are_not_created_in_turn(self) -> None:
        snapshot = returned()
        assert len(planned(named(snapshot, snapshot.pods[0].name, ready=False)).fates.going) == 4

    @pytest.mark.parametrize(
        ("fields", "state"),
        [
            ({"ready": False}, "is not Ready"),
            ({"phase": PodPhase.FAILED, "ready": False}, "is Failed"),
            ({"phase": PodPhase.SUCCEEDED, "ready": False}, "is Succeeded"),
            ({"deleted": a_cluster("a").snapshot().taken_at}, "is terminating"),
            ({"name": "other"}, "does not exist"),
        ],
    )
    def test_what_a_stateful_set_waits_for(self, fields: dict[str, Any], state: str) -> None:
        """Whatever its status says of the number of its pods: it may be older."""
        snapshot = named(database(), "db-1", **fields)
        checker = EligibilityChecker(snapshot, policy(), View(snapshot).clock)
        found = {pod.name[-1]: checker.refuse_pod(pod) for pod in snapshot.pods if pod.name != "db-1"}
        waits = LowerOrdinalNotReady("StatefulSet", "db-1", state)
        assert (found["0"], found["2"], found["3"]) == (None, waits, waits)

    def test_what_waits_for_a_lower_ordinal_is_left_out_of_no_proved_minimum(self) -> None:
        """Its evictions are not known until that pod is Ready: what is known may be fewer than are made."""
        plan = planned(named(database({"a-1": 4, "b-1": 0}), "db-0", ready=False))
        assert (plan_numbers(plan).uncounted, plan_numbers(plan).optimal) == (1, False)

    def test_whichever_pods_are_not_ready_all_below_a_victim_are(self) -> None:
        """Of a step, too: its victims are Ready themselves but for the lowest that is not."""
        random, moving = Random(5), 0
        for _ in range(150):
            unready = [f"db-{ordinal}" for ordinal in range(12) if random.random() < 0.1]
            snapshot = database({"a-1": random.randint(2, 6), "b-1": random.randint(2, 6)})
            for name in unready:
                snapshot = named(snapshot, name, ready=False)
            waiting = [pod_ordinal(pod.name) for pod in snapshot.pods if not pod.ready]
            victims = [pod_ordinal(name) for name in evicted(planned(snapshot))]
            assert all(victim <= min(waiting) for victim in victims if waiting)
            moving += bool(victims and waiting)
        assert moving > 20

    def test_pods_that_are_alike_are_examined_one_by_one_then(self) -> None:
        """Files that somebody has written by hand have no labels of single pods."""
        alike = same(database())
        late = named(alike, "db-0", ready=False)
        for snapshot, movable in ((alike, True), (late, False)):
            checker = EligibilityChecker(snapshot, policy(), View(snapshot).clock)
            assert checker.are_all_movable(snapshot.pods) == movable


class TestPodsOnNodesThatAreNotReady:
    """A pod that comes back under its name waits until its node says that it is gone; others do not."""

    def with_silent_nodes(self, snapshot: Snapshot) -> Snapshot:
        held = {pod.node for pod in snapshot.pods}
        nodes = [structs.replace(node, ready=False) if node.name in held else node for node in snapshot.nodes]
        return replace(snapshot, nodes=nodes)

    def refuse(self, snapshot: Snapshot) -> set[object]:
        checker = EligibilityChecker(snapshot, policy(), View(snapshot).clock)
        return {checker.refuse_pod(pod) for pod in snapshot.pods}

    def test_a_pod_of_a_stateful_set_stays(self) -> None:
        snapshot = database()
        assert self.refuse(snapshot) == {None}
        silent = self.with_silent_nodes(snapshot)
        assert self.refuse(silent) == {NodeSilent("StatefulSet", pod.node or "") for pod in silent.pods}

    def test_a_pod_of_a_deployment_is_not_held(self) -> None:
        assert self.refuse(self.with_silent_nodes(returned())) == {None}

    def lost(self, of: int, **fields: Any) -> Snapshot:
        """Return a database after zone a was lost: its two pods, of this revision, are terminating; four are in b."""
        on = {"a-1": 2, "b-1": 4}
        snapshot = database(on, revision="db-2", current=6, updated=4, **fields)

        def change(pod: Pod) -> Pod:
            is_lost = pod.node == "a-1"
            revision = of if is_lost else 2
            labels = Labels({**pod.labels, "controller-revision-hash": f"db-{revision}"})
            return structs.replace(pod, labels=labels, deleted=snapshot.taken_at if is_lost else None)

        nodes = [structs.replace(node, ready=node.name != "a-1") for node in snapshot.nodes]
        return replace(pods(snapshot, change), nodes=nodes)

    def test_where_pods_elsewhere_are_terminating_too_it_is_a_rollout(self) -> None:
        """None of those on the silent node: the others say nothing of it."""
        snapshot = self.lost(2, current_revision="db-1")
        moved = pods(snapshot, lambda pod: structs.replace(pod, node="b-1") if pod.terminating else pod)
        assert causes(planned(moved)) == {OwnerRollingOut("StatefulSet", 6, 6, 4)}

    @pytest.mark.parametrize(("current_revision", "is_rollout"), [("db-1", True), ("", True), ("db-2", False)])
    def test_a_stateful_set_of_one_revision_that_lacks_a_pod_is_not_said_to_roll_out(
        self, current_revision: str, is_rollout: bool
    ) -> None:
        """As in the second after an eviction, while its status counts one pod less: nothing goes, as before."""
        plan = planned(database(revision="db-2", current=4, updated=3, current_revision=current_revision))
        assert evicted(plan) == []
        assert causes(plan) == {OwnerRollingOut("StatefulSet", 4, 4, 3) if is_rollout else PodsReplaced(1, 4)}
        assert plan_numbers(plan).uncounted == (not is_rollout)
        assert plan_numbers(plan).optimal is is_rollout, "no number of evictions is the proved minimum without its own"

    def test_a_pod_that_is_created_anew_elsewhere_is_no_rollout_while_a_node_is_silent(self) -> None:
        """As when the pods of a lost node have been deleted: the status lacks one, and none is terminating."""
        whole = database(revision="db-2", current=4, updated=3, current_revision="db-2")
        nodes = [*whole.nodes, structs.replace(whole.nodes[0], name="c-1", ready=False)]
        assert causes(planned(replace(whole, nodes=nodes))) == {PodsReplaced(1, 4)}

    def test_pods_that_cannot_end_there_are_no_rollout(self) -> None:
        """Nothing is evicted, and it goes on when these pods are deleted: no rollout is said to end."""
        plan = planned(self.lost(2, current_revision="db-2"))
        assert evicted(plan) == []
        assert causes(plan) == {PodsTerminating(2, ("a-1",))}
        (refusal,) = {component.refusal for component in plan.components}
        assert refusal is not None
        assert (refusal.reason, refusal.end.event) == (
            Reason.CANNOT_CREATE,
            "when its terminating pods are deleted",
        )

    @pytest.mark.parametrize(
        ("of", "partition", "is_rollout"), [(1, 0, True), (2, 0, False), (1, 2, False), (2, 2, True)]
    )
    def test_pods_that_cannot_end_there_are_of_a_rollout_where_they_come_back_otherwise(
        self, of: int, partition: int, is_rollout: bool
    ) -> None:
        """At another revision than they have, which the partition decides."""
        plan = planned(self.lost(of, current_revision="db-1", partition=partition))
        rolling = OwnerRollingOut("StatefulSet", 6, 6, 4)
        assert causes(plan) == {rolling if is_rollout else PodsTerminating(2, ("a-1",))}

    def test_pods_that_are_alike_are_examined_one_by_one_then(self) -> None:
        alike = same(database())
        for snapshot, movable in ((alike, True), (self.with_silent_nodes(alike), False)):
            checker = EligibilityChecker(snapshot, policy(), View(snapshot).clock)
            assert checker.are_all_movable(snapshot.pods) == movable


def argo(old: dict[str, Any], replicas: int = 1, living: int = 1) -> Snapshot:
    """Return twelve pods of a Rollout's ReplicaSet, and an older one of the same owner; `old` changes its pods."""
    builder = a_cluster("abc", 2)
    builder.deployment("new", on={"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}, spread={ZONE: 1}, namespace="shop")
    builder.deployment("old", on={"c-1": living}, replicas=replicas, namespace="shop")
    snapshot = builder.snapshot()
    sets = [
        structs.replace(owner, owner=ROLLOUT, name=owner.name[:3])
        for owner in snapshot.workloads
        if owner.kind == "ReplicaSet"
    ]
    return pods(
        replace(snapshot, workloads=tuple(sets)),
        lambda pod: structs.replace(pod, **old) if pod.labels["app"] == "old" else pod,
    )


class TestRollout:
    """Two ReplicaSets of one owner that both have pods: a rollout, whatever the owner is."""

    def test_an_owner_of_an_unknown_kind_whose_two_replica_sets_have_pods_is_being_rolled_out(self) -> None:
        plan = planned(argo({}))
        assert evicted(plan) == []
        assert SeveralReplicaSets("Rollout", "pay", ("old",)) in causes(plan)
        assert {refused.reason for refused in plan.refusals} == {Reason.ROLLOUT_IN_PROGRESS}

    def test_an_old_one_that_still_wants_a_pod_is_not_over(self) -> None:
        """Its pod is about to be created, again or for the first time."""
        assert SeveralReplicaSets("Rollout", "pay", ("old",)) in causes(planned(argo({}, replicas=1, living=0)))

    def test_an_old_one_that_still_has_a_pod_is_not_over(self) -> None:
        assert SeveralReplicaSets("Rollout", "pay", ("old",)) in causes(planned(argo({}, replicas=0, living=1)))

    @pytest.mark.parametrize(
        ("old", "living"),
        [
            ({}, 0),
            ({"deleted": a_cluster("a").snapshot().taken_at}, 1),
            ({"phase": PodPhase.FAILED}, 1),
            ({"phase": PodPhase.SUCCEEDED}, 1),
        ],
        ids=["no pod", "a terminating pod", "a failed pod", "a finished pod"],
    )
    def test_a_rollout_is_over_once_the_old_one_wants_no_pods_and_has_none_that_live(
        self, old: dict[str, Any], living: int
    ) -> None:
        """What is left of it ends by itself, and nothing comes in its place."""
        assert len(planned(argo(old, replicas=0, living=living)).fates.going) == 4

    def test_replica_sets_of_two_owners_are_no_rollout(self) -> None:
        second = structs.replace(ROLLOUT, uid="another")
        assert len(planned(with_owners(argo({}), "old", owner=second)).fates.going) == 4

    def test_a_replica_set_beside_a_stateful_set_of_the_same_operator_is_no_rollout(self) -> None:
        assert len(planned(with_owners(argo({}), "old", kind="StatefulSet")).fates.going) == 4

    def test_several_stateful_sets_of_an_operator_are_no_rollout(self) -> None:
        """They are the parts of one application: its shards, its tiers."""
        builder = a_cluster("abc", 1)
        for name in ("db", "cache"):
            builder.stateful_set(name, on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, namespace="shop")
        shards = owners(builder.snapshot(), lambda owner: structs.replace(owner, owner=ROLLOUT))
        assert evicted(planned(shards)) == ["cache-0", "db-0"]


class TestCreation:
    """An owner that cannot create pods loses none; its own message says why."""

    def test_an_owner_that_cannot_create_its_pods_loses_no_more(self) -> None:
        """The message is the API server's; the workload lacks pods already, and that is not what is said."""
        snapshot = returned()
        name = next(owner.name for owner in snapshot.workloads if owner.kind == "ReplicaSet")
        plan = planned(with_owners(snapshot, name, creation_failure="exceeded quota: pods", current=11))
        assert evicted(plan) == []
        assert causes(plan) == {CreationFails("ReplicaSet", name, "exceeded quota: pods")}
        assert {refused.reason for refused in plan.refusals} == {Reason.CANNOT_CREATE}

    def test_while_one_owner_cannot_create_pods_those_that_share_its_constraints_wait(self) -> None:
        """The missing pods come as soon as they are allowed, and change the counts."""
        builder = a_cluster("abc", 1)
        for name in ("api", "web"):
            builder.deployment(name, on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, namespace="shop")
        snapshot = sharing(builder.snapshot())
        assert evicted(planned(snapshot))
        (name,) = {owner.name for owner in snapshot.workloads if owner.kind == "ReplicaSet" and "web" in owner.name}
        plan = planned(with_owners(snapshot, name, creation_failure="exceeded quota"))
        assert evicted(plan) == []
        assert {type(fact) for fact in causes(plan)} == {CreationFails}

    def test_what_an_older_replica_set_could_not_create_does_not_matter(self) -> None:
        """Its condition stays for as long as it has nothing to do."""
        older = with_owners(argo({}, replicas=0, living=0), "old", creation_failure="forbidden")
        assert len(planned(older).fates.going) == 4


class TestAutoscaler:
    """A HorizontalPodAutoscaler that is about to create pods."""

    def scaled(self, least: int, kind: str = "Deployment", name: str = "web", **fields: Any) -> Plan:
        scaler = Autoscaler(namespace="shop", name="hpa", target_kind=kind, target_name=name, min_replicas=least)
        return planned(replace(returned(), autoscalers=(structs.replace(scaler, **fields),)))

    def test_a_workload_below_an_autoscalers_least_number_is_about_to_be_scaled(self) -> None:
        plan = self.scaled(13)
        assert evicted(plan) == []
        assert causes(plan) == {AutoscalerScales("shop/hpa", "minReplicas", 13, 12)}
        assert {refused.reason for refused in plan.refusals} == {Reason.ROLLOUT_IN_PROGRESS}

    @pytest.mark.parametrize("least", [0, 1, 11, 12])
    def test_one_at_or_above_that_number_is_not(self, least: int) -> None:
        assert len(self.scaled(least).fates.going) == 4

    @pytest.mark.parametrize(("most", "scales"), [(None, False), (12, False), (11, True)])
    def test_one_above_its_most_is_about_to_be_scaled_too(self, most: int | None, scales: bool) -> None:
        plan = self.scaled(1, max_replicas=most)
        assert causes(plan) == ({AutoscalerScales("shop/hpa", "maxReplicas", 11, 12)} if scales else set())
        assert bool(evicted(plan)) is not scales

    @pytest.mark.parametrize("fields", [{"namespace": "other"}, {"target_kind": "StatefulSet"}, {"target_name": "api"}])
    def test_an_autoscaler_of_another_workload_does_not_matter(self, fields: dict[str, str]) -> None:
        assert len(self.scaled(13, **fields).fates.going) == 4

    def test_a_workload_that_was_scaled_to_zero_is_not_scaled_up(self) -> None:
        """That switches its autoscaler off."""
        scaler = Autoscaler(namespace="shop", name="hpa", target_kind="StatefulSet", target_name="db", min_replicas=3)
        snapshot = replace(database(), autoscalers=(scaler,))
        (owner,) = snapshot.workloads
        for replicas, refused in ((0, None), (1, AutoscalerScales("shop/hpa", "minReplicas", 3, 1))):
            assert refuse_scaled(structs.replace(owner, replicas=replicas), snapshot) == refused


def below(kind: str, name: str, owner: OwnerReference | None = None, owning_pod: str = "", **fields: Any) -> Workload:
    sample = database().workloads[0]
    return structs.replace(
        sample, kind=kind, name=name, uid=name, owner=owner, owning_pod=owning_pod, replicas=0, template=None, **fields
    )


class TestOwned:
    """Objects that the garbage collector deletes with a pod."""

    def leader(self) -> str:
        """Return the UID of db-0, which is the one that would be evicted."""
        return database().pods[0].uid

    def with_worker(self, owner: str = "", owning_pod: str = "", **fields: Any) -> Pod:
        reference = OwnerReference(group="apps", kind="StatefulSet", name=owner, uid=owner) if owner else None
        made = structs.replace(
            database().pods[3], name="worker", uid="worker", labels=Labels({"app": "worker"}), spec=PodSpec()
        )
        return structs.replace(made, owner=reference, owning_pod=owning_pod, **fields)

    def test_a_pod_with_which_others_would_be_deleted_stays(self) -> None:
        """Here a StatefulSet of workers; another pod goes in its place."""
        snapshot = database()
        workers = below("StatefulSet", "db-0-workers", owning_pod=self.leader())
        owned = replace(
            snapshot,
            workloads=(*snapshot.workloads, workers),
            pods=(*snapshot.pods, self.with_worker(owner="db-0-workers")),
        )
        plan = planned(owned)
        assert evicted(plan) == ["db-1"]
        assert causes(plan) == {OwnsObjects(("StatefulSet db-0-workers",), 1)}
        assert {refused.reason for refused in plan.refusals} == {Reason.NOT_EVICTABLE}

    def test_what_is_below_them_goes_too(self) -> None:
        """A Deployment's ReplicaSet has the pods; references that run in a circle end nowhere else."""
        snapshot = database()
        deployment = below("Deployment", "d", owning_pod=self.leader())
        reference = OwnerReference(group="apps", kind="Deployment", name="d", uid="d")
        second = structs.replace(self.with_worker(owning_pod="worker"), name="second", uid="second")
        ended = structs.replace(self.with_worker(owner="r"), name="ended", uid="ended", phase=PodPhase.FAILED)
        circle = structs.replace(second, name="third", uid="third", owning_pod="second")
        back = structs.replace(second, owning_pod="third", name="fourth", uid="fourth")
        around = structs.replace(second, owning_pod="fourth", name="fifth", uid="third")
        owned = replace(
            snapshot,
            workloads=(*snapshot.workloads, deployment, below("ReplicaSet", "r", owner=reference)),
            pods=(*snapshot.pods, self.with_worker(owner="r"), ended, second, circle, back, around),
        )
        assert OwnsObjects(("Deployment d",), 4) in causes(planned(owned))

    def test_a_pod_that_owns_pods_stays(self) -> None:
        """As a Spark driver, whose executors end with it."""
        snapshot = database()
        driver = OwnerReference(group="", kind="Pod", name="db-0", uid=self.leader())
        worker = structs.replace(self.with_worker(owning_pod=self.leader()), owner=driver)
        other = structs.replace(worker, name="more", uid="more", owner=None)
        plan = planned(replace(snapshot, pods=(*snapshot.pods, worker, other)))
        assert evicted(plan) == ["db-1"]
        assert OwnsObjects(("Pod more", "Pod worker"), 2) in causes(plan)

    @pytest.mark.parametrize(
        "fields", [{"phase": PodPhase.SUCCEEDED}, {"deleted": database().taken_at}], ids=["finished", "terminating"]
    )
    def test_what_has_ended_already_keeps_no_pod_where_it_is(self, fields: dict[str, Any]) -> None:
        snapshot = database()
        worker = self.with_worker(owning_pod=self.leader(), **fields)
        assert evicted(planned(replace(snapshot, pods=(*snapshot.pods, worker)))) == ["db-0"]

    def test_a_bare_pod_without_an_owner_keeps_no_other_where_it_is(self) -> None:
        snapshot = database()
        beside = replace(snapshot, pods=(*snapshot.pods, self.with_worker()))
        assert evicted(planned(beside)) == ["db-0"]
        assert not beside.owned_by_pod

    def test_pods_that_are_alike_are_examined_one_by_one_then(self) -> None:
        snapshot = same(returned())
        worker = self.with_worker(owning_pod=snapshot.pods[0].uid)
        for owned, movable in ((snapshot, True), (replace(snapshot, pods=(*snapshot.pods, worker)), False)):
            checker = EligibilityChecker(owned, policy(), View(owned).clock)
            assert checker.are_all_movable(snapshot.pods) == movable
            assert checker.are_all_movable(snapshot.pods[1:])
