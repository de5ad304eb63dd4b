"""Rolling updates of Deployments and StatefulSets in the simulated cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.workloads import PodTemplate
from rebalancer.simulator import ClusterBuilder, RollingUpdate, SimulatedCluster, TraceKind
from tests.drawing import examples
from tests.simulator.build import EVERYWHERE, PROMPT, cluster, happened, pods, workload

NEW = ("new",)
DEPLOYMENT, STATEFUL_SET = (Reference("default", kind, "web") for kind in ("Deployment", "StatefulSet"))


def new_template(simulated: SimulatedCluster, kind: str, cpu: int = 100) -> PodTemplate:
    """Return the template with another image and so much CPU."""
    template = workload(simulated, kind).template
    assert template is not None
    requests = Resources(cpu=cpu, memory=cpu)
    spec = structs.replace(template.spec, images=NEW, requests=requests)
    return structs.replace(template, spec=spec, requests=requests)


def is_new(pod: Pod) -> bool:
    return pod.spec.images == NEW


def stateful(builder: ClusterBuilder) -> None:
    builder.stateful_set("web", on=dict.fromkeys(EVERYWHERE, 1))


@examples(50)
@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2**32))
def test_a_rollout_ends_within_surge_and_unavailable(surge: int, unavailable: int, seed: int) -> None:
    """At each moment: never more pods than surge allows, never fewer Ready ones than the rest allows."""
    update = RollingUpdate(surge, unavailable if surge or unavailable else 1)
    simulated = cluster(lambda builder: builder.deployment("web", on=EVERYWHERE), seed=seed)
    simulated.roll_out(DEPLOYMENT, new_template(simulated, "Deployment"), update)
    while simulated.next_due is not None:
        simulated.advance((simulated.next_due - simulated.now).total_seconds())
        there = [pod for pod in pods(simulated).values() if not pod.terminating]
        assert len(there) <= 12 + update.surge
        assert sum(pod.ready for pod in there) >= 12 - update.unavailable
    there = list(pods(simulated).values())
    assert len(there) == 12
    assert all(is_new(pod) and pod.ready for pod in there)
    deployment = workload(simulated, "Deployment")
    assert (deployment.current, deployment.ready, deployment.updated) == (12, 12, 12)


def test_a_rollout_without_room_for_the_first_pod_wedges() -> None:
    """Two of six nodes' 16 cores are taken twice; where a pod may be missing it ends."""
    for unavailable, ended in ((0, False), (1, True)):
        simulated = cluster(lambda builder: builder.deployment("web", on=EVERYWHERE, cpu=8_000))
        template = new_template(simulated, "Deployment", 8_000)
        simulated.roll_out(DEPLOYMENT, template, RollingUpdate(1, unavailable))
        simulated.advance(600)
        new = [pod for pod in pods(simulated).values() if is_new(pod)]
        assert len(new) == (12 if ended else 1)
        assert all(pod.node for pod in new) == ended


def test_a_stateful_set_is_updated_one_by_one_from_the_highest_ordinal_down() -> None:
    simulated = cluster(stateful)
    simulated.roll_out(STATEFUL_SET, new_template(simulated, "StatefulSet"), RollingUpdate(0, 1))
    for _ in range(600):
        simulated.advance(0.1)
        assert sum(not pod.ready for pod in pods(simulated).values()) <= 1
    assert happened(simulated, TraceKind.DELETED) == [f"web-{number}" for number in reversed(range(6))]
    assert all(map(is_new, pods(simulated).values()))


def test_a_partition_keeps_the_lower_ordinals_at_the_old_template() -> None:
    simulated = cluster(stateful)
    simulated.state.store.workloads.put(structs.replace(workload(simulated, "StatefulSet"), partition=4))
    simulated.roll_out(STATEFUL_SET, new_template(simulated, "StatefulSet"), RollingUpdate(0, 1))
    simulated.advance(600)
    assert {name for name, pod in pods(simulated).items() if is_new(pod)} == {"web-4", "web-5"}


def test_after_a_rollout_the_new_replica_set_is_scaled() -> None:
    simulated = cluster(lambda builder: builder.deployment("web", on=EVERYWHERE), timings=PROMPT)
    simulated.roll_out(DEPLOYMENT, new_template(simulated, "Deployment"), RollingUpdate(3, 3))
    simulated.advance(600)
    for replicas in (15, 2):
        simulated.scale("default", "Deployment", "web", replicas)
        simulated.advance(60)
        assert len(pods(simulated)) == replicas


def test_what_does_not_exist_is_not_rolled_out() -> None:
    simulated = cluster(stateful)
    with pytest.raises(ValueError, match="default/web"):
        simulated.roll_out(DEPLOYMENT, PodTemplate(), RollingUpdate(1, 0))
