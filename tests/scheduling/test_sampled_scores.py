"""Candidates in a large cluster, against the samples that a played search draws."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm
from rebalancer.model.cluster import Version
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.pods import Pod, PodSpec, Resources
from rebalancer.model.spread import SpreadConstraint
from rebalancer.scheduling import sampled_scores
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.sampled_scores import best_of_samples
from rebalancer.scheduling.sampling import Search, chunk_size, prepare_search, zone_of
from rebalancer.scheduling.scoring import SCORERS, best, scores, totals
from rebalancer.scheduling.tie_breaking import find_top
from rebalancer.scheduling.view import View
from tests.drawing import scaled
from tests.fidelity.offline import decoded
from tests.fidelity.scenes import FAMILIES, scene
from tests.scheduling.build import HOSTNAME, PLENTY, ZONE, node, pod, selector, snapshot, spread, taint
from tests.scheduling.sampled_search import draw_sample, take_turns

WEB = selector(app="web")


def winners(newcomer: Pod, view: View, search: Search, chunk: int, random: Random) -> Iterator[frozenset[str]]:
    """Yield the top-scoring nodes of samples, each of another order of nodes and another start."""
    admitted = feasible(newcomer, view)
    zones: dict[tuple[str, str], list[str]] = {}
    for made in view.nodes.by_name.values():
        zones.setdefault(zone_of(made), []).append(made.name)
    while True:
        order = random.sample(sorted(zones), len(zones))
        listed = take_turns([random.sample(zones[zone], len(zones[zone])) for zone in order])
        start = random.randrange(len(listed))
        is_feasible = {name: name in admitted for name in listed}
        listed = listed[start:] + listed[:start]
        sample = sorted(draw_sample(listed, is_feasible, search.enough, chunk, search.workers, random))
        yield find_top(totals(scores(newcomer, view, sample), view, sample)) if len(sample) > 1 else frozenset(sample)


def zones_of(view: View) -> tuple[int, ...]:
    return prepare_search(pod(), view).zones


def test_a_pod_that_names_more_nodes_than_are_scored_has_candidates() -> None:
    """The nodes that it names are listed in any order, whatever their zones."""
    made = [node(f"n{number}", {ZONE: "abc"[number % 3]}) for number in range(200)]
    terms = [
        NodeSelectorTerm(fields=(SelectorRequirement("metadata.name", Operator.IN, (f"n{number}",)),))
        for number in range(150)
    ]
    affinity = NodeAffinity(required=tuple(terms))
    soft = spread(ZONE, soft=True, selects=WEB)
    prediction = predict(
        pod({"app": "web"}, spec=PodSpec(node_affinity=affinity, spread=(soft,))), View(snapshot(made))
    )
    assert prediction.sampled
    assert prediction.candidates == {f"n{number}" for number in range(150)}


def test_the_highest_of_any_sample_is_a_candidate() -> None:
    """Small clusters with everything that is scored, of which a part is sampled."""
    random = Random(1)
    cases = fewer = 0
    for seed in range(scaled(400)):
        state, newcomers = decoded(scene(seed, family=random.choice(FAMILIES), newcomers=3))
        view = View(replace(state, version=random.choice((Version(1, 33), Version(1, 37)))))
        for newcomer in newcomers:
            admitted = feasible(newcomer, view)
            if len(admitted) < 2:
                continue
            enough = random.randint(max(1, len(admitted) - random.choice((1, 2, 5))), len(admitted) - 1)
            chunk = random.randint(1, 4)
            workers = min(random.randint(1, 3), -(-len(state.nodes) // chunk))
            search = Search(enough, workers, zones_of(view))
            candidates = best_of_samples(newcomer, view, admitted, search)
            assert candidates
            for _, top in zip(range(20), winners(newcomer, view, search, chunk, random), strict=False):
                assert top <= candidates, (seed, newcomer.name, search, chunk)
            cases += 1
            fewer += len(candidates) < len(admitted)
    print(f"{cases} pods, fewer candidates than feasible nodes for {fewer}")
    assert min(cases - fewer, fewer) > scaled(100)


def test_the_highest_of_any_sample_is_a_candidate_whatever_domains_it_has() -> None:
    """Zones of very unequal size, of which a sample may lack one: the number of domains changes the weights."""
    random = Random(7)
    cases = 0
    for _ in range(scaled(600)):
        sizes = random.choice(((6, 1, 1), (5, 2, 1), (4, 4, 1), (6, 2)))
        made = [node(f"{zone}{number}", {ZONE: str(zone)}) for zone, size in enumerate(sizes) for number in range(size)]
        pods = [pod({"app": "web"}, on=random.choice(made).name) for _ in range(random.randint(3, 25))]
        constraints = (
            spread(ZONE, soft=True, selects=WEB),
            spread(HOSTNAME, random.choice((1, 3)), soft=True, selects=WEB),
        )
        view, newcomer = View(snapshot(made, pods)), pod({"app": "web"}, spec=PodSpec(spread=constraints))
        search = Search(random.randint(3, len(made) - 1), random.randint(1, 3), zones_of(view))
        candidates = best_of_samples(newcomer, view, view.nodes.names, search)
        for _, top in zip(range(10), winners(newcomer, view, search, 2, random), strict=False):
            assert top <= candidates
        cases += len(candidates) < len(made)
    print(f"600 pods, fewer candidates than nodes for {cases}")
    assert cases > 100


def mixed_cluster(random: Random, nodes: int) -> tuple[View, Pod]:
    """Return a large cluster, nodes and pods of several shapes, and a pod with soft constraints and preferences."""
    zones = random.choice(("abc", "abc", "ab", "abcd"))
    weights = random.choice((None, [3, 2, 2, 1][: len(zones)]))
    shapes = [PLENTY, Resources(cpu=16_000, memory=2**36, ephemeral_storage=2**38)][: random.choice((1, 2))]
    made = [
        node(
            f"n{number:04}",
            {ZONE: random.choices(zones, weights)[0] if weights else zones[number % len(zones)]},
            allocatable=random.choice(shapes),
            unschedulable=random.random() < cordoned,
            taints=(taint("soft", "PreferNoSchedule"),) if random.random() < tainted else (),
        )
        for cordoned, tainted in [(random.choice((0, 0.05, 0.3)), random.choice((0, 0, 0.2)))]
        for number in range(nodes)
    ]
    empty = random.choice(zones)
    size = Resources(cpu=random.choice((100, 4_000)), memory=random.choice((2**28, 2**33)))
    pods = [
        pod(
            {"app": random.choice(("web", "web", "other"))},
            on=target.name,
            requests=size,
            scored=(size.cpu, size.memory),
        )
        for target in random.choices(made, k=random.choice((30, nodes, 3 * nodes)))
        if target.labels[ZONE] != empty or random.random() < 0.1
    ]
    choices: list[tuple[SpreadConstraint, ...]] = [
        (spread(ZONE, soft=True, selects=WEB),),
        (spread(HOSTNAME, soft=True, selects=WEB),),
        (spread(ZONE, 2, soft=True, selects=WEB), spread(HOSTNAME, soft=True, selects=WEB)),
    ]
    spec = PodSpec(spread=random.choice(choices), requests=size, scored=(size.cpu, size.memory))
    return View(snapshot(made, pods)), pod({"app": "web"}, spec=spec)


def test_the_highest_of_any_sample_of_a_large_cluster_is_a_candidate() -> None:
    """102 to 400 nodes, and the scheduler's own numbers: candidates are often in one zone, and then for certain."""
    random = Random(4)
    cases = fewer = certain = 0
    for _ in range(150):
        nodes = random.choice((102, 150, 160, 300, 400))
        view, newcomer = mixed_cluster(random, nodes)
        admitted, search = feasible(newcomer, view), prepare_search(newcomer, view)
        if len(admitted) <= search.enough:
            continue
        candidates = best(newcomer, view, admitted)
        played = winners(newcomer, view, search, chunk_size(nodes, 16), random)
        for _, top in zip(range(8), played, strict=False):
            assert top <= candidates
        cases += 1
        fewer += len(candidates) < len(admitted)
        certain += len({view.nodes.by_name[name].labels[ZONE] for name in candidates}) == 1
    print(f"{cases} pods, fewer candidates than feasible nodes for {fewer}, one zone for {certain}")
    assert min(fewer, certain) > cases // 3


def test_a_supposed_state_has_the_candidates_of_the_same_state_observed() -> None:
    """Pods that move change what their nodes score, and nothing else is scored again."""
    random = Random(5)
    for _ in range(10):
        view, newcomer = mixed_cluster(random, 150)
        best(newcomer, view, feasible(newcomer, view))
        moved = random.sample(view.snapshot.pods, 10)
        places = {one.uid: random.choice(sorted(view.nodes.names)) for one in moved}
        supposed = view
        for one in moved:
            supposed = supposed.with_placed(one, places[one.uid])
        pods = [structs.replace(one, node=places.get(one.uid, one.node)) for one in view.snapshot.pods]
        observed = View(snapshot(view.snapshot.nodes, pods))
        names = feasible(newcomer, observed)
        assert best(newcomer, supposed, names) == best(newcomer, observed, names)


def thirds(nodes: int, held: Sequence[int]) -> View:
    """Return a cluster of three equal zones with so many pods each, on different nodes."""
    made = [node(f"n{number}", {ZONE: "abc"[number % 3], "rack": f"r{number % 70}"}) for number in range(nodes)]
    pods = [
        pod({"app": "web"}, on=f"n{3 * number + zone}")
        for zone, several in enumerate(held)
        for number in range(several)
    ]
    return View(snapshot(made, pods))


def test_every_plugin_that_scores_is_known() -> None:
    """A plugin that is left out would make candidates of the wrong nodes."""
    assert {*sampled_scores.ALONE, *sampled_scores.SCALED, sampled_scores.SPREAD, sampled_scores.VOLUMES} == set(
        SCORERS
    )


class TestCandidates:
    @pytest.mark.parametrize("nodes", [150, 300, 1000, 5000])
    def test_an_empty_zone_is_certain_to_a_soft_constraint(self, nodes: int) -> None:
        view = thirds(nodes, (10, 10, 0))
        soft = pod({"app": "web"}, spec=PodSpec(spread=(spread(ZONE, soft=True, selects=WEB),)))
        prediction = predict(soft, view)
        assert prediction.sampled
        assert prediction.certain == {ZONE: "c"}
        assert len(prediction.candidates) == nodes // 3
        assert prediction.likely in prediction.candidates

    def test_where_too_few_nodes_of_the_best_zone_are_open_any_zone_may_be_chosen(self) -> None:
        made = [
            node(f"n{number}", {ZONE: "abc"[number % 3]}, unschedulable=number % 3 == 2 and number > 12)
            for number in range(210)
        ]
        busy = [pod({"app": "web"}, on=f"n{number}") for number in range(12) if number % 3 < 2]
        soft = pod({"app": "web"}, spec=PodSpec(spread=(spread(ZONE, soft=True, selects=WEB),)))
        prediction = predict(soft, View(snapshot(made, busy)))
        assert prediction.sampled
        assert {name: prediction.node[name].feasible for name in prediction.candidates} == dict.fromkeys(
            prediction.candidates, True
        )
        assert prediction.certain == {}

    def test_nodes_that_take_no_part_in_the_score_make_every_node_a_candidate(self) -> None:
        view = thirds(150, (10, 10, 0))
        bare = View(snapshot([*view.snapshot.nodes, node("bare")], view.snapshot.pods))
        soft = pod({"app": "web"}, spec=PodSpec(spread=(spread(ZONE, soft=True, selects=WEB),)))
        assert best(soft, bare, bare.nodes.names) == bare.nodes.names

    def test_too_many_domains_make_every_node_a_candidate(self) -> None:
        view = thirds(300, (10, 10, 0))
        soft = pod({"app": "web"}, spec=PodSpec(spread=(spread("rack", soft=True, selects=WEB),)))
        assert best(soft, view, view.nodes.names) == view.nodes.names

    def test_too_many_cases_make_every_node_a_candidate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        view = thirds(300, (10, 10, 0))
        soft = pod({"app": "web"}, spec=PodSpec(spread=(spread(ZONE, soft=True, selects=WEB),)))
        assert best(soft, view, view.nodes.names) < view.nodes.names
        monkeypatch.setattr(sampled_scores, "MOST_TOTALS", 1)
        assert best(soft, view, view.nodes.names) == view.nodes.names

    @pytest.mark.parametrize(
        "profile",
        [
            Profile(default_constraints=()),
            Profile(filters_off=frozenset({"PodTopologySpread"}), weights={"NodeResourcesFit": 1}),
        ],
    )
    def test_a_pod_that_may_follow_an_equal_one_may_get_a_node_of_its_sample(self, profile: Profile) -> None:
        """Pods that no spread constraint concerns take the next node of the sample of the pod before them."""
        view = thirds(150, (0, 0, 0))
        idle = snapshot(view.snapshot.nodes, [pod(on=f"n{number}", scored=(9999, 1)) for number in range(90)])
        assert best(pod(), View(idle, profile), view.nodes.names) == view.nodes.names
        assert len(best(pod(), View(idle), view.nodes.names)) < 150
        # The sample of the first one may have been incomplete, even if fewer nodes are feasible by now.
        few = frozenset(f"n{number}" for number in range(60, 120))
        assert best(pod(), View(idle, profile), few) == few
        assert len(best(pod(), View(idle), few)) == 30

    def test_where_all_nodes_are_scored_a_pod_that_follows_an_equal_one_lands_as_it_would_alone(self) -> None:
        nodes = [node(f"n{number}") for number in range(90)]
        view = View(snapshot(nodes, [pod(on="n0", scored=(9999, 1))]), Profile(default_constraints=()))
        assert len(best(pod(), view, view.nodes.names)) == 89
        assert len(predict(pod(), view).candidates) == 89

    def test_plugins_without_weight_do_not_score(self) -> None:
        busy = snapshot(thirds(150, (0, 0, 0)).snapshot.nodes, [pod(on="n0", scored=(9999, 1))])
        view = View(busy, Profile(weights={"ImageLocality": 1}))
        assert best(pod(), view, view.nodes.names) == view.nodes.names
