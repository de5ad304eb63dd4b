"""`python -m tools.ranges`: what it installs is what pyproject.toml allows, on the interpreters that are there."""

import sys

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.ranges import PYTHONS, direct_dependencies, find_pythons, name_of, tools_of_tests


def test_every_dependency_has_a_lower_bound_that_can_be_installed() -> None:
    """`lowest-direct` would take the oldest release ever of one without."""
    for requirement in map(Requirement, direct_dependencies()):
        assert any(one.operator in {">=", "=="} for one in requirement.specifier), requirement


def test_names_are_those_of_the_index() -> None:
    for text in (*direct_dependencies(), *tools_of_tests(), "PyYAML==6.0.3", "pydantic_core[email]>=2"):
        assert name_of(text) == canonicalize_name(Requirement(text).name)


def test_the_tests_get_what_they_import_in_the_ranges_of_the_development_group() -> None:
    assert {name_of(one) for one in tools_of_tests()} >= {"pytest", "hypothesis", "jsonschema"}
    assert all(">=" in one for one in tools_of_tests())


def test_an_interpreter_that_starts_is_found() -> None:
    found = dict(find_pythons())
    assert found.keys() <= set(PYTHONS)
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in found
