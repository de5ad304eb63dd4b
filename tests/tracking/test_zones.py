"""Which domains are stored between cycles, and for how long."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.motion import NodeChange, NodeEvent
from rebalancer.model.moves import NO_MEMORY, Memory, ZoneSeen
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import (
    Limit,
    PolicyGroup,
    Selector,
    TeamPolicies,
    TeamReading,
    Topology,
    default_policy,
    load_team_policy,
    merge,
)
from rebalancer.tracking.zones import ZONE_LIFETIME, zones_seen
from tests.scheduling.build import HOSTNAME, NOW, ZONE, node, snapshot

TEAM = "apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\n"
NO_GROUPS = default_policy().model_copy(update={"groups": ()})


def stored(of: Snapshot, *keys: str, memory: Memory = NO_MEMORY) -> list[tuple[str, str]]:
    return [(zone.key, zone.zone) for zone in zones_seen(memory, of, NO_GROUPS, keys, NOW)]


def test_the_domains_of_every_key_in_use_are_stored_but_nodes_are_not() -> None:
    """A rack of two nodes is a domain; where each rack is one node, its loss is the loss of a node."""
    two = snapshot([node("n1", {ZONE: "a", "rack": "r"}), node("n2", {ZONE: "b", "rack": "r"})])
    assert stored(two, ZONE, "rack", HOSTNAME) == [("rack", "r"), (ZONE, "a"), (ZONE, "b")]
    alone = snapshot([node("n1", {ZONE: "a", "rack": "r"}), node("n2", {ZONE: "b", "rack": "s"})])
    assert stored(alone, ZONE, "rack", HOSTNAME) == [(ZONE, "a"), (ZONE, "b")]


def test_the_zone_keys_of_the_policy_come_first_and_of_others_at_most_twenty_are_stored() -> None:
    """Any template may name a key, and the memory has to stay small."""
    keys = [f"key-{number:02}" for number in range(30)]
    labels = {**dict.fromkeys(keys, "x"), "zone-of-ours": "a"}
    group = PolicyGroup(name="g", selector=Selector(), zone_key="zone-of-ours")
    policy = NO_GROUPS.model_copy(update={"groups": (group,)})
    seen = zones_seen(NO_MEMORY, snapshot([node("n1", labels), node("n2", labels)]), policy, keys, NOW)
    assert [zone.key for zone in seen] == [*keys[:19], "zone-of-ours"]


def test_keys_of_teams_and_templates_displace_none_of_the_cluster_policy() -> None:
    """Keys that no node has take no place, and of the others those of the cluster policy's own limits come first."""
    real = [f"a-{number:02}" for number in range(20)]
    labels = {**dict.fromkeys(real, "x"), "rack": "r", ZONE: "a"}
    limit = Limit(name="racks", topology_key="rack", max_pods=9)
    policy = NO_GROUPS.model_copy(update={"groups": (PolicyGroup(name="own", selector=Selector(), limits=(limit,)),)})
    missing = [f"0-{number:02}" for number in range(20)]
    limits = "".join(f"  - {{name: l{key}, topologyKey: {key}, maxPods: 9}}\n" for key in [*real, *missing])
    team = load_team_policy(f"{TEAM}groups:\n- name: t\n  selector: {{}}\n  limits:\n{limits}".encode(), source="t")
    listing = policy.model_copy(update={"team_policies": TeamPolicies(namespaces=("shop",))})
    merged = merge(listing, {"shop": TeamReading(policy=team)}).policy
    nodes = snapshot([node("n1", labels), node("n2", labels)])
    seen = {zone.key for zone in zones_seen(NO_MEMORY, nodes, merged, ["rack", *real, *missing], NOW)}
    assert seen == {ZONE, "rack", *real[:18]}
    lost = Memory(zones=(ZoneSeen("rack", "r", NOW),))
    bare = snapshot([node("n1", {ZONE: "a"})])
    assert {zone.key for zone in zones_seen(lost, bare, merged, ["rack", *real], NOW)} == {ZONE, "rack"}


@given(st.integers(0, 400).map(lambda hours: timedelta(hours=hours)), st.integers(0, 400))
def test_a_domain_is_stored_as_long_as_something_reads_it(remember: timedelta, hours: int) -> None:
    """An hour for `when.zones`, and for as long as it is reported."""
    policy = NO_GROUPS.model_copy(update={"topology": Topology(remember=remember)})
    age = timedelta(hours=hours)
    memory = Memory(zones=(ZoneSeen(ZONE, "c", NOW - age),))
    seen = {
        zone.zone: zone.last for zone in zones_seen(memory, snapshot([node("n1", {ZONE: "a"})]), policy, [ZONE], NOW)
    }
    assert seen == {"a": NOW, **({"c": NOW - age} if age < max(remember, ZONE_LIFETIME) else {})}


def test_a_zone_in_which_only_a_node_just_relabelled_stands_is_not_stored_yet() -> None:
    """A label that was wrong for seconds would count as a zone for an hour after it; without a change it is one."""
    nodes = snapshot([node("n1", {ZONE: "a"}), node("n2", {ZONE: "mistake"}), node("n3")])
    changed = Memory(node_changes=(NodeChange(NOW - timedelta(seconds=20), "n2", NodeEvent.RELABELLED, ZONE, "a"),))
    assert stored(nodes, ZONE, memory=changed) == [(ZONE, "a")]
    other = Memory(node_changes=(NodeChange(NOW - timedelta(seconds=20), "n2", NodeEvent.UNCORDONED),))
    assert stored(nodes, ZONE, memory=other) == [(ZONE, "a"), (ZONE, "mistake")]
