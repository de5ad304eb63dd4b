"""Supposed states: cheap, and equal to the state built from scratch."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, Toleration
from rebalancer.model.labels import LabelSelector
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling import view as view_module
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.inter_pod_affinity import find_repelled_values
from rebalancer.scheduling.pod_topology_spread import PodTopologySpread
from rebalancer.scheduling.view import View
from tests.scheduling.build import NOW, changed, node, pod, selector, snapshot, spread

WEB = selector(app="web") or LabelSelector()


def cluster() -> Snapshot:
    return snapshot([node("a"), node("b")], [pod({"app": "web"}, on="a", name=f"w{i}") for i in range(3)])


def test_a_pod_that_is_gone_counts_nowhere() -> None:
    made = cluster()
    view = View(made)
    fewer = view.without(made.pods[:2])
    assert fewer.live("default", WEB) == {"a": 1}
    assert fewer.where(made.pods[0]) is None
    assert [other.name for other in fewer.pods_on("a")] == ["w2"]
    assert view.live("default", WEB) == {"a": 3}


def test_a_terminating_pod_is_present_but_does_not_count_for_spread() -> None:
    made = cluster()
    ending = View(made).terminating(made.pods[:1])
    assert ending.live("default", WEB) == {"a": 2}
    assert ending.present("default", WEB) == {"a": 3}
    assert len(ending.pods_on("a")) == 3


def test_a_placed_pod_counts_where_it_was_put_and_nowhere_else() -> None:
    made = cluster()
    view = View(made).with_placed(made.pods[0], "b").with_placed(pod({"app": "web"}, name="new"), "b")
    assert view.live("default", WEB) == {"a": 2, "b": 2}
    back = view.with_placed(made.pods[0], "a")
    assert back.live("default", WEB) == {"a": 3, "b": 1}


def test_a_terminating_pod_of_the_snapshot_can_leave() -> None:
    dying = pod({"app": "web"}, on="a", deleted=NOW)
    view = View(snapshot([node("a")], [dying]))
    assert view.present("default", WEB) == {"a": 1}
    assert view.without([dying]).present("default", WEB) == {}


def test_the_filter_follows_the_state() -> None:
    made = cluster()
    incoming = pod({"app": "web"}, spec=PodSpec(spread=(spread("kubernetes.io/hostname", selects=WEB),)))
    view = View(made)
    assert PodTopologySpread(incoming, view).admit(view.nodes.names) == {"b"}
    balanced = view.without(made.pods)
    assert PodTopologySpread(incoming, balanced).admit(view.nodes.names) == {"a", "b"}


def test_a_node_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KeyError, match="node 'nowhere' not found"):
        View(cluster()).with_placed(pod(), "nowhere")


def test_many_moves_settle_without_a_visible_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "SETTLE_AFTER", 4)
    made = cluster()
    view = View(made).terminating(made.pods[:1])
    for number in range(12):
        view = view.with_placed(pod({"app": "web"}, name=f"n{number}"), "b")
    assert view.live("default", WEB) == {"a": 2, "b": 12}
    assert view.present("default", WEB) == {"a": 3, "b": 12}
    assert changed(made.pods[0]).uid in {placed.pod.uid for placed in view.placed_pods()}


def test_label_sets_are_found_of_pods_that_are_not_terminating() -> None:
    """Each once; none in a namespace without pods."""
    placed = [pod({"app": "web", "n": name}, on="a") for name in ("1", "1", "2")]
    view = View(snapshot([node("a")], [*placed, pod({"app": "web", "n": "3"}, on="a", deleted=NOW)]))
    assert [labels["n"] for labels in view.find_label_sets("default", WEB)] == ["1", "2"]
    assert [*view.find_label_sets("elsewhere", WEB)] == []


def test_anti_affinity_is_found_whatever_its_selector_requires() -> None:
    """By a label that it names; one that names none may mean any pod, and the null selector none."""
    web, other = pod({"app": "web"}), pod({"app": "other"})
    for written, of_web, of_other in (
        ({"matchLabels": {"app": "web"}}, True, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False, True),
        ({}, True, True),
        (None, False, False),
    ):
        selects = selector(written) if written is not None else None
        term = PodAffinityTerm(topology_key="kubernetes.io/hostname", selector=selects)
        guard = pod({"app": "guard"}, on="a", spec=PodSpec(pod_affinity=PodAffinity(anti_required=(term,))))
        view = View(snapshot([node("a"), node("b")], [guard]))
        assert [
            bool(find_repelled_values(present, view).get("kubernetes.io/hostname")) for present in (web, other)
        ] == [of_web, of_other]


def test_nodes_that_are_gone_are_no_domains() -> None:
    """Neither they nor the pods on them count, and nothing can be placed there."""
    made = cluster()
    view = View(made).without_nodes(["a"])
    assert view.nodes.names == {"b"}
    assert view.live("default", WEB) == {}
    incoming = pod({"app": "web"}, spec=PodSpec(spread=(spread("kubernetes.io/hostname", selects=WEB),)))
    assert feasible(incoming, view) == {"b"}
    assert feasible(incoming, View(made)) == {"b"}
    with pytest.raises(KeyError, match="node 'a' not found"):
        view.with_placed(incoming, "a")


def test_silent_nodes_are_domains_that_hold_and_take_nothing() -> None:
    """Their pods are gone, their domains are not; what tolerates all taints does not come either."""
    view = View(cluster()).with_unreachable(["a"])
    assert view.nodes.names == {"a", "b"}
    assert view.live("default", WEB) == {}
    assert not view.nodes.by_name["a"].ready
    bearing = PodSpec(tolerations=(Toleration(operator="Exists"),))
    whole = View(cluster())
    assert feasible(pod({"app": "web"}, spec=bearing), whole) == {"a", "b"}
    assert feasible(pod({"app": "web"}, spec=bearing), whole.with_unreachable(["b"])) == {"a"}
    assert feasible(pod({"app": "web"}, spec=bearing), view) == {"b"}
    assert feasible(pod({"app": "web"}), view) == {"b"}
    even = PodSpec(spread=(spread("kubernetes.io/hostname", selects=WEB),))
    first = pod({"app": "web"}, spec=even)
    assert feasible(first, view) == {"b"}
    assert feasible(pod({"app": "web"}, name="second", spec=even), view.with_placed(first, "b")) == frozenset()


def test_states_without_the_same_pods_are_one() -> None:
    """The last one is kept, but not for a state of another time or with other nodes."""
    made = cluster()
    view, gone = View(made), made.pods[:2]
    without = view.without(gone)
    assert view.without(iter(gone)) is without
    assert view.without(made.pods[2:]).live("default", WEB) == {"a": 2}
    assert view.without(made.pods).live("default", WEB) == {}
    assert view.without_nodes(["a"]).nodes.names == {"b"}
    assert view.without(made.pods).nodes is view.nodes
    moment = NOW + timedelta(seconds=60)
    assert view.at(moment).without(made.pods).snapshot.taken_at == moment


def test_scores_of_many_kinds_of_pods_are_not_all_stored() -> None:
    """The last 64 are: a score is computed again only where 64 others came between."""
    view, computed = View(snapshot([node("a")])), list[int]()

    def score(number: int) -> Mapping[str, int]:
        def compute(_: View, nodes: Sequence[str]) -> Mapping[str, int]:
            computed.append(number)
            return dict.fromkeys(nodes, number)

        return view.scored_nodes(number, compute)

    assert [score(number) for number in range(65)] == [{"a": number} for number in range(65)]
    assert [score(number)["a"] for number in (1, 64, 0)] == [1, 64, 0]
    assert computed == [*range(65), 0]


def test_the_state_without_more_pods_than_deltas_are_kept_for_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted anew; what moves after that moves from there, and pods that have moved before are gone, too."""
    made = cluster()
    by_deltas = View(made).without(made.pods[:2])
    monkeypatch.setattr(view_module, "SETTLE_AFTER", 1)
    anew = View(made).without(made.pods[:2])
    assert not anew.changes_on
    assert anew.live("default", WEB) == by_deltas.live("default", WEB) == {"a": 1}
    assert anew.used("a") == by_deltas.used("a")
    assert [other.name for other in anew.pods_on("a")] == ["w2"]
    back = anew.with_placed(made.pods[0], "b")
    assert back.live("default", WEB) == {"a": 1, "b": 1}
    assert back.without(made.pods[:2]).live("default", WEB) == {"a": 1}
