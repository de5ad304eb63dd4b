"""Which pods stay for the sake of their PodGroup, and which PodGroup it is."""

from dataclasses import replace

from msgspec import structs

from rebalancer.model.cluster import SchedulingGroup
from rebalancer.planning.scope.pod_groups import DisruptedAsWhole, PodGroupUnknown, refuse_group
from tests.planning.clusters import returned

SNAPSHOT = returned()
POD = SNAPSHOT.pods[0]
GROUPED = structs.replace(POD, spec=structs.replace(POD.spec, pod_group="train"))
NAME = f"{POD.namespace}/train"
GROUP = SchedulingGroup(namespace=POD.namespace, name="train")
READ = frozenset({"PodGroup"})


def test_a_pod_without_a_group_stays_for_none() -> None:
    assert refuse_group(POD, SNAPSHOT) is None


def test_a_pod_of_a_group_that_is_disrupted_as_a_whole_stays() -> None:
    whole = replace(SNAPSHOT, pod_groups=(structs.replace(GROUP, whole=True),), known=READ)
    assert refuse_group(GROUPED, whole) == DisruptedAsWhole(NAME)
    assert refuse_group(GROUPED, replace(SNAPSHOT, pod_groups=(GROUP,), known=READ)) is None


def test_a_pod_of_a_group_that_is_not_known_stays() -> None:
    assert refuse_group(GROUPED, SNAPSHOT) == PodGroupUnknown(NAME, unread=True)
    assert refuse_group(GROUPED, replace(SNAPSHOT, known=READ)) == PodGroupUnknown(NAME, unread=False)
    elsewhere = structs.replace(GROUP, namespace="elsewhere")
    there = replace(SNAPSHOT, pod_groups=(elsewhere,), known=READ)
    assert refuse_group(GROUPED, there) == PodGroupUnknown(NAME, unread=False)
