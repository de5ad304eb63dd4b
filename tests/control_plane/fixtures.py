"""The control plane as pytest fixtures; loaded with `pytest_plugins` in tests/conftest.py.

`control_plane` is started once a session. `cluster` is the same one cleaned for each test, `module_cluster` cleaned
once for the tests of a file. A test that needs other options starts a `ControlPlane` of its own. Tests in
`tests/cluster` get the marker `cluster`, and those that not every change must pass `nightly`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.control_plane.build import MissingPart, UnknownReleaseError, kubernetes_release
from tests.control_plane.cleaning import Cleaner
from tests.control_plane.plane import ControlPlane

CLUSTER_TESTS: Final = Path(__file__).resolve().parents[1] / "cluster"


def pytest_configure() -> None:
    """Refuse a Kubernetes release that nothing builds, before any test."""
    try:
        kubernetes_release()
    except UnknownReleaseError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs against a real control plane, and of that what no change waits for.

    Such a test holds no invariant (`invariant`) and has never been the only one to notice a fault (`caught`). It is
    thorough, and among these one that each release of Kubernetes has to pass.
    """
    for item in items:
        if CLUSTER_TESTS in item.path.parents:
            item.add_marker("cluster")
            if not any(item.get_closest_marker(name) for name in ("invariant", "caught", "thorough")):
                item.add_marker("nightly")
                item.add_marker("thorough")


@pytest.fixture(scope="session")
def _started() -> Iterator[tuple[ControlPlane, Cleaner]]:
    """Start the control plane, and note how it is when it is new."""
    try:
        plane = ControlPlane()
    except MissingPart as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no control plane: {missing}")
    with plane:
        yield plane, Cleaner(plane.api)


@pytest.fixture(scope="session")
def control_plane(_started: tuple[ControlPlane, Cleaner]) -> ControlPlane:
    """One running control plane for the session. Skips where it can't be built, but not in CI."""
    return _started[0]


@pytest.fixture
def cluster(_started: tuple[ControlPlane, Cleaner]) -> ControlPlane:
    """Return the control plane without anything that tests before have left in it: no nodes, an empty audit log."""
    plane, cleaner = _started
    plane.check()
    cleaner.clean()
    plane.begin_test()
    return plane


@pytest.fixture(scope="module")
def module_cluster(_started: tuple[ControlPlane, Cleaner]) -> ControlPlane:
    """Return the control plane without anything that tests of other files have left in it.

    For tests that need the same nodes, which have to grow old first. They tidy up after themselves, and call
    `begin_test`.
    """
    plane, cleaner = _started
    plane.check()
    cleaner.clean()
    return plane
