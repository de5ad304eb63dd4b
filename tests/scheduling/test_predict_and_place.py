"""Predictions, and a queue of pods."""

from typing import Any

import pytest

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, Toleration
from rebalancer.model.cluster import Version
from rebalancer.model.labels import LabelSelector
from rebalancer.model.pods import PodSpec
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.place import place
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.tie_breaking import node_order, pick_winner
from rebalancer.scheduling.view import View
from tests.scheduling.build import HOSTNAME, NOW, ZONE, node, pod, selector, snapshot, spread, taint

WEB = selector(app="web") or LabelSelector()


class TestPredict:
    def test_it_says_every_filters_verdict_and_every_score(self) -> None:
        view = View(snapshot([node("a", {ZONE: "a"}), node("b", {ZONE: "a"}), node("c", taints=(taint("k"),))]))
        prediction = predict(pod(), view)
        assert prediction.node["c"].rejected_by == "TaintToleration"
        assert not prediction.node["c"].feasible
        assert prediction.node["c"].scores == {}
        assert len(prediction.node["c"].verdicts) == 12
        assert prediction.node["a"].scores["TaintToleration"] == 100
        assert prediction.node["a"].total == sum(
            score * view.profile.weights[plugin] for plugin, score in prediction.node["a"].scores.items()
        )
        assert prediction.candidates == {"a", "b"}
        assert prediction.certain == {ZONE: "a"}
        assert prediction.failure == ""

    def test_one_feasible_node_is_not_scored_and_certain(self) -> None:
        prediction = predict(pod(), View(snapshot([node("a", {ZONE: "z"})])))
        assert prediction.node["a"].total is None
        assert prediction.certain == {HOSTNAME: "a", ZONE: "z"}
        assert prediction.likely == "a"

    def test_the_winner_of_a_tie_is_guessed_only_where_it_is_not_drawn(self) -> None:
        nodes = [node("a"), node("b")]
        assert predict(pod(), View(snapshot(nodes, version=Version(1, 36)))).likely == "a"
        assert predict(pod(), View(snapshot(nodes, version=Version(1, 34)))).likely is None

    def test_the_message_counts_reasons_in_the_order_of_the_text(self) -> None:
        full = [node(f"f{number}", pods=0) for number in range(3)]
        nodes = [*full, node("c", unschedulable=True), node("t", taints=(taint("k"),))]
        assert predict(pod(), View(snapshot(nodes))).failure == (
            "0/5 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
            "3 Too many pods."
        )

    def test_a_large_cluster_makes_candidates_of_the_best_of_any_sample(self) -> None:
        """60 of 150 nodes are idle: every sample of 100 has one of them; of 40 idle ones it may have none."""
        for idle, certain in ((60, True), (40, False)):
            nodes = [node(f"n{number}", {ZONE: "ab"[number % 2]}) for number in range(150)]
            busy = [pod(on=f"n{number}", scored=(9999, 1)) for number in range(idle, 150)]
            prediction = predict(pod(), View(snapshot(nodes, busy)))
            assert prediction.sampled
            names = {f"n{number}" for number in range(idle)} if certain else prediction.feasible
            assert prediction.candidates == names
            assert prediction.certain == {}

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"scheduler": "other"}, Reason.OTHER_SCHEDULER),
            ({"gated": True}, Reason.NOT_PREDICTABLE),
            ({"node_name": "a"}, Reason.NOT_PREDICTABLE),
            ({"unpredictable": ("resourceClaims",)}, Reason.NOT_PREDICTABLE),
            ({"tolerations": (Toleration(key="k", operator="Gt", value="1"),)}, Reason.NOT_PREDICTABLE),
        ],
    )
    def test_what_is_not_modelled_is_reported_as_unpredictable(self, fields: dict[str, Any], reason: Reason) -> None:
        prediction = predict(pod(spec=PodSpec(**fields)), View(snapshot([node("a")]))).unpredictable
        assert prediction is not None
        assert prediction.reason is reason

    def test_a_configuration_or_volumes_that_are_not_known_make_it_unpredictable(self) -> None:
        nodes = [node("a")]
        assert predict(pod(), View(snapshot(nodes), Profile(unmodelled=("extenders",)))).unpredictable is not None
        unread = View(snapshot(nodes, unknown=frozenset({"PersistentVolume"})))
        assert predict(pod(claims=("c",)), unread).unpredictable is not None
        assert predict(pod(), unread).unpredictable is None
        without_services = View(snapshot(nodes, unknown=frozenset({"Service"})))
        assert predict(pod(), without_services).unpredictable is not None
        own = pod(spec=PodSpec(spread=(spread(selects=WEB),)))
        assert predict(own, without_services).unpredictable is None


class TestNodeOrder:
    def test_zones_take_turns(self) -> None:
        """The node order takes one node of each zone in turn."""
        nodes = [node(name, {ZONE: name[0]}) for name in ("a1", "a2", "b1", "a3", "b2")]
        assert node_order(View(snapshot(nodes))) == ["a1", "b1", "a2", "b2", "a3"]

    @pytest.mark.parametrize(
        ("totals", "expected"),
        [((1, 1, 1), "n0"), ((1, 2, 2), "n1"), ((1, 1, 2), "n2"), ((1, 2, 1, 2, 2), "n1"), ((0, 0, 1, 0, 0, 1), "n2")],
    )
    def test_the_winner_is_the_root_of_the_heap(self, totals: tuple[int, ...], expected: str) -> None:
        view = View(snapshot([node(f"n{number}") for number in range(len(totals))]))
        assert pick_winner({f"n{number}": total for number, total in enumerate(totals)}, view) == expected


class TestPlace:
    spec = PodSpec(spread=(spread(HOSTNAME, selects=WEB),))

    def test_each_pod_meets_the_state_that_the_one_before_left(self) -> None:
        view = View(snapshot([node("a"), node("b"), node("c")]))
        pods = [pod({"app": "web"}, spec=self.spec, name=f"p{number}") for number in range(3)]
        outcome = place(pods, view)
        assert sorted(outcome.node.values()) == ["a", "b", "c"]
        assert outcome.view.live("default", WEB) == {"a": 1, "b": 1, "c": 1}
        assert view.live("default", WEB) == {}

    def test_priority_goes_before_age(self) -> None:
        """The queue is sorted by priority, then by age."""
        view = View(snapshot([node("a", pods=1)]))
        old = pod(name="old")
        urgent = pod(name="urgent", spec=PodSpec(priority=1), created=NOW.replace(year=2027))
        outcome = place([old, urgent], view)
        assert [placed.name for placed, _ in outcome.placed] == ["urgent"]
        assert [pending.name for pending in outcome.pending] == ["old"]

    def test_a_pod_that_did_not_fit_is_tried_again_after_a_success(self) -> None:
        avoid = PodAffinity(required=(PodAffinityTerm(topology_key=HOSTNAME, selector=WEB),))
        follower = pod({"app": "x"}, spec=PodSpec(pod_affinity=avoid, priority=9), name="follower")
        leader = pod({"app": "web"}, name="leader")
        outcome = place([follower, leader], View(snapshot([node("a")])))
        assert [placed.name for placed, _ in outcome.placed] == ["leader", "follower"]
        assert outcome.pending == ()

    def test_thousands_in_turn_need_no_deep_stack(self) -> None:
        view = View(snapshot([node(f"n{number}", pods=1000) for number in range(2)]))
        outcome = place([pod(name=f"p{number}") for number in range(1500)], view)
        assert len(outcome.placed) == 1500
