"""Predictions, a queue of pods, and what an owner would put in an evicted pod's place."""

from typing import Any

import pytest

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, Toleration
from rebalancer.model.cluster import PriorityClass, Version
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import OwnerReference, Pod, PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.storage import PersistentVolumeClaim
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.scheduling.place import place
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.template_defaults import DEFAULT_TOLERATIONS
from rebalancer.scheduling.tie_breaking import node_order, pick_winner
from rebalancer.scheduling.unpredictable import Unpredictable
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

    def test_it_tells_where_preemption_might_help(self) -> None:
        low = pod(on="a", spec=PodSpec(requests=Resources(cpu=900)))
        view = View(snapshot([node("a", allocatable=Resources(cpu=1000))], [low]))
        spec = PodSpec(requests=Resources(cpu=500), priority=5)
        assert predict(pod(spec=spec), view).may_preempt
        assert not predict(pod(spec=PodSpec(requests=Resources(cpu=500))), view).may_preempt
        assert not predict(pod(spec=PodSpec(requests=Resources(cpu=500), priority=5, preempts=False)), view).may_preempt
        assert not predict(pod(spec=PodSpec(requests=Resources(cpu=5000), priority=5)), view).may_preempt

    def test_a_large_cluster_makes_every_feasible_node_a_candidate(self) -> None:
        nodes = [node(f"n{number}", {ZONE: "ab"[number % 2]}) for number in range(130)]
        busy = [pod(on=f"n{number}", scored=(9999, 1)) for number in range(0, 130, 2)]
        prediction = predict(pod(), View(snapshot(nodes, busy)))
        assert prediction.sampled
        assert prediction.candidates == prediction.feasible
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


class TestReplacement:
    def owned(self, kind: str = "ReplicaSet", **fields: Any) -> Workload:
        group = "" if kind == "ReplicationController" else "apps"
        defaults: dict[str, Any] = {"template": PodTemplate(labels=Labels({"app": "web"})), "selector": WEB}
        return Workload(
            group=group, kind=kind, namespace="default", name="web", uid="w", created=NOW, **{**defaults, **fields}
        )

    def member(self, labels: dict[str, str] | None = None, **fields: Any) -> Pod:
        kind = fields.pop("kind", "ReplicaSet")
        owner = OwnerReference(group="apps", kind=kind, name="web", uid="w")
        return pod({"app": "web", **(labels or {})}, on="a", owner=owner, **fields)

    def made(self, evicted: Pod, owner: Workload, *others: Pod, **fields: Any) -> Pod | Unpredictable:
        return replacement(evicted, View(snapshot([node("a")], [evicted, *others], workloads=[owner], **fields)))

    def test_it_is_like_a_live_pod_but_unplaced_and_another(self) -> None:
        spec = PodSpec(tolerations=DEFAULT_TOLERATIONS, requests=Resources(cpu=5), priority=3)
        evicted = self.member(spec=spec, claims=("shared",))
        owner = self.owned(template=PodTemplate(labels=Labels({"app": "web"}), claims=("shared",)))
        new = self.made(evicted, owner)
        assert isinstance(new, Pod)
        assert new.spec == spec
        assert (new.node, new.uid == evicted.uid, new.claims) == (None, False, ("shared",))

    def test_the_current_revision_is_the_model_not_the_evicted_pod(self) -> None:
        old = self.member({"pod-template-hash": "1"}, spec=PodSpec(priority=1))
        new = self.member({"pod-template-hash": "2"}, spec=PodSpec(priority=2))
        template = PodTemplate(labels=Labels({"app": "web", "pod-template-hash": "2"}))
        made = self.made(old, self.owned(revision="2", template=template), new)
        assert isinstance(made, Pod)
        assert made.spec.priority == 2
        assert made.labels["pod-template-hash"] == "2"

    def test_labels_come_from_the_template_not_from_roles_and_nodes_of_live_pods(self) -> None:
        new = self.made(self.member({"role": "leader", ZONE: "a"}), self.owned())
        assert isinstance(new, Pod)
        assert new.labels == {"app": "web"}
        unknown = self.made(self.member({"role": "leader", ZONE: "a"}), self.owned(template=None))
        assert isinstance(unknown, Pod)
        assert unknown.labels == {"app": "web", "role": "leader"}

    def test_a_pod_that_was_resized_in_place_is_no_model_if_another_is_there(self) -> None:
        template = PodTemplate(labels=Labels({"app": "web"}), requests=Resources(cpu=100))
        resized = self.member(spec=PodSpec(requests=Resources(cpu=900)))
        plain = self.member(spec=PodSpec(requests=Resources(cpu=100)))
        new = self.made(resized, self.owned(template=template), plain)
        assert isinstance(new, Pod)
        assert new.requests.cpu == 100

    def test_without_a_live_pod_the_template_is_taken_with_what_admission_adds(self) -> None:
        spec = PodSpec(
            priority_class="high",
            spread=(spread(selects=WEB, keys=("hash",)),),
            pod_affinity=PodAffinity(
                anti_required=(
                    PodAffinityTerm(
                        topology_key=HOSTNAME, selector=WEB, match_label_keys=("hash",), mismatch_label_keys=("tier",)
                    ),
                )
            ),
        )
        labels = Labels({"app": "web", "hash": "2", "tier": "x"})
        owner = self.owned(template=PodTemplate(labels=labels, spec=spec), revision="2")
        high = PriorityClass(name="high", value=1000, preempts=False)
        new = self.made(self.member({"pod-template-hash": "1"}), owner, priority_classes=[high])
        assert isinstance(new, Pod)
        assert (new.spec.priority, new.spec.preempts) == (1000, False)
        assert new.spec.tolerations == DEFAULT_TOLERATIONS
        merged = selector(app="web", hash="2")
        assert new.spec.spread[0].selector == merged
        anti = new.spec.pod_affinity.anti_required[0].selector
        assert anti is not None
        assert not anti.matches({"app": "web", "hash": "2", "tier": "x"})
        assert anti.matches({"app": "web", "hash": "2", "tier": "y"})

    def test_keys_do_not_make_a_null_selector_match_anybody(self) -> None:
        null = PodAffinityTerm(topology_key=HOSTNAME, selector=None, match_label_keys=("app",))
        spec = PodSpec(pod_affinity=PodAffinity(anti_required=(null,)))
        template = PodTemplate(labels=Labels({"app": "web"}), spec=spec)
        new = self.made(self.member(), self.owned(template=template, revision="2"))
        assert isinstance(new, Pod)
        assert new.spec.pod_affinity.anti_required[0].selector is None

    def test_the_default_priority_class_applies_where_none_is_named(self) -> None:
        owner = self.owned(revision="2")
        classes = [PriorityClass(name="usual", value=7, default=True)]
        new = self.made(self.member(), owner, priority_classes=classes)
        assert isinstance(new, Pod)
        assert (new.spec.priority_class, new.spec.priority) == ("usual", 7)

    def test_a_stateful_sets_pod_keeps_name_ordinal_and_claims(self) -> None:
        labels = {"apps.kubernetes.io/pod-index": "3", "controller-revision-hash": "1"}
        evicted = self.member(labels, kind="StatefulSet", name="web-3", claims=("data-web-3",))
        other = self.member(
            {"apps.kubernetes.io/pod-index": "0", "controller-revision-hash": "2"}, kind="StatefulSet", name="web-0"
        )
        new = self.made(evicted, self.owned("StatefulSet", revision="2"), other)
        assert isinstance(new, Pod)
        assert (new.name, new.claims) == ("web-3", ("data-web-3",))
        assert new.labels["apps.kubernetes.io/pod-index"] == "3"
        assert new.labels["controller-revision-hash"] == "2"

    def test_a_stateful_set_without_live_pods_labels_by_its_template(self) -> None:
        new = self.made(self.member(kind="StatefulSet", name="web-3"), self.owned("StatefulSet", revision="2"))
        assert isinstance(new, Pod)
        assert new.labels["statefulset.kubernetes.io/pod-name"] == "web-3"
        assert new.labels["controller-revision-hash"] == "2"

    def test_an_owner_without_revisions_is_compared_with_its_template(self) -> None:
        template = PodTemplate(labels=Labels({"app": "web"}), spec=PodSpec(spread=(spread(max_skew=2, selects=WEB),)))
        owner = self.owned("ReplicationController", template=template)
        changed_since = self.member(spec=PodSpec(spread=(spread(max_skew=1, selects=WEB),)))
        new = self.made(changed_since, owner)
        assert isinstance(new, Pod)
        assert new.spec.spread[0].max_skew == 2

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"kind": "DaemonSet"}, Reason.UNKNOWN_OWNER),
            ({"template": None, "revision": "2"}, Reason.NOT_PREDICTABLE),
            (
                {
                    "template": PodTemplate(
                        labels=Labels({"app": "web"}), spec=PodSpec(spread=(spread(selects=WEB, keys=("app",)),))
                    )
                },
                Reason.TEMPLATE_REFUSED,
            ),
            (
                {"template": PodTemplate(spec=PodSpec(gated=True), labels=Labels({"app": "web"}))},
                Reason.NOT_PREDICTABLE,
            ),
            (
                {"template": PodTemplate(spec=PodSpec(node_name="a"), labels=Labels({"app": "web"}))},
                Reason.NOT_PREDICTABLE,
            ),
        ],
    )
    def test_unknown_replacements_are_reported_as_unpredictable(self, fields: dict[str, Any], reason: Reason) -> None:
        new = self.made(self.member(), self.owned(**fields))
        assert isinstance(new, Unpredictable)
        assert new.reason is reason

    def test_bare_pods_other_schedulers_and_ephemeral_volumes_are_not_predicted(self) -> None:
        view = View(snapshot([node("a")]))
        bare = replacement(pod(on="a"), view)
        assert isinstance(bare, Unpredictable)
        assert bare.reason is Reason.UNKNOWN_OWNER
        other = self.made(self.member(spec=PodSpec(scheduler="mine")), self.owned())
        assert isinstance(other, Unpredictable)
        assert other.reason is Reason.OTHER_SCHEDULER
        owner = self.member(claims=("scratch",), uid="x")
        claim = PersistentVolumeClaim(namespace="default", name="scratch", owner_uid="x")
        ephemeral = self.made(owner, self.owned(), claims=[claim])
        assert isinstance(ephemeral, Unpredictable)
        assert "ephemeral" in ephemeral.message


def test_a_replacement_meets_the_old_pod_terminating_or_gone() -> None:
    spec = PodSpec(requests=Resources(cpu=800))
    owner = OwnerReference(group="apps", kind="ReplicaSet", name="web", uid="w")
    evicted = pod({"app": "web"}, on="a", spec=spec, owner=owner)
    workload = Workload(
        group="apps", kind="ReplicaSet", namespace="default", name="web", uid="w", selector=WEB, created=NOW
    )
    state: Snapshot = snapshot([node("a", allocatable=Resources(cpu=1000))], [evicted], workloads=[workload])
    view = View(state)
    new = replacement(evicted, view)
    assert isinstance(new, Pod)
    assert predict(new, view.terminating([evicted])).failure == "0/1 nodes are available: 1 Insufficient cpu."
    assert predict(new, view.without([evicted])).feasible == {"a"}
