"""Fixtures that all tests may use."""

pytest_plugins = ["tests.control_plane.fixtures"]
