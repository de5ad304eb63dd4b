"""The methods that search for a step, in their order."""

from rebalancer.planning.methods import PART_OF_REPAIR, WHOLE_REPAIR


def test_the_order_of_the_methods() -> None:
    """What is proved by arithmetic is tried before what is searched, forced before predicted, the whole before a part.

    A change here changes which step a plan takes, and what its searches cost.
    """
    assert [method.name for method in WHOLE_REPAIR] == [
        "certificate",
        "contingent plan",
        "forced step",
        "forced lookahead",
        "predicted lookahead",
    ]
    assert [method.name for method in PART_OF_REPAIR] == [
        "partial step",
        "partial forced lookahead",
        "partial predicted lookahead",
    ]
