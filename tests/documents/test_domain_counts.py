"""Counts in documents: they grow with pods, and no number is lost."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.documents.document import to_json
from rebalancer.documents.domain_counts import FEW, list_counts
from rebalancer.documents.phrases import counts_change
from rebalancer.documents.plan import plan_document
from rebalancer.engine import evaluate
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.pod_topology_spread import DomainCounts
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster
from tests.controller.simulated import eager
from tests.reports import full_report

COUNTS = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.integers(0, 3), max_size=40)


@given(COUNTS, COUNTS)
def test_every_pod_and_every_domain_is_accounted_for(counts: dict[str, int], later: dict[str, int]) -> None:
    """What is not listed is empty, before and after; the lists and their number make up all domains."""
    after = {name: later.get(name, 0) for name in counts}
    filled = {name: count for name, count in counts.items() if count}
    sparse = DomainCounts(dict.fromkeys(counts, frozenset[str]()), filled)
    for given_counts in (counts, sparse):
        listed = list_counts(given_counts, after)
        assert len(listed.before) + listed.empty == len(counts)
        assert sum(listed.before.values()) == sum(counts.values())
        assert sum(listed.after.values()) == sum(after.values())
        assert len(counts) <= FEW or all(listed.before[name] or listed.after[name] for name in listed.before)
        assert len(counts) > FEW or listed.empty == 0
        assert counts_change(given_counts, after) == counts_change(counts, after)


@given(COUNTS, st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.integers(-3, 3), max_size=9))
def test_changed_counts_are_those_of_a_full_list(counts: dict[str, int], changes: dict[str, int]) -> None:
    """Domains without pods need no entry, before or after."""
    filled = {name: count for name, count in counts.items() if count}
    changed = DomainCounts(dict.fromkeys(counts, frozenset[str]()), filled).change(changes)
    assert dict(changed) == {name: max(0, count + changes.get(name, 0)) for name, count in counts.items()}
    assert all(changed.filled.values())


def shop(nodes: int) -> Snapshot:
    """Four workloads of six pods each, in two of three zones of so many nodes."""
    blueprint = a_cluster("abc", nodes)
    for name in ("web", "db", "cart", "search"):
        on = {f"{zone}-{number}": 1 for zone in "ab" for number in (1, 2, 3)}
        blueprint.deployment(name, on=on, spread={ZONE: 1, HOSTNAME: 1})
    return blueprint.snapshot()


def sizes(snapshot: Snapshot) -> tuple[int, int]:
    """Return how many bytes plan and report of a snapshot have."""
    evaluation = evaluate(snapshot, eager())
    view, assessment, made = evaluation.view, evaluation.assessment, evaluation.plan
    documents = plan_document(made, snapshot), full_report(view, assessment, made, eager())
    return len(to_json(documents[0])), len(to_json(documents[1]))


def test_documents_do_not_grow_with_nodes() -> None:
    """Fifty times as many nodes and the same pods: the same documents but for names and numbers."""
    small, large = sizes(shop(5)), sizes(shop(250))
    assert all(many < 1.25 * few for few, many in zip(small, large, strict=True))


def test_a_plan_lists_what_it_changes() -> None:
    """The empty zone is there, and the nodes that its replacements may make fuller."""
    snapshot = shop(250)
    made = evaluate(snapshot, eager()).plan
    group = json.loads(to_json(plan_document(made, snapshot)))["groups"][0]
    assert group["before"][ZONE] == {"a": 3, "b": 3, "c": 0}
    assert group["after"][ZONE] == {"a": 2, "b": 2, "c": 2}
    assert sum(group["before"][HOSTNAME].values()) == sum(group["after"][HOSTNAME].values()) == 6
    assert len(group["before"][HOSTNAME]) + group["emptyDomains"][HOSTNAME] == 750
