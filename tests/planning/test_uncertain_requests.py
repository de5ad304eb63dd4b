"""What a replacement requests may be a range: there is room for the largest, and the scheduler goes by the smallest."""

from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.engine import evaluate
from rebalancer.model.containers import ContainerRequests, PodRequests
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.requests import sum_requests
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.formulation import RequestsUncertain
from rebalancer.planning.plan import Plan
from rebalancer.simulator import ZONE
from tests.build import a_cluster, with_cpu
from tests.planning.build import planned
from tests.planning.scenes import limited_alone


def requests(cpu: int) -> PodRequests:
    return PodRequests(containers=(ContainerRequests(name="app", requests=(("cpu", cpu),)),))


def resized(snapshot: Snapshot, *, written: int, now: int, generation: int) -> Snapshot:
    """Return the same cluster with a template that requests `written`, and pods that request `now`."""
    summed = sum_requests(requests(now))[0]

    def resize(pod: Pod) -> Pod:
        spec = structs.replace(pod.spec, requests=summed)
        return structs.replace(pod, spec=spec, requests=summed, requested=requests(now), generation=generation)

    workloads = [
        structs.replace(
            workload,
            template=structs.replace(
                workload.template,
                requests=sum_requests(requests(written))[0],
                spec=structs.replace(workload.template.spec, requests=sum_requests(requests(written))[0]),
                requested=requests(written),
            ),
        )
        for workload in snapshot.workloads
        if workload.template is not None
    ]
    return replace(snapshot, pods=[resize(pod) for pod in snapshot.pods], workloads=workloads)


def lopsided(*, room_in_c: int, written: int = 1000, now: int = 200, generation: int = 0) -> Snapshot:
    snapshot = a_cluster("abc", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}).snapshot()
    return resized(with_cpu(snapshot, room_in_c, "c-1"), written=written, now=now, generation=generation)


def refusals(plan: Plan) -> list[object]:
    return [component.refusal for component in plan.components]


def test_with_room_for_the_largest_it_does_not_matter_which_comes() -> None:
    assert len(planned(lopsided(room_in_c=8000)).fates.going) == 1


@pytest.mark.parametrize(("written", "now"), [(1000, 200), (200, 1000)])
def test_where_room_depends_on_it_nothing_is_evicted_and_the_range_is_named(written: int, now: int) -> None:
    plan = planned(lopsided(room_in_c=900, written=written, now=now))
    assert plan.fates.going == ()
    refusal = next(one for one in refusals(plan) if isinstance(one, RequestsUncertain))
    assert refusal.reason is Reason.NOT_PREDICTABLE
    assert "between 200m and 1 of cpu" in str(refusal)
    assert "node c-1" in str(refusal)


def test_where_versions_are_counted_the_template_decides() -> None:
    assert len(planned(lopsided(room_in_c=900, written=200, now=1000, generation=2)).fates.going) == 1
    assert planned(lopsided(room_in_c=900, written=1000, now=200, generation=2)).fates.going == ()


def test_what_scores_decide_is_predicted_only_where_the_requests_are_known() -> None:
    """A limit forces the scheduler to nothing: where the replacement lands is known by its score alone."""
    snapshot, policy = limited_alone()
    known = resized(snapshot, written=100, now=100, generation=1)
    unknown = resized(snapshot, written=100, now=120, generation=0)
    assert evaluate(known, policy).plan.fates.going
    assert evaluate(unknown, policy).plan.fates.going == ()
