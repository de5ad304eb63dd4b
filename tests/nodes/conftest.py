"""The cluster with real nodes, for the tests of this folder."""

import os
from collections.abc import Iterator

import pytest

from tests.control_plane.build import MissingPart
from tests.deploy.rendering import require_programs
from tests.nodes.machine import find_obstacle
from tests.nodes.node import missing_programs
from tests.nodes.real_nodes import RealNodes
from tools.image.build import missing_programs as missing_for_the_image


@pytest.fixture(scope="package")
def real_nodes() -> Iterator[RealNodes]:
    """Start the cluster; skipped where there can be none, which in CI is an error.

    It ends with the last test of this folder: meanwhile this thread is in its network.
    """
    needed = [*missing_programs(), *missing_for_the_image(), *filter(None, [find_obstacle()])]
    complain = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    if needed:
        complain(f"real nodes need {', '.join(needed)}")
    require_programs("helm", "kubectl")
    try:
        cluster = RealNodes()
    except MissingPart as missing:
        complain(f"no real nodes: {missing}")
    with cluster:
        yield cluster
