"""What others do to the cluster: outages, operators, autoscalers, and whoever else evicts or deletes pods."""

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.model.moves import Move, Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause
from rebalancer.model.workloads import Workload
from rebalancer.simulator import ZONE

if TYPE_CHECKING:
    from tests.world.world import World

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def lose_zone(world: "World", random: Random) -> str:
    """Lose the nodes of a zone for a while, or let one that is lost come back at once."""
    if world.lost_zone:
        world.restore_zone(world.lost_zone)
        return "the lost zone is back before its time"
    zone = world.lost_zone = random.choice("abc")
    world.cluster.nodes.remove_domain(ZONE, zone)
    world.hub.after(random.uniform(50, 250), lambda: world.restore_zone(zone))
    return f"zone {zone} is lost"


def cordon_zone(world: "World", random: Random) -> str:
    """Cordon a whole zone, drain it, and return it later."""
    zone = random.choice("abc")
    names = [node.name for node in world.state.store.nodes if node.labels.get(ZONE) == zone]
    for name in names:
        world.cluster.nodes.cordon(name)
    for number, pod in enumerate(pod for name in names for pod in world.state.store.pods.on(name)):
        world.hub.after(1.5 * number, lambda pod=pod: _evict(world, pod.uid))  # type: ignore[misc]
    seconds = random.uniform(60, 240)
    world.hub.after(seconds, lambda: _uncordon(world, names))
    return f"zone {zone} is cordoned and drained, and back in {seconds:.0f}s"


def _uncordon(world: "World", names: list[str]) -> None:
    for name in names:
        if world.state.store.nodes.get(name) is not None:
            world.cluster.nodes.uncordon(name)


def scale(world: "World", random: Random) -> str:
    """Scale a workload, often right after one of its pods was evicted."""
    top = world.pick_workload(random)
    replicas = max(3, round(world.first_replicas[top.uid] * random.choice([0.5, 0.7, 1.0])))
    world.cluster.scale(top.namespace, top.kind, top.name, replicas)
    return f"{top} is scaled to {replicas}"


def scale_amid_surge(world: "World", random: Random) -> str:
    """Scale the workload of the next surge, right before or after its replicas are changed for it."""

    def change() -> None:
        surges = sorted(world.api.surge_monitor.stored.values(), key=lambda surge: surge.uid)
        if surges:
            one = random.choice(surges)
            number = max(3, one.count + random.choice([-3, -1, 0, one.added, 5]))
            world.cluster.scale(one.namespace, one.kind, one.name, number)
            world.note(f"{one.workload} is scaled to {number} amid a surge")

    delay = random.choice([0.0, 0.01, 0.03, 1.0, 10.0])
    world.at_next("set scale", delay, change)
    return f"a workload is to be scaled {delay}s after the next change of replicas for a surge"


def autoscale(world: "World", random: Random) -> str:
    """Scale a workload down and up again and again, and let its pods on the emptiest nodes be deleted first."""
    top, first = world.pick_workload(random), 0.0
    full = world.first_replicas[top.uid]
    for number in range(random.choice([4, 6])):
        replicas = max(3, round(full * random.choice([0.5, 0.7]))) if number % 2 == 0 else full
        world.hub.after(first, lambda replicas=replicas: _scale_on_emptiest(world, top, replicas))  # type: ignore[misc]
        first += random.uniform(10, 60)
    return f"{top} is scaled down and up by an autoscaler for {first:.0f}s"


def _scale_on_emptiest(world: "World", top: Workload, replicas: int) -> None:
    pods = world.pods_of(top)
    crowds = Counter(pod.node for pod in pods)
    for pod in pods:
        cost = Labels({**pod.annotations, _DELETION_COST: str(crowds[pod.node])})
        if cost != pod.annotations:
            world.state.store.pods.put(structs.replace(pod, annotations=cost))
    world.cluster.scale(top.namespace, top.kind, top.name, replicas)


def delete_pod(world: "World", random: Random) -> str:
    """Delete a pod as somebody with kubectl does."""
    pods = sorted((pod for pod in world.state.store.pods if not pod.terminating), key=lambda pod: pod.uid)
    pod = random.choice(pods)
    world.state.delete(pod)
    return f"{pod} is deleted by somebody else"


def second_evictor(world: "World", random: Random) -> str:
    """Let another controller evict pods of one workload from its fullest nodes, within their budgets."""
    top, moment = world.pick_workload(random), 0.0
    for _ in range(random.choice([3, 6])):
        world.hub.after(moment, lambda: _evict_from_fullest(world, top))
        moment += random.uniform(2, 30)
    return f"a second evictor works on {top} for {moment:.0f}s"


def _evict_from_fullest(world: "World", top: Workload) -> None:
    pods = [pod for pod in world.pods_of(top) if pod.node is not None and not pod.terminating]
    crowds = Counter(pod.node for pod in pods)
    if pods:
        _evict(world, max(pods, key=lambda pod: (crowds[pod.node], pod.uid)).uid)


def _evict(world: "World", uid: str) -> None:
    """Evict a pod as another client of the Eviction API does."""
    pod = world.state.store.pods.get(uid)
    if pod is None or pod.terminating:
        return
    now, workload = world.cluster.now, Reference(pod.namespace, "Pod", pod.name)
    move = Move(
        uid=uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node or "",
        workload=workload,
        owner_uid=pod.owner.uid if pod.owner is not None else "",
        cause=Cause.SKEW_VIOLATED,
        requested_at=now,
        changed_at=now,
    )
    world.monitor.records.is_disturbed(pod)
    world.cluster.evict(move)


def break_pods(world: "World", random: Random) -> str:
    """Make up to three pods of a workload unready for a while."""
    top = world.pick_workload(random)
    chosen = [pod for pod in world.pods_of(top) if pod.ready and pod.node][:3]
    for pod in chosen:
        world.state.store.pods.put(structs.replace(pod, ready=False))
    world.hub.after(random.uniform(20, 200), lambda: _recover(world, chosen))
    return f"{len(chosen)} pods of {top} become unready"


def _recover(world: "World", broken: list[Pod]) -> None:
    for known in broken:
        pod = world.state.store.pods.get(known.uid)
        if pod is not None and not pod.terminating:
            world.state.store.pods.put(structs.replace(pod, ready=True))


CLUSTER = (
    lose_zone,
    lose_zone,
    lose_zone,
    cordon_zone,
    scale,
    scale,
    autoscale,
    delete_pod,
    second_evictor,
    break_pods,
)
