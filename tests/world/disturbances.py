"""What a seed draws: faults of network and API server, crashes of replicas, operators and other controllers."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from msgspec import structs

from rebalancer.adapters.simulator import ZONE
from rebalancer.admission.pause import Pause
from rebalancer.policy import Mode
from rebalancer.ports import EvictionResult
from tests.world.view import KINDS

if TYPE_CHECKING:
    from tests.world.world import World

Disturbance = Callable[["World", Random], str]
"""Does something to a world, and says what."""


def lose_answers(world: "World", random: Random) -> str:
    """Lose a share of all answers for a while."""
    share, seconds = random.choice([0.1, 0.5, 1.0]), random.uniform(5, 60)
    world.api.faults.lost = share
    world.hub.after(seconds, lambda: setattr(world.api.faults, "lost", 0.0))
    return f"{share:.0%} of the answers are lost for {seconds:.0f}s"


def refuse_requests(world: "World", random: Random) -> str:
    """Answer a share of requests with an error for a while."""
    share, seconds = random.choice([0.3, 1.0]), random.uniform(5, 60)
    world.api.faults.refused = share
    world.hub.after(seconds, lambda: setattr(world.api.faults, "refused", 0.0))
    return f"{share:.0%} of the requests are answered with 500 for {seconds:.0f}s"


def throttle(world: "World", random: Random) -> str:
    """Throttle evictions for a while."""
    seconds = random.uniform(5, 60)
    world.api.faults.throttled = 0.8
    world.hub.after(seconds, lambda: setattr(world.api.faults, "throttled", 0.0))
    return f"evictions are throttled for {seconds:.0f}s"


def slow_down(world: "World", random: Random) -> str:
    """Make every request slow."""
    delay, seconds = random.choice([0.3, 0.7, 2.0]), random.uniform(5, 60)
    world.api.faults.slow = delay
    world.hub.after(seconds, lambda: setattr(world.api.faults, "slow", 0.0))
    return f"every request takes {delay}s longer for {seconds:.0f}s"


def sicken_webhook(world: "World", random: Random) -> str:
    """Let a webhook refuse the evictions of one namespace, for a while or for ever."""
    namespace = random.choice(world.namespaces)
    result = random.choice([EvictionResult.FAILED, EvictionResult.UNKNOWN, EvictionResult.FORBIDDEN])
    world.api.faults.sick[namespace] = result
    seconds = random.uniform(30, 600)

    def recover() -> None:
        world.api.faults.sick.pop(namespace, None)

    world.hub.after(seconds, recover)
    return f"the webhook of {namespace} answers {result} for {seconds:.0f}s"


def silence_watch(world: "World", random: Random) -> str:
    """Let a watch of one replica deliver nothing, and make pods unready meanwhile."""
    replica = random.choice(world.living)
    kind = random.choice(["pods", *KINDS])
    seconds = random.uniform(10, 200)
    replica.view.silence(kind, seconds)
    if kind == "pods":
        world.hub.after(random.uniform(0.5, 10), lambda: world.note(break_pods(world, random)))
    return f"the watch of {kind} of {replica.name} is silent for {seconds:.0f}s"


def delay_watches(world: "World", random: Random) -> str:
    """Let the watches of one replica lag."""
    replica, delay = random.choice(world.living), random.choice([1.0, 5.0, 20.0])
    replica.view.delay = delay
    world.hub.after(random.uniform(20, 120), lambda: setattr(replica.view, "delay", 0.05))
    return f"the watches of {replica.name} lag by {delay:.0f}s"


def kill(world: "World", random: Random) -> str:
    """Kill a replica, and start another one later."""
    replica = random.choice(world.living)
    seconds = random.uniform(1, 60)
    world.kill(replica)
    world.hub.after(seconds, world.start_replica)
    return f"{replica.name} is killed; another one starts in {seconds:.0f}s"


def stop(world: "World", random: Random) -> str:
    """Stop a replica's process for a while."""
    replica, seconds = random.choice(world.living), random.choice([2.0, 12.0, 40.0])
    replica.stop_for(seconds)
    return f"{replica.name} is stopped for {seconds:.0f}s"


def jump_clock(world: "World", random: Random) -> str:
    """Set a replica's clock."""
    replica = random.choice(world.living)
    replica.ahead += random.choice([-60.0, -1.0, 1.0, 60.0])
    return f"the clock of {replica.name} is {replica.ahead:+.0f}s off"


def pause(world: "World", random: Random) -> str:
    """Pause, and let the watch of the control object tell of it late or never."""
    seconds, delay = random.uniform(10, 120), random.choice([0.1, 5.0, 1e6])
    world.api.pause = Pause(reason="a test")
    world.monitor.paused_at = world.hub.seconds
    world.tell_pause(delay)

    def resume() -> None:
        world.api.pause = None
        world.monitor.paused_at = None
        world.tell_pause(0.1)

    world.hub.after(seconds, resume)
    return f"paused for {seconds:.0f}s, watched after {delay:.1f}s"


def observe(world: "World", random: Random) -> str:
    """Change the policy to Observe for a while."""
    seconds = random.uniform(10, 120)
    world.set_policy(world.policy.model_copy(update={"mode": Mode.OBSERVE}))
    world.monitor.observing_since = world.hub.seconds

    def evict_again() -> None:
        world.set_policy(world.policy)
        world.monitor.observing_since = None

    world.hub.after(seconds, evict_again)
    return f"mode Observe for {seconds:.0f}s"


def lose_zone(world: "World", random: Random) -> str:
    """Lose the nodes of a zone, or let a lost zone come back."""
    nodes = world.cluster.nodes
    if world.lost_zone:
        zone, world.lost_zone = world.lost_zone, ""
        nodes.restore_domain(ZONE, zone)
        return f"zone {zone} is back"
    world.lost_zone = random.choice("abc")
    nodes.remove_domain(ZONE, world.lost_zone)
    return f"zone {world.lost_zone} is lost"


def scale(world: "World", random: Random) -> str:
    """Scale a workload as an autoscaler does."""
    top = random.choice(sorted(world.monitor.tops(), key=str))
    replicas = max(3, round(world.first_replicas[top.uid] * random.choice([0.5, 0.7, 1.0])))
    world.cluster.scale(top.namespace, top.kind, top.name, replicas)
    return f"{top} is scaled to {replicas}"


def delete_pod(world: "World", random: Random) -> str:
    """Delete a pod as another evictor does."""
    pods = sorted((pod for pod in world.state.store.pods if not pod.terminating), key=lambda pod: pod.uid)
    pod = random.choice(pods)
    world.state.delete(pod)
    return f"{pod} is deleted by somebody else"


def break_pods(world: "World", random: Random) -> str:
    """Make up to three pods of a workload unready for a while."""
    ready = sorted((pod for pod in world.state.store.pods if pod.ready and pod.node), key=lambda pod: pod.uid)
    first = random.choice(ready)
    chosen = [pod for pod in ready if pod.owner == first.owner][:3]
    for pod in chosen:
        world.state.store.pods.put(structs.replace(pod, ready=False))

    def recover() -> None:
        for broken in chosen:
            pod = world.state.store.pods.get(broken.uid)
            if pod is not None and not pod.terminating:
                world.state.store.pods.put(structs.replace(pod, ready=True))

    world.hub.after(random.uniform(20, 200), recover)
    return f"{len(chosen)} pods of {first.owner.name if first.owner else '?'} become unready"


def plan_slowly(world: "World", random: Random) -> str:
    """Let planning take long."""
    world.planning_seconds = random.choice([3.0, 45.0])
    world.hub.after(random.uniform(60, 180), lambda: setattr(world, "planning_seconds", 0.0))
    return f"planning takes {world.planning_seconds:.0f}s"


NETWORK: tuple[Disturbance, ...] = (
    lose_answers,
    refuse_requests,
    throttle,
    slow_down,
    sicken_webhook,
    silence_watch,
    delay_watches,
    kill,
    stop,
    jump_clock,
    pause,
    observe,
    plan_slowly,
)
CLUSTER: tuple[Disturbance, ...] = (lose_zone, lose_zone, scale, delete_pod, break_pods)
