"""What `rebalancer lint` says is what happens on real servers: refusals, pending pods, rollouts, drains, lost zones.

The clusters are drawn. An error is never wrong; what was not foretold is counted by its cause.
"""

from collections.abc import Sequence

import pytest

from tests.cluster.linted import Linted
from tests.control_plane.plane import ControlPlane
from tests.lint.drawn_clusters import draw_cluster
from tests.lint.experiment import Claim, Step, find_claims, find_events, report


def do_all(plane: ControlPlane, seeds: Sequence[int], rollouts: int) -> list[Step]:
    """Do all steps with drawn clusters, with so many rollouts in each."""
    linted = Linted(plane, [draw_cluster(seed) for seed in seeds])
    steps = [*linted.deploy()]
    steps += [linted.roll_out(number) for number in range(rollouts)]
    return [*steps, linted.drain(), linted.lose_zones()]


def tell(steps: Sequence[Step]) -> Sequence[Claim]:
    """Print the tables of docs/lint.md, and return the errors that were wrong."""
    return report([*find_claims(steps)], [*find_events(steps)])


def test_no_error_is_wrong(cluster: ControlPlane) -> None:
    """Six drawn clusters with one rollout each, in which errors of most rules are found before every step."""
    wrong = tell(do_all(cluster, (1, 5, 8, 12, 13, 23), rollouts=1))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.thorough
def test_no_error_is_wrong_in_sixty_clusters(cluster: ControlPlane) -> None:
    """Three rollouts in each."""
    wrong = tell(do_all(cluster, range(100, 160), rollouts=3))
    assert not wrong, "\n".join(map(str, wrong))
