"""Repairs by preemption: made only where the policy allows it and nothing can go wrong, and else it is said why not."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.documents.explanation import explain_pod
from rebalancer.documents.plan import plan_document
from rebalancer.engine import evaluate
from rebalancer.model.affinity import NodeAffinity, PodAffinity, PodAffinityTerm
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.facts import Fact
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY, Memory, Move, MoveState
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.by_preemption import (
    PreemptedPodEndsLate,
    PreemptedPodIncomplete,
    PreemptedPodIsRequired,
    PreemptedPodStays,
    PreemptedPodWithoutOwner,
    PreemptedPodWithoutPlace,
    PreemptionBreaksBudget,
    PreemptionNotFollowed,
    PreemptionRefused,
    PreemptionWaits,
    PreemptionWouldNotHelp,
    RepairedByPreemption,
    TooManyPreempted,
)
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.plan import Plan
from rebalancer.planning.plan_file import read_plan, write_plan
from rebalancer.planning.planner import plan
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.planning.search.report import Method
from rebalancer.policy import Policy
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_policy, change_specs, with_cpu, with_node, without_node
from tests.planning.build import cause_of, limit
from tests.planning.test_uncertain_requests import requests
from tests.scheduling.build import spread

CPU = 1000
BUDGETS = "budgets: {maxUnavailable: 100%, perWorkload: 100%}"


def rules(preemption: str = "Allow", budgets: str = BUDGETS, more: str = "") -> Policy:
    return a_policy(
        f"mode: Evict\n{budgets}\neligibility: {{minAge: 0s, preemption: {preemption}}}\nnodes: {{settle: 0s}}\n{more}"
    )


def crowded(*, victims: int = 1, room: int = 800, web: str = "deployment", cpu: int = 300) -> ClusterBuilder:
    """Return zones a, b and c of one node: three pods of web in a, one in b, and c is full of batch.

    A fourth node is in no zone: it has one pod of batch, and room for so much more.
    """
    builder = ClusterBuilder()
    for zone in "abc":
        builder.node(f"{zone}-1", zone=zone, cpu=CPU)
    builder.node("d-1", cpu=800 // victims + room)
    add = builder.deployment if web == "deployment" else builder.stateful_set
    add("web", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=cpu, priority=10)
    builder.deployment("batch", on={"c-1": victims, "d-1": 1}, cpu=800 // victims)
    return builder


def with_pods(state: Snapshot, app: str, change: Callable[[Pod], Pod]) -> Snapshot:
    """Change the pods of an app."""
    return replace(state, pods=tuple([change(pod) if pod.labels["app"] == app else pod for pod in state.pods]))


def made(
    state: Snapshot, policy: Policy | None = None, memory: Memory = NO_MEMORY, limits: SearchLimits | None = None
) -> Plan:
    evaluation = evaluate(state, policy or rules(), memory=memory)
    if limits is None:
        return evaluation.plan
    return plan(evaluation.view, evaluation.assessment, policy or rules(), memory, limits)


def why_not(state: Snapshot, policy: Policy | None = None, **known: Any) -> Fact | None:
    """Return what stands in the way of a repair by preemption: nothing is evicted."""
    outcome = made(state, policy, **known)
    assert outcome.fates.going == ()
    (group,) = [one for one in outcome.components if one.groups[0].spread.workloads[0].name == "web"]
    cause = cause_of(group)
    assert isinstance(cause, NodesTakeNoMore)
    assert [row.refusal for row in outcome.refusals if row.pod is None] == [cause]
    return cause.preemption


def step_of(outcome: Plan) -> Eviction:
    (eviction,) = outcome.fates.going
    return eviction


def batch_on(state: Snapshot, node: str) -> Pod:
    return next(pod for pod in state.pods if pod.labels["app"] == "batch" and pod.node == node)


def resized(state: Snapshot, cpu: int) -> Snapshot:
    """Return the state in which web requests so much, on nodes a and b that have room for it."""

    def larger(app: str, spec: PodSpec) -> PodSpec:
        requests = structs.replace(spec.requests, cpu=cpu)
        return structs.replace(spec, requests=requests, scored=(cpu, spec.scored[1])) if app == "web" else spec

    asking = with_pods(change_specs(state, larger), "web", lambda pod: structs.replace(pod, requests=pod.spec.requests))
    return with_cpu(asking, 3 * cpu, "a-1")


def of_app(builder: ClusterBuilder, app: str, **changes: Any) -> Snapshot:
    """Return the state with another specification of an app, of its pods and its templates."""
    return change_specs(builder.snapshot(), lambda of, spec: structs.replace(spec, **changes) if of == app else spec)


def with_budget(builder: ClusterBuilder, app: str) -> ClusterBuilder:
    """Add a budget that allows nothing."""
    builder.budget(app, max_unavailable=0)
    return builder


class TestTheStep:
    def test_one_pod_is_evicted_and_it_is_said_which_pods_go_for_it(self) -> None:
        outcome = made(crowded().snapshot())
        eviction = step_of(outcome)
        ((preempted,),) = (eviction.repair.preempts,)
        (group,) = outcome.components
        assert (eviction.pod.node, preempted.node) == ("a-1", "c-1")
        assert [pod.labels["app"] for pod in preempted.pods] == ["batch"]
        assert eviction.targets[0].values == ("c",)
        assert eviction.concerned == (eviction.pod.uid, preempted.pods[0].uid)
        assert (group.state, group.method, group.evictions, group.optimal) == (
            State.VIOLATED,
            Method.PREEMPTION,
            0,
            False,
        )
        assert (eviction.forced, group.refusal) == (False, RepairedByPreemption(lacking=True))
        assert outcome.refusals == ()

    def test_it_is_the_same_in_a_file_and_says_so_in_every_document(self) -> None:
        state = crowded().snapshot()
        evaluation = evaluate(state, rules())
        outcome, victim = evaluation.plan, batch_on(state, "c-1")
        assert read_plan(write_plan(outcome), evaluation.assessment, state) == outcome
        document = plan_document(outcome, state)
        assert document.groups[0].method == "preemption"
        assert [structs.asdict(one.preempts[0]) for one in document.evictions] == [
            {"node": "c-1", "pods": (f"default/{victim.name}",)}
        ]
        sentence = f"kube-scheduler preempts default/{victim.name} on c-1 for its replacement"
        assert sentence in document.evictions[0].message
        explained = explain_pod(step_of(outcome).pod, evaluation.view, evaluation.assessment, outcome)
        assert any(sentence in answer.evidence for answer in explained.path)

    def test_by_default_it_is_refused_and_the_field_named_that_would_permit_it(self) -> None:
        state = crowded().snapshot()
        assert why_not(state, rules("Refuse")) == PreemptionRefused()
        assert why_not(state, a_policy("mode: Evict\neligibility: {minAge: 0s}\nnodes: {settle: 0s}")) is not None
        (row,) = made(state, rules("Refuse")).refusals
        assert "eligibility.preemption refuses that: Allow would permit it" in str(row.refusal)

    def test_where_it_could_not_be_made_the_field_is_not_named(self) -> None:
        assert why_not(crowded(room=0).snapshot(), rules("Refuse")) is None

    def test_a_pod_of_a_stateful_set_is_gone_before_it_is_replaced(self) -> None:
        assert step_of(made(crowded(web="stateful set").snapshot())).pod.node == "a-1"

    def test_one_whose_own_budget_allows_nothing_waits(self) -> None:
        outcome = made(with_budget(crowded(), "web").snapshot())
        assert outcome.fates.going == ()
        assert [waiting.reason for waiting in outcome.fates.kept] == [Reason.STEP_EXCEEDS_BUDGET]

    def test_without_lower_pods_nothing_is_added(self) -> None:
        def raised(pod: Pod) -> Pod:
            return structs.replace(pod, spec=structs.replace(pod.spec, priority=10))

        assert why_not(with_pods(crowded().snapshot(), "batch", raised)) is None

    def test_while_a_pod_of_the_component_is_missing_it_is_not_tried(self) -> None:
        state = crowded().snapshot()
        pods = tuple(pod for pod in state.pods if pod.node != "b-1")
        assert why_not(replace(state, pods=pods)) is None


class TestNothingElseMoves:
    def waits(self, state: Snapshot, memory: Memory = NO_MEMORY) -> tuple[int, int]:
        outcome = made(state, memory=memory)
        causes = [group.refusal for group in outcome.components if isinstance(group.refusal, PreemptionWaits)]
        assert [eviction for eviction in outcome.fates.going if eviction.repair.preempts] == []
        assert causes[0].passes
        assert causes[0].reason is Reason.GROUP_IN_FLIGHT
        assert causes[0] in [row.refusal for row in outcome.refusals]
        return causes[0].moves, causes[0].pods

    def test_a_move_in_flight_is_waited_for_whatever_its_workload(self) -> None:
        state = crowded().snapshot()
        other = Move(
            uid="gone",
            namespace="shop",
            pod="gone",
            node="a-1",
            workload=made(state).fates.going[0].workload,
            owner_uid="other",
            cause=made(state).fates.going[0].cause,
            state=MoveState.PENDING,
            requested_at=state.taken_at,
            changed_at=state.taken_at,
        )
        assert self.waits(state, Memory(moves=(other,))) == (1, 0)
        unexecuted = structs.replace(other, state=MoveState.PLANNED, unexecuted=True)
        assert self.waits(state, Memory(moves=(unexecuted,))) == (1, 0)

    def test_a_pending_pod_that_a_node_may_take_is_waited_for(self) -> None:
        builder = crowded()
        builder.deployment("late", replicas=2, cpu=5000)
        assert self.waits(builder.snapshot()) == (0, 2)
        state = crowded().snapshot()
        late = without_node(state.pods[-1], "late", owner=None)
        assert self.waits(replace(state, pods=(*state.pods, late))) == (0, 1)

    def test_one_that_no_node_would_ever_take_is_not(self) -> None:
        state = crowded().snapshot()
        nowhere = NodeAffinity(selector=Labels({"nowhere": "to be found"}))
        spec = structs.replace(state.pods[0].spec, node_affinity=nowhere)
        lost = without_node(state.pods[0], "lost", labels=Labels({"app": "lost"}), owner=None, spec=spec)
        assert step_of(made(replace(state, pods=(*state.pods, lost)))).repair.preempts

    def test_another_eviction_of_the_plan_comes_first(self) -> None:
        builder = crowded()
        builder.deployment("small", on={"a-1": 2}, spread={ZONE: 1}, cpu=10)
        outcome = made(builder.snapshot())
        assert [eviction.workload.name for eviction in outcome.fates.going] == ["small"]
        assert self.waits(builder.snapshot()) == (1, 0)

    def test_of_two_such_repairs_one_is_made(self) -> None:
        builder = crowded(cpu=290)
        builder.deployment("app", on={"a-1": 3}, spread={ZONE: 1}, cpu=30, priority=10)
        outcome = made(builder.snapshot())
        assert len([eviction for eviction in outcome.fates.going if eviction.repair.preempts]) <= 1


class TestWhileItIsUnderWay:
    """The replacement is pending, and batch has yet to be preempted for it."""

    def state(self) -> Snapshot:
        builder = ClusterBuilder()
        for zone in "abc":
            builder.node(f"{zone}-1", zone=zone, cpu=CPU)
        builder.node("d-1", cpu=2000, pool="x")
        builder.node("e-1", cpu=1600, pool="y")
        builder.deployment("web", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=300, priority=10)
        builder.deployment("batch", on={"c-1": 1, "d-1": 1}, cpu=800)
        builder.deployment("other", on={"e-1": 3}, spread={"pool": 1}, cpu=500)
        state = builder.snapshot()
        first = next(pod for pod in state.pods if pod.node == "a-1")
        new = without_node(first, "web-new", created=state.taken_at)
        return replace(state, pods=(*[pod for pod in state.pods if pod is not first], new))

    def test_no_other_eviction_takes_the_place_that_the_preempted_pod_will_need(self) -> None:
        outcome = made(self.state())
        assert outcome.fates.going == ()
        (other,) = [group for group in outcome.components if group.workloads[0].name == "other"]
        assert other.reason is Reason.GROUP_IN_FLIGHT

    def test_where_no_step_relies_on_preemption_nothing_is_reserved_for_it(self) -> None:
        outcome = made(self.state(), rules("Refuse"))
        assert [eviction.workload.name for eviction in outcome.fates.going] == ["other"]

    def test_what_would_replace_a_preempted_pod_may_not_be_known(self) -> None:
        state = with_pods(self.state(), "batch", lambda pod: structs.replace(pod, owner=None))
        assert [eviction.workload.name for eviction in made(state).fates.going] == ["other"]


class TestWhatStandsInTheWay:
    """Each condition alone: nothing is evicted, and the message says which."""

    def test_where_it_is_not_certain_which_pods_go(self) -> None:
        """Five pods that started at the same moment may go in more orders than are tried."""
        state = crowded(victims=5, room=800).snapshot()
        assert why_not(state) == PreemptionNotFollowed()

    def test_where_it_is_not_known_what_the_replacement_requests(self) -> None:
        state = crowded().snapshot()
        sized = with_pods(state, "web", lambda pod: structs.replace(pod, requested=requests(300), generation=0))
        owners = tuple(
            structs.replace(
                owner,
                template=structs.replace(
                    owner.template,
                    requests=structs.replace(owner.template.requests, cpu=290),
                    spec=structs.replace(
                        owner.template.spec, requests=structs.replace(owner.template.spec.requests, cpu=290)
                    ),
                    requested=requests(290),
                ),
            )
            if owner.template is not None and owner.template.labels["app"] == "web"
            else owner
            for owner in state.workloads
        )
        assert why_not(replace(sized, workloads=owners)) == PreemptionNotFollowed()

    @pytest.mark.parametrize("nodes", [0, 1])
    def test_where_too_many_nodes_would_have_to_be_tried(self, nodes: int) -> None:
        limits = SearchLimits(preemption_nodes_of_plan=nodes)
        assert why_not(crowded().snapshot(), limits=limits) == PreemptionNotFollowed(limit_reached=True)

    def test_a_pod_disruption_budget_that_would_break_is_named(self) -> None:
        cause = why_not(with_budget(crowded(), "batch").snapshot())
        assert cause == PreemptionBreaksBudget(("default/batch",))

    def test_a_budget_of_the_policy_that_does_not_let_it_go(self) -> None:
        """Two pods of one workload would go, of which one may be unavailable."""
        state = crowded(victims=2, cpu=290).snapshot()
        large = resized(state, 700)
        cause = why_not(large, rules(budgets="budgets: {maxUnavailable: 1, perWorkload: 100%}"))
        assert isinstance(cause, PreemptedPodStays)
        assert cause.cause.reason is Reason.BLOCKED_BY_BUDGET
        assert step_of(made(large)).repair.preempts[0].pods[1:]

    def test_a_budget_that_the_evicted_pod_uses_up(self) -> None:
        """One budget is for all pods of the namespace, and allows one disruption."""
        state = crowded().snapshot()
        both = DisruptionBudget(
            namespace="default",
            name="all",
            selector=LabelSelector.of({}),
            min_available=5,
            generation=1,
            observed_generation=1,
            allowed=1,
            current_healthy=6,
            desired_healthy=5,
            expected=6,
        )
        cause = why_not(replace(state, budgets=(both,)))
        assert isinstance(cause, PreemptedPodStays)
        assert "default/all" in str(cause.cause)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"annotations": Labels({"rebalancer.dev/exclude": "true"})}, Reason.EXCLUDED),
            ({"mirror": True}, Reason.NOT_EVICTABLE),
        ],
    )
    def test_a_pod_that_must_not_be_evicted_must_not_be_preempted(self, change: dict[str, Any], reason: Reason) -> None:
        state = with_pods(crowded().snapshot(), "batch", lambda pod: structs.replace(pod, **change))
        cause = why_not(state)
        assert isinstance(cause, PreemptedPodStays)
        assert cause.cause.reason is reason

    def test_an_excluded_namespace_loses_no_pod(self) -> None:
        policy = a_policy(
            f"mode: Evict\n{BUDGETS}\nnodes: {{settle: 0s}}\n"
            "eligibility: {minAge: 0s, preemption: Allow, namespaces: {exclude: [system]}}\n"
        )
        builder = ClusterBuilder()
        for zone in "abc":
            builder.node(f"{zone}-1", zone=zone, cpu=CPU)
        builder.node("d-1", cpu=2000)
        builder.deployment("web", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=300, priority=10)
        builder.deployment("batch", on={"c-1": 1, "d-1": 1}, cpu=800, namespace="system")
        cause = why_not(builder.snapshot(), policy)
        assert isinstance(cause, PreemptedPodStays)
        assert "system" in str(cause.cause)

    def test_a_pod_that_nothing_creates_again_stays(self) -> None:
        state = with_pods(crowded().snapshot(), "batch", lambda pod: structs.replace(pod, owner=None))
        state = replace(state, workloads=tuple([one for one in state.workloads if not one.name.startswith("batch")]))
        assert why_not(state) == PreemptedPodWithoutOwner(f"default/{batch_on(state, 'c-1').name}")

    def test_a_node_that_is_to_be_removed_gets_no_pod(self) -> None:
        cause = why_not(with_node(crowded().snapshot(), "c-1", draining="Draining"))
        assert isinstance(cause, PreemptedPodStays)
        assert cause.cause.reason is Reason.NODE_LEAVING

    def test_a_workload_that_lacks_a_ready_pod_loses_no_other(self) -> None:
        def unready(pod: Pod) -> Pod:
            return structs.replace(pod, ready=pod.node != "d-1")

        cause = why_not(with_pods(crowded().snapshot(), "batch", unready))
        assert isinstance(cause, PreemptedPodIncomplete)

    def test_a_pod_that_counts_for_the_same_constraint_stays(self) -> None:
        """Pods of both workloads are counted together, in which case the component has both."""
        state = crowded().snapshot()
        counted = with_pods(
            state, "batch", lambda pod: structs.replace(pod, labels=Labels({**pod.labels, "app": "web"}))
        )
        outcome = made(counted)
        assert [eviction for eviction in outcome.fates.going if eviction.repair.preempts] == []

    def test_a_pod_with_a_hard_constraint_of_its_own_stays(self) -> None:
        own = spread(HOSTNAME, 5, selects=LabelSelector.of({"app": "batch"}))
        assert isinstance(why_not(of_app(crowded(), "batch", spread=(own,))), PreemptedPodIsRequired)
        soft = structs.replace(own, when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY)
        assert step_of(made(of_app(crowded(), "batch", spread=(soft,)))).repair.preempts

    def test_a_pod_that_counts_for_a_limit_with_the_action_evict_stays(self) -> None:
        group = limit("maxPods: 5", group="selector: {matchLabels: {app: batch}}")
        cause = why_not(crowded().snapshot(), rules(more=group))
        assert isinstance(cause, PreemptedPodIsRequired)

    def test_a_pod_that_ends_late_stays(self) -> None:
        state = crowded().snapshot()
        for grace in (60, 61):
            slow = with_pods(state, "batch", lambda pod, grace=grace: structs.replace(pod, grace_seconds=grace))  # type: ignore[misc]
            if grace == 60:
                assert step_of(made(slow)).repair.preempts
            else:
                minute = timedelta(minutes=1)
                late = minute + timedelta(seconds=1)
                assert why_not(slow) == PreemptedPodEndsLate(f"default/{batch_on(state, 'c-1').name}", late, minute)

    @pytest.mark.parametrize(("grace", "is_step"), [(60, True), (61, False)])
    def test_the_place_of_the_evicted_pod_serves_only_where_that_ends_soon(self, grace: int, *, is_step: bool) -> None:
        """Batch is as large as web, and has no other place than the one that web leaves in zone a."""
        builder = ClusterBuilder()
        for zone in "abc":
            builder.node(f"{zone}-1", zone=zone, cpu=900)
        builder.node("d-1", cpu=600)
        builder.deployment("web", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=300, priority=10)
        builder.deployment("batch", on={"c-1": 3, "b-1": 2, "d-1": 2}, cpu=300)
        slow = with_pods(builder.snapshot(), "web", lambda pod: structs.replace(pod, grace_seconds=grace))
        assert bool(made(slow).fates.going) is is_step

    def test_more_pods_than_may_be_evicted_from_a_node_or_in_a_namespace(self) -> None:
        state = resized(crowded(victims=2, cpu=290).snapshot(), 700)
        for field in ("perNode", "perNamespace"):
            budgets = f"budgets: {{maxUnavailable: 100%, perWorkload: 100%, {field}: 1}}"
            assert why_not(state, rules(budgets=budgets)) == TooManyPreempted(2, f"budgets.{field}", 1)

    def test_a_pod_whose_replacement_fits_nowhere_stays(self) -> None:
        state = crowded(room=0).snapshot()
        assert why_not(state) == PreemptedPodWithoutPlace(f"default/{batch_on(state, 'c-1').name}")

    def test_one_with_volumes_or_other_requests_is_not_certain_to_find_a_place(self) -> None:
        state = crowded().snapshot()
        stays = PreemptedPodWithoutPlace(f"default/{batch_on(state, 'c-1').name}")
        local = PodAffinity(required=(PodAffinityTerm(topology_key=ZONE, selector=LabelSelector.of({"app": "no"})),))
        assert why_not(of_app(crowded(), "batch", pod_affinity=local)) == stays
        claimed = tuple(
            structs.replace(owner, template=structs.replace(owner.template, claims=("data",)))
            if owner.template is not None and owner.template.labels["app"] == "batch"
            else owner
            for owner in state.workloads
        )
        assert why_not(replace(state, workloads=claimed)) == stays

    @pytest.mark.parametrize(("room", "is_step"), [(800, True), (799, False)])
    def test_two_that_go_together_need_a_node_with_room_for_both(self, room: int, *, is_step: bool) -> None:
        """Nodes a and b take no other pods."""
        state = with_node(resized(crowded(victims=2, room=room, cpu=290).snapshot(), 700), "a-1", unschedulable=True)
        outcome = made(state)
        assert bool(outcome.fates.going) is is_step
        if not is_step:
            assert isinstance(why_not(state), PreemptedPodWithoutPlace)

    def test_two_that_go_together_and_keep_apart_are_not_certain_to_find_places(self) -> None:
        builder = crowded(victims=2, cpu=290)
        apart = PodAffinity(
            anti_required=(PodAffinityTerm(topology_key="rack", selector=LabelSelector.of({"app": "x"})),)
        )
        state = resized(of_app(builder, "batch", pod_affinity=apart), 700)
        assert isinstance(why_not(state), PreemptedPodWithoutPlace)

    def test_where_another_pod_is_no_step_either_the_first_reason_is_said(self) -> None:
        """The replacement of a pod of zone b may come back to b: what is said is why the one of zone a stays."""
        assert isinstance(why_not(crowded(room=0).snapshot()), PreemptedPodWithoutPlace)

    def test_the_node_that_is_preempted_on_may_not_help(self) -> None:
        """Nodes a and c hold two pods and one, at most one each is allowed: a is cordoned, and c would have two."""
        builder = ClusterBuilder()
        for name, cpu in (("a-1", 1000), ("b-1", 100), ("c-1", 1000)):
            builder.node(name, cpu=cpu)
        builder.deployment("web", on={"a-1": 2, "c-1": 1}, cpu=500, priority=10)
        builder.deployment("batch", on={"c-1": 2}, cpu=250)
        group = limit("maxPods: 1", group="selector: {matchLabels: {app: web}}")
        (component,) = made(with_node(builder.snapshot(), "a-1", unschedulable=True), rules(more=group)).components
        cause = cause_of(component)
        assert isinstance(cause, NodesTakeNoMore)
        assert isinstance(cause.preemption, PreemptionWouldNotHelp)
        assert cause.preemption.node == "c-1"

    def test_of_a_limit_the_replacement_may_be_placed_where_it_does_not_help(self) -> None:
        """A limit does not bind the scheduler: it may preempt on the node that is too full already."""
        builder = ClusterBuilder()
        for name in "ab":
            builder.node(f"{name}-1", cpu=CPU)
        builder.node("d-1", cpu=800)
        builder.deployment("web", on={"a-1": 2}, cpu=300, priority=10)
        builder.deployment("batch", on={"a-1": 1, "b-1": 2}, cpu=400)
        group = limit("maxPods: 1", group="selector: {matchLabels: {app: web}}")
        outcome = made(builder.snapshot(), rules(more=group))
        assert [eviction for eviction in outcome.fates.going if eviction.repair.preempts] == []

    def test_back_on_its_own_node_it_does_not_help(self) -> None:
        """Web keeps away from batch since it was placed: it may come back to its node, where batch goes for it."""
        builder = ClusterBuilder()
        builder.node("a-1", cpu=1000)
        builder.node("b-1", cpu=100)
        builder.node("d-1", cpu=900)
        builder.deployment("web", on={"a-1": 2}, cpu=300, priority=10)
        builder.deployment("batch", on={"a-1": 1, "d-1": 1}, cpu=400)
        group = limit("maxPods: 1", group="selector: {matchLabels: {app: web}}")
        term = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"app": "batch"}))
        state = of_app(builder, "web", pod_affinity=PodAffinity(anti_required=(term,)))
        (component,) = made(with_node(state, "d-1", unschedulable=True), rules(more=group)).components
        cause = cause_of(component)
        assert isinstance(cause, NodesTakeNoMore)
        assert isinstance(cause.preemption, PreemptionWouldNotHelp)
        assert cause.preemption.node == "a-1"
