"""Scores, worked out by hand; that they equal the scheduler's is shown in tests/cluster/test_fidelity.py."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.affinity import NodeAffinity, PodAffinity, PodAffinityTerm, PreferredNodeTerm, PreferredPodTerm
from rebalancer.model.cluster import Service, Version
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from rebalancer.model.workloads import Workload
from rebalancer.scheduling import (
    image_locality,
    inter_pod_affinity_score,
    node_affinity,
    node_resources_balanced_allocation,
    node_resources_fit,
    pod_topology_spread_score,
    taint_toleration,
    volume_binding,
)
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.scoring import best, scores
from rebalancer.scheduling.view import View
from tests.scheduling.build import HOSTNAME, NOW, ZONE, node, pod, selector, snapshot, spread, taint, term

WEB = selector(app="web")
GIBI = 2**30


def webs(**per_node: int) -> list[Pod]:
    return [pod({"app": "web"}, on=name) for name, count in per_node.items() for _ in range(count)]


def soft(*keys: str, max_skew: int = 1) -> Pod:
    return pod(
        {"app": "web"}, spec=PodSpec(spread=tuple(spread(key, max_skew, soft=True, selects=WEB) for key in keys))
    )


class TestTaintToleration:
    def test_fewer_soft_taints_are_better(self) -> None:
        nodes = [
            node("a"),
            node("b", taints=(taint("x", "PreferNoSchedule"),)),
            node("c", taints=tuple(taint(key, "PreferNoSchedule") for key in "xyz")),
        ]
        scores = taint_toleration.score(pod(), View(snapshot(nodes)), ["a", "b", "c"])
        assert scores == {"a": 100, "b": 67, "c": 0}

    def test_without_any_all_are_equal(self) -> None:
        assert taint_toleration.score(pod(), View(snapshot([node("a")])), ["a"]) == {"a": 100}


class TestVolumeBinding:
    """The less of a volume's capacity is asked for, the better; what would be made counts nothing."""

    def view(self, *claims: PersistentVolumeClaim, minor: int = 37) -> View:
        """Return two nodes: on a there are volumes of 20 and 40 bytes of one class and 30 of another, on b none."""
        on_a = (term((HOSTNAME, "In", ("a",))),)
        volumes = [
            PersistentVolume(
                name=f"pv-{kind}-{capacity}",
                storage_class=kind,
                capacity=capacity,
                phase="Available",
                node_affinity=on_a,
            )
            for kind, capacity in (("one", 20), ("one", 40), ("two", 30))
        ]
        kinds = [StorageClass(name=name, provisioner="p", delayed=True) for name in ("one", "two")]
        nodes = [node("a", {HOSTNAME: "a"}), node("b", {HOSTNAME: "b"})]
        made = snapshot(nodes, claims=claims, volumes=volumes, storage_classes=kinds, version=Version(1, minor))
        return View(made)

    def claim(self, name: str, kind: str, request: int, **fields: Any) -> PersistentVolumeClaim:
        return PersistentVolumeClaim(namespace="default", name=name, storage_class=kind, request=request, **fields)

    @pytest.mark.parametrize(
        ("asked", "expected"),
        [
            ([("one", 10)], 50),
            ([("one", 20)], 0),
            ([("one", 7)], 65),
            ([("one", 10), ("one", 20)], 50),
            ([("one", 10), ("two", 5)], 67),
            ([("one", 10), ("two", 31)], 50),
        ],
    )
    def test_each_class_counts_with_the_share_that_is_left(self, asked: list[tuple[str, int]], expected: int) -> None:
        claims = [self.claim(str(number), kind, request) for number, (kind, request) in enumerate(asked)]
        user = structs.replace(pod(), claims=tuple(claim.name for claim in claims))
        assert volume_binding.score(user, self.view(*claims), ["a", "b"]) == {"a": expected, "b": 0}

    def test_a_volume_that_is_made_on_another_node_counts_nothing(self) -> None:
        claim = self.claim("data", "one", 10, selected_node="b")
        user = structs.replace(pod(), claims=("data",))
        assert volume_binding.score(user, self.view(claim), ["a", "b"]) == {"a": 0, "b": 0}

    def test_a_volume_without_capacity_is_full(self) -> None:
        volume = PersistentVolume(name="pv", storage_class="one", phase="Available", capacity=0)
        kinds = [StorageClass(name="one", delayed=True)]
        claim = self.claim("data", "one", 0)
        view = View(snapshot([node("a")], claims=[claim], volumes=[volume], storage_classes=kinds))
        assert volume_binding.score(structs.replace(pod(), claims=("data",)), view, ["a"]) == {"a": 0}

    def test_it_says_nothing_before_1_37_or_of_pods_whose_volumes_are_there(self) -> None:
        claim = self.claim("data", "one", 10)
        user = structs.replace(pod(), claims=("data",))
        assert volume_binding.score(user, self.view(claim, minor=36), ["a", "b"]) is None
        assert "VolumeBinding" not in scores(pod(), self.view(), ["a", "b"])
        assert "VolumeBinding" in scores(user, self.view(claim), ["a", "b"])


class TestNodeAffinity:
    def test_weights_of_matching_terms_are_summed_and_scaled(self) -> None:
        preferred = tuple(
            PreferredNodeTerm(weight, term((key, "Exists", ()))) for key, weight in (("x", 20), ("y", 10))
        )
        nodes = [node("a", {"x": "", "y": ""}), node("b", {"y": ""}), node("c")]
        incoming = pod(spec=PodSpec(node_affinity=NodeAffinity(preferred=preferred)))
        assert node_affinity.score(incoming, View(snapshot(nodes)), ["a", "b", "c"]) == {"a": 100, "b": 33, "c": 0}

    def test_nothing_preferred_means_no_score(self) -> None:
        assert node_affinity.score(pod(), View(snapshot([node("a")])), ["a"]) is None


class TestResources:
    def cluster(self, **fields: object) -> Snapshot:
        nodes = [node("a", allocatable=Resources(cpu=1000, memory=1000)), node("b", allocatable=Resources(cpu=1000))]
        there = pod(on="a", spec=PodSpec(requests=Resources(cpu=300, memory=100), scored=(300, 100)))
        return snapshot(nodes, [there], **fields)

    incoming = pod(spec=PodSpec(requests=Resources(cpu=100, memory=100), scored=(100, 100)))

    def test_least_allocated_is_the_mean_of_what_is_free(self) -> None:
        # a: (60 + 80) / 2; b has no memory, so only its CPU counts.
        assert node_resources_fit.score(self.incoming, View(self.cluster()), ["a", "b"]) == {"a": 70, "b": 90}

    def test_most_allocated_is_the_mean_of_what_is_used(self) -> None:
        view = View(self.cluster(), Profile(most_allocated=True))
        assert node_resources_fit.score(self.incoming, view, ["a", "b"]) == {"a": 30, "b": 10}

    def test_balance_compares_with_and_without_the_pod(self) -> None:
        # a: 0.4 and 0.2 with it (deviation 0.1, 90), 0.3 and 0.1 without (90): 50 + (50 + 90 - 90) / 2.
        view = View(self.cluster())
        assert node_resources_balanced_allocation.score(self.incoming, view, ["a"]) == {"a": 75}

    def test_balance_scored_the_node_with_the_pod_only_until_1_36(self) -> None:
        view = View(self.cluster(version=Version(1, 35)))
        assert node_resources_balanced_allocation.score(self.incoming, view, ["a"]) == {"a": 90}

    def test_balance_has_nothing_to_say_of_a_pod_that_asks_for_nothing(self) -> None:
        assert node_resources_balanced_allocation.score(pod(), View(self.cluster()), ["a"]) is None
        until_1_32 = View(self.cluster(version=Version(1, 32)))
        assert node_resources_balanced_allocation.score(pod(), until_1_32, ["a"]) == {"a": 90}

    def test_balance_over_three_resources_is_a_standard_deviation(self) -> None:
        amounts = Resources(cpu=100, memory=100, extended=(("gpu", 2),))
        view = View(snapshot([node("a", allocatable=amounts)]), Profile(balanced_resources=("cpu", "memory", "gpu")))
        incoming = pod(spec=PodSpec(requests=Resources(cpu=50, memory=50, extended=(("gpu", 2),))))
        # 0.5, 0.5, 1.0: deviation 0.2357, so 76 with the pod and 100 without.
        assert node_resources_balanced_allocation.score(incoming, view, ["a"]) == {"a": 63}

    def test_a_resource_that_the_node_lacks_does_not_unbalance_it(self) -> None:
        # b has no memory, and CPU alone is always in balance: 50 + (50 + 100 - 100) / 2.
        assert node_resources_balanced_allocation.score(self.incoming, View(self.cluster()), ["b"]) == {"b": 75}

    def test_storage_is_balanced_where_the_profile_says_so(self) -> None:
        nodes = [node("a", allocatable=Resources(cpu=1000, ephemeral_storage=1000))]
        there = pod(on="a", requests=Resources(ephemeral_storage=400))
        view = View(snapshot(nodes, [there]), Profile(balanced_resources=("cpu", "ephemeral-storage")))
        incoming = pod(spec=PodSpec(requests=Resources(cpu=600, ephemeral_storage=200)))
        # 0 and 0.4 without it (deviation 0.2, 80), 0.6 and 0.6 with it (100): 50 + (50 + 100 - 80) / 2.
        assert node_resources_balanced_allocation.score(incoming, view, ["a"]) == {"a": 85}

    def test_storage_and_extended_resources_are_scored_where_the_profile_says_so(self) -> None:
        nodes = [node("a", allocatable=Resources(ephemeral_storage=1000, extended=(("gpu", 4),)))]
        there = pod(on="a", requests=Resources(ephemeral_storage=300, extended=(("gpu", 1),)))
        view = View(snapshot(nodes, [there]), Profile(strategy=(("ephemeral-storage", 1), ("gpu", 3))))
        storing = pod(spec=PodSpec(requests=Resources(ephemeral_storage=200)))
        reckoning = pod(spec=PodSpec(requests=Resources(extended=(("gpu", 2),))))
        # Half of the storage is left; a resource nobody has a default for counts only for pods that ask for it.
        assert node_resources_fit.score(storing, view, ["a"]) == {"a": 50}
        # 70 for storage and three times 25 for the GPUs, over four.
        assert node_resources_fit.score(reckoning, view, ["a"]) == {"a": 36}


class TestImages:
    def test_size_times_the_share_of_nodes_that_have_it(self) -> None:
        nodes = [node("a", images=(("big:1", 700 * 2**20),)), node("b")]
        incoming = pod(spec=PodSpec(images=("big:1",), containers=1))
        # 700 MiB * 1/2 = 350; (350 - 23) / (1000 - 23).
        assert image_locality.score(incoming, View(snapshot(nodes)), ["a", "b"]) == {"a": 33, "b": 0}

    @pytest.mark.parametrize(
        ("written", "meant"),
        [("app", "app:latest"), ("app:1", "app:1"), ("host:5000/app", "host:5000/app:latest"), ("h:1/a:2", "h:1/a:2")],
    )
    def test_a_name_without_a_tag_means_latest(self, written: str, meant: str) -> None:
        assert image_locality.normalize_image_name(written) == meant


class TestPodAffinity:
    def term(self, key: str = ZONE) -> PodAffinityTerm:
        return PodAffinityTerm(topology_key=key, selector=WEB)

    nodes = (node("a", {ZONE: "a"}), node("b", {ZONE: "b"}), node("c", {ZONE: "c"}))

    def score(self, incoming: Pod, pods: list[Pod], profile: Profile | None = None) -> Mapping[str, int] | None:
        view = View(snapshot(self.nodes, pods), profile or Profile())
        return inter_pod_affinity_score.score(incoming, view, ["a", "b", "c"])

    def test_own_preferences_count_each_matching_pod(self) -> None:
        wishing = pod(spec=PodSpec(pod_affinity=PodAffinity(preferred=(PreferredPodTerm(10, self.term()),))))
        assert self.score(wishing, webs(a=2, b=1)) == {"a": 100, "b": 50, "c": 0}
        avoiding = pod(spec=PodSpec(pod_affinity=PodAffinity(anti_preferred=(PreferredPodTerm(10, self.term()),))))
        assert self.score(avoiding, webs(a=3, b=1)) == {"a": 0, "b": 66, "c": 100}

    def test_preferences_and_required_affinity_of_others_count_towards_the_newcomer(self) -> None:
        required = pod(on="a", spec=PodSpec(pod_affinity=PodAffinity(required=(self.term(),))))
        preferring = pod(on="b", spec=PodSpec(pod_affinity=PodAffinity(preferred=(PreferredPodTerm(4, self.term()),))))
        newcomer = pod({"app": "web"})
        assert self.score(newcomer, [required, preferring]) == {"a": 25, "b": 100, "c": 0}
        assert self.score(newcomer, [required], Profile(hard_pod_affinity_weight=0)) is None
        assert self.score(newcomer, [required], Profile(ignore_preferred_of_existing=True)) is None

    def test_where_all_are_equal_all_get_nothing_and_without_terms_there_is_no_score(self) -> None:
        wishing = pod(spec=PodSpec(pod_affinity=PodAffinity(preferred=(PreferredPodTerm(10, self.term()),))))
        assert self.score(wishing, webs(a=1, b=1, c=1)) == {"a": 0, "b": 0, "c": 0}
        assert self.score(pod(), webs(a=1)) is None


class TestSpread:
    @pytest.mark.parametrize(
        ("max_skew", "counts", "expected"),
        [
            (1, (2, 1, 0, 3), (20, 60, 100, 0)),
            (2, (2, 1, 0, 3), (33, 66, 100, 16)),
            (3, (4, 3, 2, 1), (44, 66, 77, 100)),
        ],
    )
    def test_zones_score_by_their_count(
        self, max_skew: int, counts: tuple[int, ...], expected: tuple[int, ...]
    ) -> None:
        names = ["a", "b", "c", "d"]
        view = View(snapshot([node(n, {ZONE: n}) for n in names], webs(**dict(zip(names, counts, strict=True)))))
        scores = pod_topology_spread_score.score(soft(ZONE, max_skew=max_skew), view, names)
        assert scores == dict(zip(names, expected, strict=True))

    def test_pods_on_nodes_that_are_no_candidates_count_for_their_zone(self) -> None:
        nodes = [node("a1", {ZONE: "a"}), node("a2", {ZONE: "a"}), node("b1", {ZONE: "b"})]
        scores = pod_topology_spread_score.score(soft(ZONE), View(snapshot(nodes, webs(a2=2, b1=1))), ["a1", "b1"])
        # Two zones: a round(2 * ln 4) = 3, b round(ln 4) = 1.
        assert scores == {"a1": 33, "b1": 100}

    def test_by_host_name_each_node_counts_for_itself_whatever_its_label(self) -> None:
        nodes = [node("a", {HOSTNAME: "same"}), node("b", {HOSTNAME: "same"})]
        scores = pod_topology_spread_score.score(soft(HOSTNAME), View(snapshot(nodes, webs(a=2, b=1))), ["a", "b"])
        assert scores == {"a": 33, "b": 100}

    def test_a_candidate_without_a_key_gets_nothing(self) -> None:
        nodes = [node("a", {ZONE: "a"}), node("x")]
        assert pod_topology_spread_score.score(soft(ZONE), View(snapshot(nodes, webs(a=1))), ["a", "x"]) == {
            "a": 100,
            "x": 0,
        }

    def test_system_defaults_leave_no_node_out(self) -> None:
        nodes = [node("a", {ZONE: "a"}), node("x")]
        owner = Workload(
            group="", kind="ReplicationController", namespace="default", name="w", uid="u", selector=WEB, created=NOW
        )
        incoming = pod({"app": "web"})
        view = View(snapshot(nodes, webs(a=9), workloads=[owner]))
        assert pod_topology_spread_score.score(incoming, view, ["a", "x"]) is None
        services = [_service()]
        view = View(snapshot(nodes, webs(a=9), services=services))
        scores = pod_topology_spread_score.score(incoming, view, ["a", "x"])
        # a: round(9 * ln 4 + 2 + 9 * ln 4 + 4) = 31; x: round(2) by host name alone.
        assert scores == {"a": 100 * 2 // 31, "x": 100}

    def test_halves_are_rounded_up(self) -> None:
        assert pod_topology_spread_score._round_half_up(2.5) == 3
        assert pod_topology_spread_score._round_half_up(2.4999) == 2

    def test_nothing_counted_makes_all_equal(self) -> None:
        view = View(snapshot([node("a", {ZONE: "a"}), node("b", {ZONE: "b"})]))
        assert pod_topology_spread_score.score(soft(ZONE), view, ["a", "b"]) == {"a": 100, "b": 100}

    def test_without_soft_constraints_there_is_no_score(self) -> None:
        hard = pod({"app": "web"}, spec=PodSpec(spread=(spread(selects=WEB),)))
        assert pod_topology_spread_score.score(hard, View(snapshot([node("a")])), ["a"]) is None


def _service() -> Service:
    return Service(namespace="default", name="s", selector=Labels({"app": "web"}))


class TestTogether:
    def test_plugins_without_weight_do_not_score(self) -> None:
        view = View(snapshot([node("a"), node("b")]), Profile(weights={"ImageLocality": 1}))
        assert set(scores(pod(), view, ["a", "b"])) == {"ImageLocality"}

    def test_the_best_are_those_of_equal_highest_total(self) -> None:
        nodes: list[Node] = [node(name) for name in "abc"]
        big = pod(on="c", requests=Resources(cpu=10_000, memory=GIBI), scored=(10_000, GIBI))
        view = View(snapshot(nodes, [big]))
        assert best(pod(), view, view.nodes.names) == {"a", "b"}
        assert best(pod(), view, frozenset({"c"})) == {"c"}

    def test_the_best_of_any_sample_may_win_if_only_a_part_is_examined(self) -> None:
        """A sample has 100 of 130 nodes: one of 31 better ones at least, perhaps none of 30."""
        for busy, expected in ((99, 31), (100, 130)):
            load = [pod(on=f"n{number}", scored=(9999, GIBI)) for number in range(busy)]
            view = View(snapshot([node(f"n{number}") for number in range(130)], load))
            assert len(best(pod(), view, view.nodes.names)) == expected


def test_a_null_selector_is_scored_as_nobody() -> None:
    assert isinstance(WEB, LabelSelector)
    nobody = pod({"app": "web"}, spec=PodSpec(spread=(spread(soft=True, selects=None),)))
    view = View(snapshot([node("a", {ZONE: "a"}), node("b", {ZONE: "b"})], webs(a=5)))
    assert pod_topology_spread_score.score(nobody, view, ["a", "b"]) == {"a": 100, "b": 100}


def test_raw_scores_of_zero_are_all_the_best() -> None:
    """As kube-scheduler's: nothing is divided by zero, and no node is better than another."""
    assert pod_topology_spread_score.normalize_scores({"n1": 0, "n2": 0}) == {"n1": 100, "n2": 100}
    assert pod_topology_spread_score.normalize_scores({}) == {}
