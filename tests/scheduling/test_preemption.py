"""Which pods are preempted: the rules one by one, and against a slow copy of the scheduler's own loop."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import combinations, pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.cluster import DisruptionBudget, Version
from rebalancer.model.labels import LabelSelector
from rebalancer.model.nodes import Node
from rebalancer.model.pods import HostPort, Pod, PodSpec, Resources
from rebalancer.model.spread import SpreadConstraint
from rebalancer.scheduling import preemption
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.preemption import Preemption, PreemptionOutlook, describe_preemptions
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.view import View
from tests.scheduling.build import HOSTNAME, NOW, ZONE, changed, node, pod, selector, snapshot, spread

NEW = Version(1, 37)
PORT = HostPort("0.0.0.0", "TCP", 80)  # "any", not a bind
WEB = selector(app="web") or LabelSelector()


def running(name: str, on: str, cpu: int = 1, priority: int = 0, started: int | None = 0, **fields: Any) -> Pod:
    """Return a pod that started so many seconds after the epoch of the tests; None: it has yet to start."""
    spec = PodSpec(requests=Resources(cpu=cpu), priority=priority, **fields.pop("spec", {}))
    start = None if started is None else NOW + timedelta(seconds=started)
    return pod(fields.pop("labels", {"app": name}), on=on, name=name, spec=spec, started_at=start, **fields)


def urgent(cpu: int = 2, priority: int = 10, **fields: Any) -> Pod:
    spec = PodSpec(requests=Resources(cpu=cpu), priority=priority, **fields.pop("spec", {}))
    return pod(fields.pop("labels", {"app": "urgent"}), name="urgent", spec=spec, **fields)


def budget(name: str, allowed: int, selects: LabelSelector | None, **fields: Any) -> DisruptionBudget:
    return DisruptionBudget(namespace="default", name=name, allowed=allowed, selector=selects, **fields)


def nodes_of(cpu: int, *names: str) -> list[Node]:
    return [node(name, {ZONE: name[0]}, allocatable=Resources(cpu=cpu)) for name in names]


def outlook(new: Pod, nodes: Sequence[Node], pods: Sequence[Pod], *budgets: DisruptionBudget) -> PreemptionOutlook:
    found = predict(new, View(snapshot(nodes, pods, budgets=budgets, version=NEW))).preemption
    assert found is not None, "a node is feasible"
    return found


def show(found: PreemptionOutlook) -> list[tuple[str, list[str], int]]:
    return [(one.node, [victim.name for victim in one.victims], one.violations) for one in found.outcomes]


class TestWhoMayPreempt:
    """Nothing is preempted for some pods, and it is said why."""

    FULL = (nodes_of(2, "a"), [running("low", "a", 2)])

    def test_a_pod_of_higher_priority_takes_the_place_of_a_lower_one(self) -> None:
        found = outlook(urgent(), *self.FULL)
        assert (show(found), found.certain) == ([("a", ["low"], 0)], True)

    def test_equal_priority_never_goes(self) -> None:
        found = outlook(urgent(priority=0), *self.FULL)
        assert (found.obstacle, found.excluded) == (preemption.NO_NODE, True)

    def test_a_pod_that_fits_preempts_nothing(self) -> None:
        assert predict(urgent(), View(snapshot(nodes_of(2, "a")))).preemption is None

    def test_preemption_policy_never_is_heeded(self) -> None:
        assert outlook(urgent(spec={"preempts": False}), *self.FULL).obstacle == preemption.NEVER

    def test_a_node_that_is_too_small_for_the_pod_is_left_alone(self) -> None:
        assert outlook(urgent(3), *self.FULL).obstacle == preemption.NO_NODE

    def test_a_pod_that_is_refused_as_a_whole_preempts_nothing(self) -> None:
        assert outlook(urgent(claims=("missing",)), *self.FULL).obstacle == preemption.NO_NODE

    def test_while_its_victims_are_terminating_a_pod_waits_for_them(self) -> None:
        ending = running("low", "a", 2, deleted=NOW, preempted=True)
        nodes, others = nodes_of(2, "a", "b"), [running("other", "b", 2)]
        found = outlook(urgent(nominated_node="a"), nodes, [ending, *others])
        assert (found.outcomes, found.obstacle) == ((), "pods that were preempted on a are still terminating")
        # One that is terminating for another reason does not count, nor does one on a node that can't take the pod.
        assert show(outlook(urgent(nominated_node="a"), nodes, [changed(ending, preempted=False), *others]))
        cordoned = [changed_node(nodes[0]), nodes[1]]
        assert show(outlook(urgent(nominated_node="a"), cordoned, [ending, *others])) == [("b", ["other"], 0)]

    @pytest.mark.parametrize(
        ("plugins", "expected"),
        [((), PreemptionOutlook(obstacle=preemption.SWITCHED_OFF)), (("Other",), PreemptionOutlook(complete=False))],
    )
    def test_the_scheduler_configuration_may_switch_it_off_or_replace_it(
        self, plugins: tuple[str, ...], expected: PreemptionOutlook
    ) -> None:
        view = View(snapshot(*self.FULL), Profile(post_filters=plugins))
        assert predict(urgent(), view).preemption == expected


def changed_node(one: Node) -> Node:
    return node(one.name, {ZONE: one.name}, allocatable=one.allocatable, unschedulable=True)


class TestVictims:
    """On one node the most important pods stay, as long as the pod still fits."""

    def test_the_most_important_are_taken_back_first(self) -> None:
        """Of three pods two may stay: the one of higher priority, and of the equal ones the older."""
        pods = [running("young", "a", started=2), running("old", "a", started=1), running("high", "a", priority=5)]
        assert show(outlook(urgent(1), nodes_of(3, "a"), pods)) == [("a", ["young"], 0)]

    def test_a_pod_that_has_yet_to_start_is_the_least_important(self) -> None:
        pods = [running("starting", "a", started=None), running("young", "a", started=99)]
        assert show(outlook(urgent(1), nodes_of(2, "a"), pods)) == [("a", ["starting"], 0)]

    def test_a_less_important_pod_stays_where_a_more_important_one_is_in_the_way(self) -> None:
        pods = [running("high", "a", 1, 5, spec={"host_ports": (PORT,)}), running("low", "a", 1)]
        found = outlook(urgent(1, spec={"host_ports": (PORT,)}), nodes_of(3, "a"), pods)
        assert show(found) == [("a", ["high"], 0)]

    def test_pods_that_started_at_once_make_a_set_of_outcomes(self) -> None:
        found = outlook(urgent(1), nodes_of(2, "a"), [running("one", "a"), running("two", "a")])
        assert (show(found), found.complete) == ([("a", ["one"], 0), ("a", ["two"], 0)], True)
        assert not found.certain

    def test_of_too_many_equal_pods_one_order_is_tried_and_that_is_said(self) -> None:
        found = outlook(urgent(1), nodes_of(9, "a"), [running(f"p{number}", "a") for number in range(9)])
        assert (len(found.outcomes), found.complete, found.certain) == (1, False, False)

    def test_spread_is_evaluated_without_the_victims(self) -> None:
        """Zone a holds two: without one of them another fits, of whatever size."""
        constraint = spread(selects=WEB)
        pods = [running(f"web-{number}", "a", started=number, labels={"app": "web"}) for number in range(2)]
        nodes = [*nodes_of(9, "a"), changed_node(node("b"))]
        new = urgent(1, spec={"spread": (constraint,)}, labels={"app": "web"})
        assert show(outlook(new, nodes, pods)) == [("a", ["web-1", "web-0"][::-1], 0)]

    def test_a_terminating_pod_is_subtracted_from_the_spread_although_it_was_not_counted(self) -> None:
        """Zones a and b hold one each. Without the pod that is terminating there the scheduler counts none in a."""
        pods = [
            running("web-0", "a", 1, 20, labels={"app": "web"}),
            running("ending", "a", 1, labels={"app": "web"}, deleted=NOW),
            running("other", "a", 7),
        ]
        new = urgent(1, spec={"spread": (spread(selects=WEB),)}, labels={"app": "web"})
        nodes = [*nodes_of(9, "a"), changed_node(node("b"))]
        assert show(outlook(new, nodes, pods)) == [("a", ["ending"], 0)]

    def test_pods_nominated_for_the_node_must_fit_as_well(self) -> None:
        waiting = pod(
            {"app": "first"}, name="first", nominated_node="a", spec=PodSpec(requests=Resources(cpu=2), priority=10)
        )
        pods = [running(f"low-{number}", "a", 1, started=number) for number in range(4)]
        assert show(outlook(urgent(1), nodes_of(4, "a"), [waiting, *pods])) == [("a", ["low-1", "low-2", "low-3"], 0)]
        assert outlook(urgent(3), nodes_of(4, "a"), [waiting, *pods]).obstacle == preemption.NO_NODE

    def test_a_nodes_own_labels_are_required_by_the_spread_here_too(self) -> None:
        bare = node("b", allocatable=Resources(cpu=1))
        new = urgent(1, spec={"spread": (spread(selects=WEB),)})
        assert outlook(new, [bare], [running("low", "b")]).obstacle == preemption.NO_NODE


class TestBudgets:
    """Pods whose budget would be violated are taken back first, and nodes without violations are preferred."""

    def test_a_pod_whose_budget_allows_none_stays_rather_than_a_more_important_one(self) -> None:
        pods = [running("high", "a", priority=5), running("guarded", "a")]
        found = outlook(urgent(1), nodes_of(2, "a"), pods, budget("none", 0, selector(app="guarded")))
        assert show(found) == [("a", ["high"], 0)]

    def test_without_the_list_of_budgets_nothing_is_certain(self) -> None:
        state = snapshot(nodes_of(1, "a"), [running("low", "a")], version=NEW, unknown=frozenset({preemption.BUDGETS}))
        found = predict(urgent(1), View(state)).preemption
        assert found is not None
        assert (show(found), found.complete) == ([("a", ["low"], 0)], False)

    def test_a_violated_budget_is_named(self) -> None:
        found = outlook(urgent(1), nodes_of(1, "a"), [running("low", "a")], budget("none", 0, selector(app="low")))
        assert show(found) == [("a", ["low"], 1)]
        assert [str(one) for one in found.outcomes[0].broken] == ["default/none"]

    def test_what_a_budget_allows_counts_for_all_pods_of_lower_priority(self) -> None:
        """It allows one of two: the less important one violates it, is taken back first, and the other one goes."""
        pods = [
            running("web-0", "a", started=0, labels={"app": "web"}),
            running("web-1", "a", started=1, labels={"app": "web"}),
        ]
        found = outlook(urgent(1), nodes_of(2, "a"), pods, budget("one", 1, WEB))
        assert (show(found), found.outcomes[0].broken) == ([("a", ["web-0"], 0)], ())

    @pytest.mark.parametrize(
        "spared",
        [
            budget("everything", 0, LabelSelector()),
            budget("nothing", 0, None),
            budget("granted", 0, selector(app="low"), disrupted=(("low", NOW),)),
            DisruptionBudget(namespace="other", name="away", allowed=0, selector=selector(app="low")),
        ],
        ids=str,
    )
    def test_budgets_that_preemption_does_not_ask(self, spared: DisruptionBudget) -> None:
        assert show(outlook(urgent(1), nodes_of(1, "a"), [running("low", "a")], spared)) == [("a", ["low"], 0)]

    def test_a_pod_without_labels_has_no_budget(self) -> None:
        none = LabelSelector.of(None, [])
        pods = [running("bare", "a", labels={})]
        assert show(outlook(urgent(1), nodes_of(1, "a"), pods, budget("all", 0, none))) == [("a", ["bare"], 0)]

    def test_the_order_of_budgets_that_share_pods_makes_a_set_of_outcomes(self) -> None:
        """From 1.37 on the first violation decides: what is left of the other budget depends on the order."""
        pods = [
            running("both", "a", started=0, labels={"app": "web", "tier": "x"}),
            running("free", "a", started=1),
            running("tier", "a", started=2, labels={"tier": "x"}),
        ]
        budgets = budget("app", 0, WEB), budget("tier", 1, selector(tier="x"))
        found = outlook(urgent(1), nodes_of(3, "a"), pods, *budgets)
        assert (show(found), found.complete) == ([("a", ["free"], 0), ("a", ["tier"], 0)], True)
        view = View(snapshot(nodes_of(3, "a"), pods, budgets=budgets, version=Version(1, 36)))
        older = predict(urgent(1), view).preemption
        assert older is not None
        assert show(older) == [("a", ["free"], 0)]

    def test_of_too_many_budgets_that_share_pods_one_order_is_tried_and_that_is_said(self) -> None:
        budgets = [budget(f"b{number}", 0, selector(app="low")) for number in range(6)]
        found = outlook(urgent(1), nodes_of(1, "a"), [running("low", "a")], *budgets)
        assert (show(found), found.complete) == ([("a", ["low"], 1)], False)


class TestDescription:
    """What would go is said in a sentence that names pods, node and budgets."""

    def say(self, nodes: int, *budgets: DisruptionBudget, **fields: Any) -> str:
        names = "abcde"[:nodes]
        pods = [running(f"low-{name}", name, 2, **fields) for name in names]
        return describe_preemptions(outlook(urgent(), nodes_of(2, *names), pods, *budgets))

    def test_one_outcome(self) -> None:
        assert self.say(1) == "preempt default/low-a on a"

    def test_budgets(self) -> None:
        one, two = (budget(name, 0, selector(app="low-a")) for name in ("one", "two"))
        assert self.say(1, one) == "preempt default/low-a on a, more than PodDisruptionBudget default/one allows"
        assert self.say(1, one, two) == (
            "preempt default/low-a on a, more than PodDisruptionBudgets default/one, default/two allow"
        )

    def test_several_outcomes(self) -> None:
        assert self.say(3) == "preempt default/low-a on a; or other pods, on b, c"
        many = [running(f"p{number}", "a") for number in range(9)]
        incomplete = describe_preemptions(outlook(urgent(1), nodes_of(9, "a"), many))
        assert incomplete == "preempt default/p8 on a; or other pods, on a"

    def test_an_unknown_plugin(self) -> None:
        assert describe_preemptions(PreemptionOutlook(complete=False)).startswith("perhaps preempt pods: ")


class TestChoiceOfNode:
    """Each rule decides where those before it do not."""

    @pytest.mark.parametrize(
        ("on_a", "on_b", "chosen"),
        [
            ([("guarded", 2, 0, 0)], [("free", 2, 5, 0)], "b"),
            ([("one", 2, 5, 0)], [("two", 1, 4, 0), ("three", 1, 4, 0)], "b"),
            ([("one", 1, 5, 0), ("two", 1, 4, 0)], [("three", 1, 5, 0), ("four", 1, 3, 0)], "b"),
            ([("one", 1, 5, 0), ("two", 1, -2, 0)], [("three", 2, 5, 0)], "b"),
            ([("one", 2, 5, 1)], [("two", 2, 5, 2)], "b"),
            ([("one", 2, 5, 1)], [("two", 2, 5, None)], "b"),
            ([("one", 1, 5, 3), ("two", 1, 4, 0)], [("three", 1, 5, 2), ("four", 1, 4, 9)], "a"),
            ([("one", 2, 5, 1)], [("two", 2, 5, 1)], "ab"),
        ],
        ids=[
            "violations",
            "highest priority",
            "sum",
            "number",
            "start",
            "not started",
            "start of the highest",
            "equal",
        ],
    )
    def test_it_is_the_one_whose_victims_matter_least(
        self, on_a: list[tuple[str, int, int, int | None]], on_b: list[tuple[str, int, int, int | None]], chosen: str
    ) -> None:
        pods = [
            running(name, on, cpu, priority, start)
            for on, many in (("a", on_a), ("b", on_b))
            for name, cpu, priority, start in many
        ]
        found = outlook(urgent(), nodes_of(2, "a", "b"), pods, budget("none", 0, selector(app="guarded")))
        assert {one.node for one in found.outcomes} == set(chosen)

    def test_a_dry_run_that_stops_early_may_miss_the_best(self) -> None:
        """150 nodes, the dry run stops at 100: one of the 51 best is chosen, whichever it begins with."""
        names = [f"n{number}" for number in range(150)]
        pods = [running(f"p{number}", name, 2, started=number) for number, name in enumerate(names)]
        found = outlook(urgent(), nodes_of(2, *names), pods)
        assert {one.node for one in found.outcomes} == {*names[-51:]}

    def test_it_does_not_stop_before_a_node_without_violations(self) -> None:
        names = [f"n{number}" for number in range(150)]
        pods = [running("spared" if name == "n7" else f"p{name}", name, 2, labels={"app": "web"}) for name in names]
        free = changed(pods[7], labels=pods[7].labels.__class__({"app": "free"}))
        found = outlook(urgent(), nodes_of(2, *names), [*pods[:7], free, *pods[8:]], budget("none", 0, WEB))
        assert show(found) == [("n7", ["spared"], 0)]


# A slow copy of the scheduler's loop, over states of the whole cluster.

PRIORITIES = (-1, 0, 5, 10)
ANTI = PodAffinity(anti_required=(PodAffinityTerm(topology_key=ZONE, selector=WEB),))
SPREADS: tuple[tuple[SpreadConstraint, ...], ...] = (
    (),
    (spread(selects=WEB),),
    (spread(selects=WEB, min_domains=3),),
    (spread(HOSTNAME, selects=WEB), spread(ZONE, 2, selects=WEB, taints="Honor")),
)


@st.composite
def clusters(draw: st.DrawFn, *, ties: bool) -> tuple[Pod, View]:
    """Draw up to four nodes with up to four pods each, up to two budgets, and a pod; `ties`: some start at once."""
    names = [f"{draw(st.sampled_from('ab'))}{number}" for number in range(draw(st.integers(1, 4)))]
    nodes = nodes_of(4, *names)
    pods: list[Pod] = []
    for name in names:
        for _ in range(draw(st.integers(0, 4))):
            spec = PodSpec(
                requests=Resources(cpu=draw(st.integers(0, 3))),
                priority=draw(st.sampled_from(PRIORITIES)),
                host_ports=(PORT,) if draw(st.integers(0, 4)) == 0 else (),
                pod_affinity=ANTI if draw(st.integers(0, 6)) == 0 else PodAffinity(),
            )
            start = draw(st.integers(0, 2)) if ties else len(pods)
            labels = draw(st.sampled_from(({"app": "web"}, {"app": "db"}, {"app": "web", "tier": "x"}, {})))
            made = pod(labels, on=name, name=f"p{len(pods)}", spec=spec, started_at=NOW + timedelta(seconds=start))
            pods.append(made)
    chosen = [selector(app="web"), selector(tier="x")] if ties else [selector(app="web"), selector(app="db")]
    budgets = [budget(f"b{number}", draw(st.integers(0, 2)), one) for number, one in enumerate(chosen)]
    new = urgent(
        draw(st.integers(1, 4)),
        draw(st.sampled_from((5, 10))),
        spec={
            "host_ports": (PORT,) if draw(st.booleans()) else (),
            "pod_affinity": ANTI if draw(st.integers(0, 3)) == 0 else PodAffinity(),
            "spread": draw(st.sampled_from(SPREADS)),
        },
        labels=draw(st.sampled_from(({"app": "web"}, {"app": "urgent"}))),
    )
    version = draw(st.sampled_from((Version(1, 33), NEW)))
    enough = draw(st.integers(1, 4))
    profile = DEFAULT_PROFILE if draw(st.booleans()) else Profile(preemption_candidates=(0, enough))
    return new, View(snapshot(nodes, pods, budgets=budgets, version=version), profile)


def play(new: Pod, view: View) -> Iterator[frozenset[tuple[str, frozenset[str]]]]:
    """Yield what may be chosen for each order of equal pods and of budgets: (node, UIDs of the victims)."""
    states = predict(new, view).nodes
    nodes = [one.name for one in states if one.verdict.code == "Unschedulable"]
    orders = [_orders(new, name, view) for name in nodes]
    for budgets in permutations(view.snapshot.budgets):
        for positions in _cross([len(order) for order in orders]):
            by_node = {}
            for name, order, position in zip(nodes, orders, positions, strict=True):
                outcome = _victims(new, name, order[position], budgets, view)
                if outcome is not None:
                    by_node[name] = outcome
            yield frozenset(_choose(by_node, len(nodes), view))


def _cross(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    for first in range(sizes[0]):
        for rest in _cross(sizes[1:]):
            yield (first, *rest)


def _orders(new: Pod, name: str, view: View) -> list[tuple[Pod, ...]]:
    lower = [other for other in view.pods_on(name) if other.spec.priority < new.spec.priority]
    keys = {other.uid: (-other.spec.priority, other.started_at) for other in lower}
    return [
        order for order in permutations(lower) if all(keys[one.uid] <= keys[two.uid] for one, two in pairwise(order))
    ]


def _victims(
    new: Pod, name: str, order: Sequence[Pod], budgets: Sequence[DisruptionBudget], view: View
) -> tuple[int, list[Pod]] | None:
    def fits(gone: Sequence[Pod]) -> bool:
        return name in feasible(new, view.without(gone))

    if not order or not fits(order):
        return None
    allowed = {one.name: one.allowed for one in budgets}
    violating: list[Pod] = []
    others: list[Pod] = []
    for one in order:
        violates = False
        for guard in budgets:
            if not one.labels or guard.selector is None or not guard.selector.matches(one.labels):
                continue
            if violates and view.rules.first_violation_decides:
                continue
            allowed[guard.name] -= 1
            violates = violates or allowed[guard.name] < 0
        (violating if violates else others).append(one)
    gone = list(order)
    for one in (*violating, *others):
        left = [other for other in gone if other is not one]
        if fits(left):
            gone = left
    return sum(one in violating for one in gone), sorted(gone, key=lambda one: -one.spec.priority)


def _choose(
    by_node: Mapping[str, tuple[int, list[Pod]]], nodes: int, view: View
) -> Iterator[tuple[str, frozenset[str]]]:
    percentage, least = view.profile.preemption_candidates
    enough = min(nodes, max(nodes * percentage // 100, least))
    for size in range(1, len(by_node) + 1):
        for seen in combinations(by_node, size):
            done = size >= enough and any(by_node[name][0] == 0 for name in seen)
            if not done and size < len(by_node):
                continue
            left = list(seen)
            for score in (_violations, _highest, _total, _number, _earliest):
                scores = {name: score(by_node[name]) for name in left}
                left = [name for name in left if scores[name] == min(scores.values())]
            yield from ((name, frozenset(one.uid for one in by_node[name][1])) for name in left)


def _violations(outcome: tuple[int, list[Pod]]) -> float:
    return outcome[0]


def _highest(outcome: tuple[int, list[Pod]]) -> float:
    return outcome[1][0].spec.priority


def _total(outcome: tuple[int, list[Pod]]) -> float:
    return sum(one.spec.priority + 2**31 for one in outcome[1])


def _number(outcome: tuple[int, list[Pod]]) -> float:
    return len(outcome[1])


def _earliest(outcome: tuple[int, list[Pod]]) -> float:
    first = outcome[1][0]
    starts = [one.started_at for one in outcome[1] if one.spec.priority == first.spec.priority and one.started_at]
    return -min(starts).timestamp()


def chosen(found: PreemptionOutlook) -> set[tuple[str, frozenset[str]]]:
    return {(one.node, frozenset(victim.uid for victim in one.victims)) for one in found.outcomes}


@given(clusters(ties=False))
def test_without_equals_the_outcomes_are_exactly_those_of_the_schedulers_loop(drawn: tuple[Pod, View]) -> None:
    new, view = drawn
    found = predict(new, view).preemption
    if found is not None:
        assert chosen(found) == {one for outcomes in play(new, view) for one in outcomes}
        assert found.complete


@given(clusters(ties=True))
def test_with_equals_no_outcome_of_the_schedulers_loop_is_missing(drawn: tuple[Pod, View]) -> None:
    new, view = drawn
    found = predict(new, view).preemption
    if found is not None and found.complete:
        assert {one for outcomes in play(new, view) for one in outcomes} <= chosen(found)


@given(clusters(ties=True))
def test_victims_are_lower_the_pod_fits_without_them_and_none_could_stay(drawn: tuple[Pod, View]) -> None:
    """Whether one could stay is asked where more pods never make room: without spread constraints."""
    new, view = drawn
    found = predict(new, view).preemption
    for one in () if found is None else found.outcomes:
        assert one.victims
        assert all(victim.node == one.node and victim.spec.priority < new.spec.priority for victim in one.victims)
        assert one.node in feasible(new, view.without(one.victims))
        for victim in one.victims if not new.spec.spread else ():
            kept = [other for other in one.victims if other is not victim]
            assert one.node not in feasible(new, view.without(kept))
        assert_broken_budgets_are_named(one, view)


def assert_broken_budgets_are_named(one: Preemption, view: View) -> None:
    for guard in view.snapshot.budgets:
        assert guard.selector is not None
        taken = sum(bool(victim.labels) and guard.selector.matches(victim.labels) for victim in one.victims)
        assert (guard in one.broken) == (taken > guard.allowed)
