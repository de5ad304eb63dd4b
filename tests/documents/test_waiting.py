"""The rows of waiting evictions in a Plan document."""

from rebalancer.documents.document import WorkloadName
from rebalancer.documents.plan import WaitingEviction, plan_document
from rebalancer.documents.waits import likely_domains
from rebalancer.planning.fates import Waits
from rebalancer.policy import Amount, Budgets
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.clusters import planned, policy


def rows() -> list[tuple[Waits, WaitingEviction]]:
    """Return what waits in a plan of two workloads whose pods go to different zones, beside its rows."""
    cluster = a_cluster("abc", 2)
    for name, on in (("one", {"a-1": 6, "b-1": 3}), ("two", {"b-2": 3, "c-2": 6})):
        cluster.deployment(name, on=on, spread={ZONE: 1})
    snapshot = cluster.snapshot()
    plan = planned(snapshot, policy(budgets=Budgets(max_unavailable=Amount(value=1))))
    return list(zip(plan.fates.waiting, plan_document(plan, snapshot).waiting, strict=True))


def test_each_row_says_what_is_true_of_its_eviction() -> None:
    """Though rows share what is equal: its pod, its workload, why it waits, and where its replacement may go."""
    seen = set()
    for fate, row in rows():
        pod, eviction = fate.eviction.pod, fate.eviction
        assert (row.pod, row.uid, row.node) == (pod.name, pod.uid, pod.node)
        assert (row.then.pod, row.then.node) == (pod.name, pod.node)
        assert row.workload == WorkloadName(kind=eviction.workload.kind, name=eviction.workload.name)
        assert (row.for_, row.message) == (fate.reason, str(fate.refusal))
        assert row.then.domains == likely_domains(eviction.targets)
        seen.add((row.workload.name, row.then.domains[ZONE].values))
    assert seen == {("one", ("c",)), ("two", ("a",))}


def test_rows_of_a_repair_share_what_is_equal() -> None:
    """A plan has tens of thousands of them: each would have its own name and domains otherwise."""
    known = [row for _, row in rows()]
    shared = {(row.workload.name, id(row.workload), id(row.then.domains)) for row in known}
    assert sorted(name for name, *_ in shared) == ["one", "two"]
    assert len(known) > len(shared)
