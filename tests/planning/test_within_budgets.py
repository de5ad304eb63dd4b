"""Which of the minimal repairs is taken where budgets tell the pods of a workload apart: against every minimal set."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from random import Random

import pytest
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.assessment.controllers import members
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.case import Decision
from rebalancer.planning.decision import NoNodeAdmits
from rebalancer.planning.problem.protocol import Problem, Step
from rebalancer.planning.scope.budgets import BudgetLedger, KeptPods, StepExceedsBudget
from rebalancer.planning.within_budgets import decide_within_budgets
from rebalancer.policy import Amount, Budgets, Policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, a_layout
from tests.planning.build import first_problem, joined, planned, policy, two_classes
from tests.planning.clusters import evicted
from tests.planning.multi_class.test_solve import two_of_unequal_priority
from tests.planning.states import Counts, brute_min_evictions

ALLOWANCES = ((0, 0), (0, 1), (1, 1), (2, 2), (0, 2))
"""What a budget allows now, and ever."""


ONE_AT_A_TIME = policy().model_copy(update={"budgets": Budgets(max_unavailable=Amount(value=1))})


def budget(role: str, now: int, ever: int, pods: int) -> DisruptionBudget:
    """Return a budget over the pods with a role."""
    return DisruptionBudget(
        namespace="default",
        name=role,
        selector=LabelSelector.of({"role": role}),
        observed_generation=1,
        allowed=now,
        current_healthy=pods,
        desired_healthy=max(0, pods - ever),
        expected=pods,
    )


def with_roles(snapshot: Snapshot, roles: Mapping[str, str], allowances: Mapping[str, tuple[int, int]]) -> Snapshot:
    """Give pods roles by their names, and each role a budget."""

    def label(pod: Pod) -> Pod:
        role = roles.get(pod.name)
        return pod if role is None else structs.replace(pod, labels=Labels({**pod.labels, "role": role}))

    many = Counter(roles.values())
    budgets = tuple(budget(role, now, ever, many[role]) for role, (now, ever) in allowances.items())
    return replace(snapshot, pods=tuple(map(label, snapshot.pods)), budgets=budgets)


@dataclass(frozen=True)
class Drawn:
    """Zones of nodes with pods of one workload, the maxSkew of each key, roles of some pods, a budget for each role."""

    counts: Counts
    zone: int
    host: int
    roles: Mapping[str, str]
    allowances: Mapping[str, tuple[int, int]]
    plain: Snapshot

    @property
    def snapshot(self) -> Snapshot:
        return with_roles(self.plain, self.roles, self.allowances)

    @property
    def fewest(self) -> int | None:
        return brute_min_evictions(self.counts, self.zone, self.host)

    def minimal_sets(self) -> Iterable[Sequence[Pod]]:
        """Return every set of pods that a minimal repair may evict."""
        place = {
            f"{chr(97 + zone)}-{node + 1}": (zone, node)
            for zone, nodes in enumerate(self.counts)
            for node in range(len(nodes))
        }
        known: dict[tuple[tuple[str, int], ...], bool] = {}
        fewest = self.fewest or 0
        for pods in combinations(self.plain.pods, fewest):
            leaving = Counter(pod.node or "" for pod in pods)
            key = tuple(sorted(leaving.items()))
            if key not in known:
                left = [list(zone) for zone in self.counts]
                for name, number in leaving.items():
                    zone, node = place[name]
                    left[zone][node] -= number
                known[key] = brute_min_evictions(left, self.zone, self.host, fewest) == 0
            if known[key]:
                yield pods

    def is_within(self, pods: Iterable[Pod], *, ever: bool) -> bool:
        """Return whether the budgets allow these evictions all at once now, or each of them some time."""
        taken = Counter(self.roles[pod.name] for pod in pods if pod.name in self.roles)
        return all(
            self.allowances[role][1] if ever else self.allowances[role][0] >= many for role, many in taken.items()
        )


def drawn(seed: int) -> Drawn | None:
    """Draw a state; None where nothing is to be repaired, or no placement is within the bounds."""
    random = Random(seed)
    zones = random.randint(2, 3)
    counts = [[random.choice((0, 0, 1, 2, 3)) for _ in range(random.randint(1, 2))] for _ in range(zones)]
    zone, host = random.choice(((1, 1), (1, 9), (2, 1), (2, 9)))
    if not 0 < sum(map(sum, counts)) <= 8 or not brute_min_evictions(counts, zone, host):
        return None
    names = "abc"[:zones]
    blueprint, on = a_layout(counts, names)
    spread = {ZONE: zone} if host == 9 else {ZONE: zone, HOSTNAME: host}
    make = random.choice((blueprint.deployment, blueprint.stateful_set))
    make("web", on=on, spread=spread)
    plain = blueprint.snapshot()
    kinds = ["leader", "follower", "witness"][: random.randint(1, 3)]
    roles = {pod.name: random.choice(kinds) for pod in plain.pods if random.random() < 0.7}
    used = sorted(set(roles.values()))
    return Drawn(counts, zone, host, roles, {role: random.choice(ALLOWANCES) for role in used}, plain)


STATES = list(islice(filter(None, map(drawn, range(3000))), 200))


def is_safe(state: Drawn, pods: Sequence[Pod], rules: Policy | None = None) -> bool:
    """Say whether some step of a minimal repair evicts pods of this set alone: no other pod may be evicted."""
    names = {pod.name for pod in pods}

    def hold(pod: Pod) -> Pod:
        held = {"karpenter.sh/do-not-disrupt": "true"} if pod.name not in names else {}
        return structs.replace(pod, annotations=Labels(held))

    plan = planned(replace(state.plain, pods=tuple(map(hold, state.plain.pods))), rules)
    return (
        bool(plan.fates.going) and plan.components[0].evictions == state.fewest and plan.components[0].refusal is None
    )


def check(state: Drawn) -> None:
    """Compare the first step with all minimal sets."""
    plan = planned(state.snapshot)
    (component,) = plan.components
    sets = list(state.minimal_sets())
    assert (component.evictions, component.optimal) == (state.fewest, True)
    assert component.proved == planned(state.plain).components[0].proved
    names = {eviction.pod.name for eviction in plan.fates.going}
    assert component.detour or any(names <= {pod.name for pod in pods} for pods in sets)
    if not plan.fates.going:
        free = [pods for pods in sets if state.is_within(pods, ever=False)]
        assert not any(is_safe(state, pods) for pods in free)
    if Reason.STEP_EXCEEDS_BUDGET in {waiting.reason for waiting in plan.fates.kept}:
        later = [pods for pods in sets if state.is_within(pods, ever=True)]
        assert not any(is_safe(state, pods, ONE_AT_A_TIME) for pods in later)


@pytest.mark.parametrize("number", range(20))
def test_no_repair_is_blocked_where_another_with_as_few_evictions_is_allowed(number: int) -> None:
    """The first step goes if the budgets allow some minimal set of victims, and waits if they allow one later."""
    check(STATES[number])


@pytest.mark.thorough
def test_no_repair_is_blocked_where_another_is_allowed_in_more_states() -> None:
    """So in all that are drawn."""
    assert len(STATES) == 200
    for state in STATES[20:]:
        check(state)


def crowded(counts: Counts, spread: Mapping[str, int] | None = None) -> Snapshot:
    """Return the pods of a StatefulSet, numbered from the first zone on."""
    blueprint, on = a_layout(counts, "abcd")
    blueprint.stateful_set("db", on=on, spread=spread or {ZONE: 1})
    return blueprint.snapshot()


def led_by(*numbers: int, now: int = 0, ever: int = 0, of: Snapshot) -> Snapshot:
    """Let some pods of `db` be leaders, under a budget of their own."""
    return with_roles(of, {f"db-{number}": "leader" for number in numbers}, {"leader": (now, ever)})


@pytest.mark.parametrize("ever", [0, 1])
@pytest.mark.parametrize("leader", [0, 1, 2])
def test_another_pod_of_the_domain_goes(leader: int, ever: int) -> None:
    """Whichever of three pods has a budget that allows nothing now."""
    assert evicted(planned(led_by(leader, ever=ever, of=crowded([[3], [1], [0]])))) not in ([], [f"db-{leader}"])


def test_a_pod_of_another_domain_goes() -> None:
    """One of two full zones gives a pod; that of the leaders keeps its own."""
    assert evicted(planned(led_by(0, 1, of=crowded([[2], [2], [0]])))) == ["db-2"]


def test_a_leader_that_may_go_is_chosen_by_cost_as_ever() -> None:
    """Budgets that allow every pod now change nothing."""
    plain = crowded([[3], [1], [0]])
    (cheapest,) = evicted(planned(plain))
    assert evicted(planned(led_by(0, 1, 2, now=1, ever=1, of=plain))) == [cheapest]


def test_of_pods_under_a_scarce_budget_no_more_are_taken_than_it_allows() -> None:
    """Two of zone a go at once: of the leaders, who are the cheapest, one at the most."""
    plan = planned(led_by(0, 1, now=1, ever=1, of=crowded([[4], [2], [0]])))
    assert len(plan.fates.going) == 2
    assert plan.fates.kept == ()


def test_a_repair_that_takes_a_pod_that_may_go_later_begins_with_one_that_may_go_now() -> None:
    """Two of three pods must go, of which only one has no budget."""
    plan = planned(led_by(0, 1, 2, ever=1, of=crowded([[4], [2], [0]])))
    assert evicted(plan) == ["db-3"]
    assert [waiting.reason for waiting in plan.fates.kept] == [Reason.BLOCKED_BY_BUDGET]


def test_a_repair_waits_for_a_budget_rather_than_being_refused_for_another() -> None:
    """A pod that may go later is taken, not one that never may."""
    snapshot = with_roles(
        crowded([[2], [1], [0]]), {"db-0": "leader", "db-1": "witness"}, {"leader": (0, 0), "witness": (0, 1)}
    )
    plan = planned(snapshot)
    (waiting,) = plan.fates.kept
    assert (plan.fates.going, waiting.eviction.pod.name, waiting.reason) == ((), "db-1", Reason.BLOCKED_BY_BUDGET)


def refusal_of(snapshot: Snapshot) -> StepExceedsBudget:
    """Return why a step is never taken."""
    plan = planned(snapshot)
    assert plan.fates.going == ()
    (component,) = plan.components
    assert isinstance(component.refusal, StepExceedsBudget)
    assert component.state is State.UNFIXABLE
    return component.refusal


def test_where_every_repair_takes_a_pod_that_may_not_go_these_are_named() -> None:
    """Zone a has only leaders."""
    refusal = refusal_of(led_by(0, 1, of=crowded([[2], [1], [0]])))
    assert refusal.kept == KeptPods(("db-0 (node a-1)", "db-1 (node a-1)"), 1, None)
    assert refusal_of(led_by(0, 1, 2, of=crowded([[2], [1], [0]]))).kept is None, "no other pod may go"


def test_one_eviction_more_that_avoids_a_budget_is_named_and_not_made() -> None:
    """4 3 3 0 with maxSkew 2: one of the four, or one of each three."""
    snapshot = crowded([[4], [3], [3], [0]], {ZONE: 2})
    assert len(planned(snapshot).fates.going) == 1
    refusal = refusal_of(led_by(0, 1, 2, 3, of=snapshot))
    assert refusal.kept is not None
    assert (refusal.kept.fewest, refusal.kept.enough) == (1, 2)
    assert "A repair without such a pod takes 2 evictions" in str(refusal)


def test_pods_without_a_safe_eviction_are_no_alternative() -> None:
    """0 3 2 with maxSkew 2: a pod of the two would come back to its zone."""
    refusal = refusal_of(led_by(0, 1, 2, 4, of=crowded([[0], [3], [2]], {ZONE: 2})))
    assert refusal.kept is not None
    assert refusal.kept.enough == refusal.kept.fewest
    assert "No safe eviction of other pods was found" in str(refusal)


TWO_TOGETHER: Counts = [[2], [4, 1]]


def test_two_that_must_go_at_once_are_both_allowed_now() -> None:
    """With maxSkew 2 and 1 two of the four go at once: of the leaders only one may."""
    snapshot = crowded(TWO_TOGETHER, {ZONE: 2, HOSTNAME: 1})
    plan = planned(led_by(2, 3, now=1, ever=1, of=snapshot))
    assert set(evicted(plan)) == {"db-4", "db-5"}
    assert plan.fates.kept == ()
    refusal = refusal_of(led_by(2, 3, 4, 5, now=1, ever=1, of=snapshot))
    assert (refusal.needed, refusal.allowed) == (2, 1)


def test_a_step_of_two_that_needs_a_pod_that_may_never_go_says_so() -> None:
    """Also where the first of them may go."""
    refusal = refusal_of(led_by(2, 3, 4, of=crowded(TWO_TOGETHER, {ZONE: 2, HOSTNAME: 1})))
    assert refusal.budgets == ("default/leader",)
    assert refusal.kept is not None


def test_of_a_part_of_a_repair_too() -> None:
    """Where no placement satisfies all, the fullest node still gives a pod, and not a leader."""
    snapshot = crowded([[5], [1, 2, 1]], {ZONE: 1, HOSTNAME: 1})
    (component,) = planned(snapshot).components
    assert component.state is State.INFEASIBLE
    plan = planned(led_by(0, 1, 2, 3, of=snapshot))
    assert evicted(plan) == ["db-4"]
    assert plan.components[0].refusal == component.refusal
    assert refusal_of(led_by(0, 1, 2, 3, 4, of=snapshot)).kept is None


def test_a_detour_of_pods_that_may_go_is_as_good_as_one_of_all() -> None:
    """Where all pods together have no repair without a detour that is certain either."""
    snapshot = crowded([[1], [2, 2], [0, 3]], {ZONE: 1, HOSTNAME: 1})
    roles = {"db-1": "leader", "db-4": "leader", "db-2": "witness"}
    plan = planned(with_roles(snapshot, roles, {"leader": (1, 1), "witness": (0, 2)}))
    assert evicted(plan) == ["db-5"]
    assert plan.components[0].detour is not None


def test_a_prediction_for_pods_that_may_go_comes_before_a_step_that_waits() -> None:
    """By counting only two pods at once are certain, of which one has to wait: so the real nodes are searched."""
    snapshot = crowded([[1], [3, 0]], {ZONE: 1, HOSTNAME: 1})
    roles = {"db-0": "witness", "db-2": "witness", "db-3": "leader"}
    plan = planned(with_roles(snapshot, roles, {"leader": (0, 1), "witness": (0, 1)}))
    assert evicted(plan) == ["db-1"]
    assert not plan.fates.going[0].repair.forced


def test_a_step_of_pods_that_may_go_has_the_reason_of_all() -> None:
    """Why the whole is not repaired does not follow from which pods the budgets hold back."""
    view, problem = first_problem(led_by(0, of=crowded([[3], [1], [0]])))
    ledger = BudgetLedger(view, policy(), NO_MEMORY)

    def decide_partly(problem: Problem) -> Decision:
        pods = [victim.pod.name for victim in problem.victims]
        return Decision(refusal=NoNodeAdmits(f"{len(pods)} pods"), step=Step(victims=tuple(problem.victims)[:1]))

    assert not isinstance(problem, Refusal)
    decision = decide_within_budgets(problem, decide_partly, ledger)
    assert decision.refusal == NoNodeAdmits("4 pods")
    assert decision.step is not None
    assert decision.step.victims[0].pod.name != "db-0"


@pytest.mark.parametrize("kept", ["one", "two"])
@pytest.mark.parametrize("priorities", [(0, 1000), (1000, 0)])
@pytest.mark.parametrize("ever", [0, 1])
def test_a_pod_of_another_class_goes(kept: str, priorities: tuple[int, int], ever: int) -> None:
    """Of two pods on one node that would do equally well, whatever their priority."""
    snapshot = two_of_unequal_priority(*priorities)
    roles = {pod.name: "leader" for pod in snapshot.pods if pod.labels["app"] == kept}
    (eviction,) = planned(with_roles(snapshot, roles, {"leader": (0, ever)})).fates.going
    assert (eviction.pod.node, eviction.pod.labels["app"] == kept) == ("a-0", False)


def test_of_several_classes_the_fewest_under_a_budget_are_taken() -> None:
    """Where a repair takes one pod that may not go now, it begins with the others."""
    snapshot = joined(two_classes())
    assert len(planned(snapshot).fates.going) == 1
    fewest = planned(snapshot).components[0].evictions
    roles = {pod.name: "leader" for pod in snapshot.pods if pod.labels["app"] == "one"}
    plan = planned(with_roles(snapshot, roles, {"leader": (0, 1)}))
    assert plan.components[0].evictions == fewest
    assert [eviction.pod.labels["app"] for eviction in plan.fates.going] == ["two"]


@pytest.mark.parametrize("waiting", ["one", "two"])
def test_own_limits_of_one_workload_leave_the_other(waiting: str) -> None:
    """Of two workloads that are counted together, the one with a pod that is starting has no more to give."""
    snapshot = joined(alike())
    young = next(pod.uid for pod in snapshot.pods if pod.labels["app"] == waiting and pod.node == "b-1")
    busy = replace(
        snapshot,
        pods=tuple(
            structs.replace(pod, ready=False, starting_since=snapshot.taken_at) if pod.uid == young else pod
            for pod in snapshot.pods
        ),
    )
    (eviction,) = planned(busy, ONE_AT_A_TIME).fates.going
    assert eviction.pod.labels["app"] != waiting


def alike() -> ClusterBuilder:
    """Return two workloads of one class: two pods each in zone a, one in zone b."""
    blueprint = a_cluster("abc", 1)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 1, "b-1": 1}, spread={ZONE: 1})
    return blueprint


def test_a_group_that_has_a_part_of_the_pods() -> None:
    """Its maxInFlight is used up by a pod that is not Ready; the other pods are not in it."""
    snapshot = led_by(0, 3, now=9, ever=9, of=crowded([[3], [1], [0]]))
    unready = replace(snapshot, pods=tuple(structs.replace(pod, ready=pod.name != "db-3") for pod in snapshot.pods))
    group = "groups: [{name: g, selector: {matchLabels: {role: leader}}, disruption: {maxInFlight: 1}, limits: []}]"
    (name,) = evicted(planned(unready, policy(group)))
    assert name in {"db-1", "db-2"}


def test_budgets_are_not_asked_pod_by_pod_where_they_cannot_differ() -> None:
    """Pods of one owner with the same labels, without groups that limit disruption, are one question."""
    blueprint = a_cluster("abc", 1, {"a-1": 3}, spread={ZONE: 1})
    bare = blueprint.snapshot()
    blueprint.budget("web", max_unavailable=1)
    for snapshot, differ in ((bare, False), (blueprint.snapshot(), True)):
        assert may_differ(snapshot) is differ
    shared = bare.pods[0].labels
    alike = replace(blueprint.snapshot(), pods=tuple(structs.replace(pod, labels=shared) for pod in bare.pods))
    assert not may_differ(alike)
    group = "groups: [{name: g, selector: {}, disruption: {maxInFlight: 1}, limits: []}]"
    assert may_differ(alike, policy(group))


def may_differ(snapshot: Snapshot, rules: Policy | None = None) -> bool:
    view, rules = View(snapshot), rules or policy()
    ledger = BudgetLedger(view, rules, NO_MEMORY, assess(view, rules, NO_MEMORY).pod_groups)
    return ledger.may_differ(members(view))
