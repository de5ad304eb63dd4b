"""A loss in which pods preempt others, as the services at or above the highest preempting priority see it.

Whenever one of these services looks for a node, pods below that priority may be gone, or still exist. For the most of a
service they are left out: without them there is no less capacity. For the fewest, too: a service that preempts is
blocked in the end only by pods that it may not preempt. Neither holds for a service whose rules count pods of lower
priority.
"""

from dataclasses import replace

from rebalancer.model.facts import Fact
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.exclusions import DependsOnPods
from rebalancer.resilience.loss import Loss
from rebalancer.scheduling.preemption import DEFAULT_PREEMPTION


def look_from(loss: Loss, priority: int) -> Loss:
    """Return the loss without pods and services below a priority."""
    lower = [placed.pod for placed in loss.before.placed_pods() if placed.pod.spec.priority < priority]
    return replace(
        loss,
        before=loss.before.without(lower),
        after=loss.after.without(lower),
        services=tuple(service for service in loss.services if service.sample.spec.priority >= priority),
    )


def sees_lower(number: int, whole: Competition, at: int, above: Competition) -> bool:
    """Return whether rules of a service count pods of lower priority.

    The service has a number in each of the two competitions.
    """
    seen = [(rule.base, rule.late, rule.uncounted, rule.always_floored) for rule in whole.rules[number]]
    left = [(rule.base, rule.late, rule.uncounted, rule.always_floored) for rule in above.rules[at]]
    closed = [[(one.key, one.closed) for one in each] for each in (whole.exclusions[number], above.exclusions[at])]
    if seen != left or closed[0] != closed[1]:
        return True
    counted = sum(1 for rule in whole.rules[number] for _ in whole.counted(rule))
    return counted != sum(1 for rule in above.rules[at] for _ in above.counted(rule))


def find_obstacle(number: int, whole: Competition) -> Fact | None:
    """Return why a service of the highest priority has no lower bound."""
    if not whole.services[number].sample.spec.preempts or whole.loss.before.profile.post_filters != (
        DEFAULT_PREEMPTION,
    ):
        return DependsOnPods("no right to preempt the pods that others may put in their place")
    return whole.unknown[number]
