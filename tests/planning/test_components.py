"""What is planned together has a name by which it is remembered."""

from rebalancer.adapters.simulator import ZONE, Blueprint
from rebalancer.assessment.judgement import assess
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.verdicts import State
from rebalancer.planning.components import Component
from rebalancer.scheduling.view import View
from tests.planning.test_mixed import limit, policy


def test_what_is_not_violated_has_a_name_too() -> None:
    """Where nothing is violated and only a pod waits in vain, it is the first group's."""
    blueprint = Blueprint()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 1, "b-1": 1}, spread={ZONE: 1})
    assessment = assess(View(blueprint.snapshot()), policy(limit("maxPods: 1")), NO_MEMORY)
    (group,), (rule,) = assessment.groups, assessment.limits
    assert not group.violated
    assert rule.state is State.SATISFIED
    assert Component.of((group,), (rule,)).name == group.group.name
