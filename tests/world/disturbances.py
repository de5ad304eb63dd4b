"""Faults of the network, the API server and the processes, and what operators change about the controller."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from rebalancer.admission.pause import Pause
from rebalancer.policy import Mode
from rebalancer.ports import EvictionResult
from tests.world.actors import break_pods
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
    share, seconds = random.choice([0.3, 0.8]), random.uniform(5, 60)
    world.api.faults.throttled = share
    world.hub.after(seconds, lambda: setattr(world.api.faults, "throttled", 0.0))
    return f"{share:.0%} of the evictions are throttled for {seconds:.0f}s"


def slow_down(world: "World", random: Random) -> str:
    """Make every request slow."""
    delay, seconds = random.choice([0.3, 0.7, 2.0]), random.uniform(5, 60)
    world.api.faults.slow = delay
    world.hub.after(seconds, lambda: setattr(world.api.faults, "slow", 0.0))
    return f"every request takes {delay}s longer for {seconds:.0f}s"


def pause_while_slow(world: "World", random: Random) -> str:
    """Pause while every request is slow, so that an answer about the kill switch is old when it arrives."""
    delay = random.choice([0.7, 2.0])
    world.api.faults.slow = delay
    world.hub.after(random.uniform(10, 30), lambda: setattr(world.api.faults, "slow", 0.0))
    world.at_next("control", random.uniform(0, 1), lambda: world.note(pause(world, random)))
    return f"every request takes {delay}s longer, and a pause comes with a read of the kill switch"


def sicken_webhook(world: "World", random: Random) -> str:
    """Let a webhook refuse the evictions of one namespace for a while."""
    namespace = random.choice(world.namespaces)
    result = random.choice([EvictionResult.FAILED, EvictionResult.UNKNOWN, EvictionResult.FORBIDDEN])
    if namespace in world.refusing:
        return f"the webhook of {namespace} goes on to refuse"
    world.api.faults.sick[namespace] = result
    seconds = random.uniform(30, 600)

    def recover() -> None:
        world.api.faults.sick.pop(namespace, None)

    world.hub.after(seconds, recover)
    return f"the webhook of {namespace} answers {result} for {seconds:.0f}s"


def silence_watch(world: "World", random: Random) -> str:
    """Let a watch of one replica deliver nothing, and make pods unready meanwhile."""
    replica = world.pick_replica(random)
    kind = random.choice(["pods", "pods", *KINDS])
    seconds = random.choice([random.uniform(10, 60), random.uniform(60, 500)])
    replica.view.silence(kind, seconds)
    if kind == "pods":
        world.hub.after(random.uniform(0.1, 5), lambda: world.note(break_pods(world, random)))
    return f"the watch of {kind} of {replica.name} is silent for {seconds:.0f}s"


def delay_watches(world: "World", random: Random) -> str:
    """Let the watches of one replica lag."""
    replica, delay = world.pick_replica(random), random.choice([1.0, 5.0, 20.0])
    replica.view.delay = delay
    world.hub.after(random.uniform(20, 120), lambda: setattr(replica.view, "delay", 0.05))
    return f"the watches of {replica.name} lag by {delay:.0f}s"


def kill(world: "World", random: Random) -> str:
    """Kill a replica, and start another one later."""
    replica = world.pick_replica(random)
    seconds = random.uniform(1, 60)
    replica.kill()
    world.hub.after(seconds, world.start_replica)
    return f"{replica.name} is killed; another one starts in {seconds:.0f}s"


def hand_over(world: "World", random: Random) -> str:
    """End a replica in order, as a rollout of the controller does, after another one was started."""
    replica = world.pick_replica(random)
    world.start_replica()
    world.hub.after(random.uniform(0.5, 5), replica.leave)
    return f"{replica.name} is replaced in order"


def stop(world: "World", random: Random) -> str:
    """Stop a replica's process for a while."""
    replica, seconds = world.pick_replica(random), random.choice([2.0, 12.0, 40.0])
    replica.stop_for(seconds)
    return f"{replica.name} is stopped for {seconds:.0f}s"


def cut_lease(world: "World", random: Random) -> str:
    """Let a replica's requests for the Lease have no answer, while its other requests do."""
    replica, seconds = world.pick_replica(random), random.uniform(15, 90)
    world.api.faults.no_lease.add(replica.name)
    world.hub.after(seconds, lambda: world.api.faults.no_lease.discard(replica.name))
    return f"{replica.name} cannot reach the Lease for {seconds:.0f}s"


def jump_clock(world: "World", random: Random) -> str:
    """Set a replica's clock."""
    replica = world.pick_replica(random)
    replica.set_clock(random.choice([-60.0, -1.0, 1.0, 60.0]))
    return f"the clock of {replica.name} is {replica.ahead:+.0f}s off"


def pause(world: "World", random: Random) -> str:
    """Pause, and let the watch of the control object tell of it late or never."""
    seconds, delay = random.uniform(10, 120), random.choice([0.1, 5.0, 1e6])
    world.api.pause = Pause(reason="a test")
    if world.monitor.paused_at is None:
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
    world.set_policy(world.policy.model_copy(update={"mode": Mode.OBSERVE}), random)
    if world.monitor.observing_since is None:
        world.monitor.observing_since = world.hub.seconds

    def evict_again() -> None:
        world.set_policy(world.policy, random)
        world.monitor.observing_since = None

    world.hub.after(seconds, evict_again)
    return f"mode Observe for {seconds:.0f}s"


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
    pause_while_slow,
    sicken_webhook,
    silence_watch,
    delay_watches,
    kill,
    hand_over,
    stop,
    cut_lease,
    jump_clock,
    pause,
    observe,
    plan_slowly,
)
