"""Words that sentences share."""

import pytest

from rebalancer.model.words import shorten_keys


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("topology.kubernetes.io/zone=eu-1a since", "zone eu-1a since"),
        ("topology.kubernetes.io/zone eu-1a holds 3 pods", "zone eu-1a holds 3 pods"),
        ("2 domains of topology.kubernetes.io/zone; at best", "2 domains of zone; at best"),
        ("over kubernetes.io/hostname.", "over node."),
        ("example.com/topology.kubernetes.io/zone", "example.com/topology.kubernetes.io/zone"),
        ("topology.kubernetes.io/zone-id=7", "topology.kubernetes.io/zone-id=7"),
        ("example.com/rack=7", "example.com/rack=7"),
    ],
)
def test_a_domain_is_named_by_the_word_for_its_key(text: str, short: str) -> None:
    """As long as the key is a well-known one; another that contains it stays."""
    assert shorten_keys(text) == short
