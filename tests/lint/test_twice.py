"""The same object twice among the manifests."""

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.manifest import Manifests
from tests.lint.build import budget, deployment, manifests, text


def twice(*read: Manifests) -> list[Finding]:
    every = Manifests(tuple(one for manifests in read for one in manifests.every))
    return [one for one in lint(every) if one.rule is Rule.DUPLICATE_OBJECT]


def test_the_second_of_two_equal_objects_names_the_first() -> None:
    """With the places of both, in other files and in the same one."""
    written = f"{text(budget(maxUnavailable=1))}---\n{text(deployment())}"
    (other,) = twice(manifests(written, "a.yaml"), manifests(text(deployment(5)), "b.yaml"))
    assert (other.severity, other.manifest.file, other.line) == (Severity.WARNING, "b.yaml", 1)
    line = written.splitlines().index("apiVersion: apps/v1") + 1
    assert other.message == (f"the same object is at a.yaml:{line}: where both are deployed, the last one is in force")
    assert len(twice(manifests(f"{written}---\n{written}"))) == 2


def test_objects_that_differ_in_a_part_of_their_name_are_two() -> None:
    """In kind, namespace, name or group; a name that the API server generates is another one each time."""
    made = deployment()
    others = [
        {**made, "metadata": {"name": "api", "namespace": "shop"}},
        {**made, "metadata": {"name": "web", "namespace": "other"}},
        {**made, "apiVersion": "example.com/v1"},
        deployment(kind="StatefulSet"),
        *[{**made, "metadata": {"generateName": "web-"}}] * 2,
    ]
    assert twice(manifests(text(made, *others))) == []
