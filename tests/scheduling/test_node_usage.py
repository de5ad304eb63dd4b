"""What pods use of a node adds up."""

from msgspec import structs

from rebalancer.model.pods import Resources
from rebalancer.scheduling.node_usage import add_usage
from tests.scheduling.build import pod


def test_extended_resources_are_counted_by_name_both_ways() -> None:
    """Two pods more and one fewer leave what one requests."""
    holds = structs.replace(pod({"a": "b"}, on="n"), requests=Resources(extended=(("gpu", 2),)))
    assert add_usage([(holds, 1), (holds, 1), (holds, -1)]).extended == {"gpu": 2}
