"""Which domains without nodes are known: every node that a pool could create is made, and the model filters them."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.known_domains import DomainKnowledge, DomainSource, KnownDomain, NodeNeeds, known_for
from rebalancer.model.affinity import NodeSelectorTerm, Taint, Toleration
from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.moments import Clock
from rebalancer.model.moves import ZoneSeen
from rebalancer.scheduling.node_index import NodeIndex, RequiredAffinity
from rebalancer.scheduling.view import View
from tests.scheduling.build import HOSTNAME, NOW, ZONE, node, snapshot, taint

TEAM, CORES, POOL = "team", "karpenter.kwok.sh/instance-cpu", "karpenter.sh/nodepool"
VALUES = {ZONE: ("a", "b", "c"), TEAM: ("red", "blue"), CORES: ("1", "2", "3")}
FRESH = "nobody-names-this"
ANYWHERE = NodeNeeds(None, ())


def requirements(*keys: str) -> st.SearchStrategy[SelectorRequirement]:
    def of_key(key: str) -> st.SearchStrategy[SelectorRequirement]:
        some = st.sets(st.sampled_from(VALUES[key]), min_size=1).map(lambda drawn: tuple(sorted(drawn)))
        operators = [Operator.IN, Operator.NOT_IN]
        one = st.sampled_from(VALUES[key]).map(lambda value: (value,))
        drawn = [
            st.builds(SelectorRequirement, st.just(key), st.sampled_from(operators), some),
            st.builds(SelectorRequirement, st.just(key), st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
        ]
        if key == CORES:
            drawn.append(st.builds(SelectorRequirement, st.just(key), st.sampled_from([Operator.GT, Operator.LT]), one))
        return st.one_of(drawn)

    return st.sampled_from(keys).flatmap(of_key)


taints = st.lists(
    st.builds(
        taint, st.sampled_from(["dedicated", "gpu"]), st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
    ),
    max_size=2,
).map(tuple)
tolerations = st.lists(
    st.builds(Toleration, key=st.sampled_from(["dedicated", "gpu", ""]), operator=st.just("Exists")), max_size=1
).map(tuple)
pools = st.builds(
    NodePool,
    name=st.sampled_from(["general", "spot"]),
    labels=st.sampled_from([Labels(), Labels({TEAM: "red"})]),
    # Most pools name zones, or most examples would say nothing.
    requirements=st.tuples(
        st.sets(st.sampled_from(VALUES[ZONE]), min_size=2).map(
            lambda zones: SelectorRequirement(ZONE, Operator.IN, tuple(sorted(zones)))
        )
        | requirements(ZONE, TEAM, CORES),
        st.lists(requirements(ZONE, TEAM, CORES), max_size=3),
    ).map(lambda drawn: (drawn[0], *drawn[1])),
    taints=taints,
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements(ZONE, TEAM, CORES), max_size=3).map(tuple),
    st.lists(
        st.builds(
            SelectorRequirement,
            st.just("metadata.name"),
            st.sampled_from([Operator.IN, Operator.NOT_IN]),
            st.just(("node-1",)),
        ),
        max_size=1,
    ).map(tuple),
)
restricted = st.builds(
    RequiredAffinity,
    st.sampled_from(
        [Labels(), Labels({ZONE: "c"}), Labels({TEAM: "red"}), Labels({POOL: "spot"}), Labels({HOSTNAME: "node-1"})]
    ),
    st.none() | st.lists(terms, max_size=2).map(tuple),
)
affinities = st.one_of(restricted, restricted, restricted, st.none())
pods = st.builds(NodeNeeds, affinity=affinities, tolerations=tolerations)


def labels_of(free: Mapping[str, Iterable[str | None]], fixed: Mapping[str, str]) -> Iterable[Labels]:
    """Return every label set with the free keys present or absent, and the fixed ones as they are."""
    for drawn in product(*free.values()):
        yield Labels({**{key: value for key, value in zip(free, drawn, strict=True) if value is not None}, **fixed})


def is_taken(needs: NodeNeeds, candidates: Iterable[Labels], repelling: tuple[Taint, ...] = ()) -> bool:
    """Return whether the scheduler model admits the pod on one of these nodes."""
    made = (
        structs.replace(node(f"new-{number}", taints=repelling), labels=labels)
        for number, labels in enumerate(candidates)
    )
    index = NodeIndex(made)
    return bool(index.matching(needs.affinity) & index.tolerated(needs.tolerations))


def is_offered(pool: NodePool, value: str, needs: NodeNeeds) -> bool:
    """Return whether the pool names the zone, and some node that it could create there takes the pod."""
    if not any(
        requirement.key == ZONE and requirement.operator is Operator.IN and value in requirement.values
        for requirement in pool.requirements
    ):
        return False
    mentioned = {requirement.key for requirement in pool.requirements}
    free = {CORES: (None, *VALUES[CORES], "0", "4", "5", FRESH)}
    if TEAM in mentioned:  # a label of one's own is on a node only if the pool has it
        free[TEAM] = (None, *VALUES[TEAM], FRESH)
    fixed = {**pool.labels, POOL: pool.name, HOSTNAME: "new", ZONE: value}
    allowed = [
        labels
        for labels in labels_of(free, fixed)
        if all(r.matches(labels) for r in pool.requirements if r.key not in pool.labels)
    ]
    return is_taken(needs, allowed, pool.taints)


def knowledge(**fields: object) -> DomainKnowledge:
    return structs.replace(DomainKnowledge(clock=Clock(NOW), remember=timedelta(days=7)), **fields)


@given(st.lists(pools, max_size=3, unique_by=lambda pool: pool.name), pods, st.sets(st.sampled_from(VALUES[ZONE])))
@example(
    [NodePool(name="spot", requirements=(SelectorRequirement(ZONE, Operator.IN, ("a", "b", "c")),))],
    ANYWHERE,
    {"a", "b"},
)
def test_a_zone_of_a_node_pool_is_known_exactly_if_one_of_its_possible_nodes_takes_the_pod(
    drawn: list[NodePool], needs: NodeNeeds, present: set[str]
) -> None:
    """With the pools that offer it, and without the zones that count already."""
    known = knowledge(pools=drawn).domains_without_nodes(ZONE, needs, sorted(present), present)
    offers = {
        value: tuple(sorted(pool.name for pool in drawn if is_offered(pool, value, needs))) for value in VALUES[ZONE]
    }
    assert {domain.value: domain.pools for domain in known} == {
        value: names for value, names in offers.items() if names and value not in present
    }
    assert {domain.source for domain in known} <= {DomainSource.NODE_POOL}


@given(st.sets(st.sampled_from(VALUES[ZONE])), pods, st.sets(st.sampled_from(VALUES[ZONE])))
def test_a_declared_zone_is_known_unless_nodes_carry_it_or_the_pod_excludes_it(
    declared: set[str], needs: NodeNeeds, carried: set[str]
) -> None:
    """Of its nodes nothing is known but the zone, so that any other label may be as the pod requires."""
    known = knowledge(declared={ZONE: declared}).domains_without_nodes(ZONE, needs, sorted(carried), ())
    free = {
        TEAM: (None, *VALUES[TEAM], FRESH),
        CORES: (None, *VALUES[CORES], "0", "4", "5", FRESH),
        POOL: (None, "spot"),
        HOSTNAME: ("node-1", "new"),
    }
    tolerant = needs._replace(tolerations=())
    expected = {value for value in declared - carried if is_taken(tolerant, labels_of(free, {ZONE: value}))}
    assert {domain.value for domain in known} == expected


ages = st.integers(0, 14 * 24).map(lambda hours: timedelta(hours=hours))


@given(st.dictionaries(st.sampled_from(VALUES[ZONE]), ages), ages, st.sets(st.sampled_from(VALUES[ZONE])))
def test_a_zone_is_remembered_for_as_long_as_the_policy_says(
    seen: dict[str, timedelta], remember: timedelta, ignored: set[str]
) -> None:
    zones = [ZoneSeen(ZONE, value, NOW - age) for value, age in seen.items()]
    known = knowledge(seen=zones, remember=remember, ignored={ZONE: ignored})
    rows = known.domains_without_nodes(ZONE, ANYWHERE, ["z", "z"], {"z"})
    assert {row.value: row.last_seen for row in rows} == {
        value: NOW - age for value, age in seen.items() if age < remember and value not in ignored
    }
    assert not any(row.counts for row in rows), "limits do not count what may be gone for good"


def test_the_best_evidence_is_reported() -> None:
    """A declaration before a NodePool, a NodePool before the memory; what the policy ignores is not there at all."""
    pool = NodePool(name="general", requirements=(SelectorRequirement(ZONE, Operator.IN, ("b", "c", "d")),))
    known = knowledge(
        declared={ZONE: ["c"]},
        ignored={ZONE: ["e", "d"]},
        pools=[pool],
        seen=[ZoneSeen(ZONE, value, NOW) for value in "abcde"],
    )
    assert known.domains_without_nodes(ZONE, ANYWHERE, [], ()) == (
        KnownDomain(value="a", source=DomainSource.REMEMBERED, last_seen=NOW),
        KnownDomain(value="b", source=DomainSource.NODE_POOL, pools=("general",)),
        KnownDomain(value="c", source=DomainSource.DECLARED),
    )


@pytest.mark.parametrize(
    ("key", "carried", "domains"),
    [
        (HOSTNAME, ["n1"], 0),
        ("rack", ["r1", "r2"], 0),
        ("rack", ["r1", "r1", "r2"], 1),
        ("rack", [], 1),
        (ZONE, ["a", "b"], 1),
        ("failure-domain.beta.kubernetes.io/zone", ["a", "b"], 1),
        ("my-zone", ["a", "b"], 1),
    ],
)
def test_no_domain_is_missing_where_every_domain_is_a_node(key: str, carried: list[str], domains: int) -> None:
    """A zone is a zone even where it has one node; so is what a group of the policy counts as one."""
    known = knowledge(declared={key: ["c"]}, zone_keys=frozenset({"my-zone"}))
    assert len(known.domains_without_nodes(key, ANYWHERE, carried, ())) == domains


def test_a_zone_whose_nodes_are_not_for_the_pod_is_missing_only_where_a_pool_makes_others() -> None:
    """That the zone of a cluster is declared, or was seen, says nothing about nodes of this kind."""
    pool = NodePool(name="gpu", requirements=(SelectorRequirement(ZONE, Operator.IN, ("c",)),))
    elsewhere = knowledge(declared={ZONE: ["c"]}, seen=[ZoneSeen(ZONE, "c", NOW)])
    assert not elsewhere.domains_without_nodes(ZONE, ANYWHERE, ["a", "c"], {"a"})
    assert structs.replace(elsewhere, pools=[pool]).domains_without_nodes(ZONE, ANYWHERE, ["a", "c"], {"a"})


@pytest.mark.parametrize(
    ("key", "offered"),
    [
        ("kubernetes.io/arch", True),
        ("node.kubernetes.io/instance-type", True),
        ("karpenter.azure.com/sku-cpu", True),
        ("topology.k8s.aws/zone-id", True),
        ("eks.amazonaws.com/instance-category", True),
        ("example.com/team", False),
        ("notkubernetes.io/team", False),
        ("team", False),
    ],
)
def test_labels_that_clouds_set_may_have_any_value_and_others_are_only_those_of_the_pool(
    key: str, offered: bool
) -> None:
    pool = NodePool(name="general", requirements=(SelectorRequirement(ZONE, Operator.IN, ("c",)),))
    needs = NodeNeeds(RequiredAffinity(Labels({key: "x"}), None), ())
    assert bool(knowledge(pools=[pool]).domains_without_nodes(ZONE, needs, [], ())) is offered


def test_of_several_pods_each_domain_has_the_best_evidence_for_any_of_them() -> None:
    """A pool offers zone c to one of two pods; the other excludes zone d, which is declared."""
    pool = NodePool(
        name="red", labels=Labels({TEAM: "red"}), requirements=(SelectorRequirement(ZONE, Operator.IN, ("c",)),)
    )
    known = knowledge(declared={ZONE: ["d"]}, pools=[pool], seen=[ZoneSeen(ZONE, "c", NOW)])
    red = NodeNeeds(RequiredAffinity(Labels({TEAM: "red"}), None), ())
    blue = NodeNeeds(RequiredAffinity(Labels({TEAM: "blue", ZONE: "c"}), None), ())
    view = View(snapshot([node("n1", {ZONE: "a"})]))

    def sources(*pods: NodeNeeds) -> dict[str, DomainSource]:
        domains = known_for(known, ZONE, frozenset(pods), view, {"a"})
        return {value: domain.source for value, domain in domains.items()}

    assert sources(blue) == {"c": DomainSource.REMEMBERED}
    assert sources(red) == sources(blue, red) == {"c": DomainSource.NODE_POOL, "d": DomainSource.DECLARED}
