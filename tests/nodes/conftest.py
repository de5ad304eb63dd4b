"""The cluster with real nodes, for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.control_plane.build import MissingPart
from tests.deploy.rendering import require_programs
from tests.monitoring.programs import or_skip
from tests.nodes.machine import find_obstacle
from tests.nodes.node import missing_programs
from tests.nodes.real_nodes import RealNodes
from tools.image.build import missing_programs as missing_for_the_image


@pytest.fixture(scope="package")
def real_nodes() -> Iterator[RealNodes]:
    """Start the cluster; skipped on a machine that can have none, or without the programs, which in CI is an error.

    It ends with the last test of this folder: meanwhile this thread is in its network.
    """
    if obstacle := find_obstacle():
        pytest.skip(f"real nodes need {obstacle}")
    needed = [*missing_programs(), *missing_for_the_image()]
    if needed:
        or_skip(MissingPart(f"real nodes need {', '.join(needed)}"))
    require_programs("helm", "kubectl")
    try:
        cluster = RealNodes()
    except MissingPart as missing:
        or_skip(missing)
    with cluster:
        yield cluster
