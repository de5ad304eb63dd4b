"""What an owner would put in an evicted pod's place."""

from typing import Any

import pytest

from rebalancer.creation.defaults import DEFAULT_TOLERATIONS
from rebalancer.creation.replacement import replacement
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.cluster import PriorityClass
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import OwnerReference, Pod, PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.storage import PersistentVolumeClaim
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from tests.scheduling.build import HOSTNAME, NOW, ZONE, node, pod, selector, snapshot, spread

WEB = selector(app="web") or LabelSelector()


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
            ({"kind": "Deployment"}, Reason.UNKNOWN_OWNER),
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

    @pytest.mark.parametrize("key", ["kueue.x-k8s.io/managed", "kueue.x-k8s.io/queue-name"])
    def test_what_a_queue_admits_is_not_predicted(self, key: str) -> None:
        """Kueue's webhook gates each pod; a pod says so, or its owner does."""
        for made in (
            self.made(self.member({key: "x"}), self.owned()),
            self.made(self.member(), self.owned(labels=Labels({key: "x"}))),
        ):
            assert isinstance(made, Unpredictable)
            assert key in made.message
        assert isinstance(self.made(self.member({"kueue.x-k8s.io/other": "x"}), self.owned()), Pod)

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
