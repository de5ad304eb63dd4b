"""Sizes that cannot satisfy limit and constraints are computed exactly."""

from rebalancer.advice.suggestion import SuggestionRequest, unattainable_sizes
from rebalancer.policy import Share

NODE = "kubernetes.io/hostname"


def test_sizes_that_no_placement_satisfies_are_listed() -> None:
    """Zones of two and three nodes, a maxSkew of 1 over both keys: ten pods cannot satisfy both, eleven can."""
    request = SuggestionRequest(share=Share.of("<99%"), size=12, zones=(2, 3), key=NODE)
    assert 10 in set(unattainable_sizes(request, (1, 1)))
    assert 11 not in set(unattainable_sizes(request, (1, 1)))
    assert 10 not in set(unattainable_sizes(request, (None, 1)))
