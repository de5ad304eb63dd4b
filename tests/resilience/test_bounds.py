"""The bounds of a loss hold against every order in which pods are deleted and placed."""

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.resilience.bounds import find_bounds
from tests.drawing import examples
from tests.resilience.drawn import draw_loss
from tests.resilience.played import Play

_MOST_STATES = 1_500


@given(st.integers(0, 10**6))
@examples(40)
def test_no_order_leaves_less_than_is_guaranteed_or_more_than_is_possible(seed: int) -> None:
    """Of all services of drawn clusters, in both phases of the loss of a zone and of a node."""
    loss = draw_loss(seed)
    ends, _ = Play(loss).ends(_MOST_STATES)
    for number, (found, service) in enumerate(zip(find_bounds(loss), loss.services, strict=True)):
        left = {end[number] for end in ends}
        assert found.guaranteed <= min(left), f"{service.workload}: {sorted(left)}"
        assert max(left) <= found.possible, f"{service.workload}: {sorted(left)}"
