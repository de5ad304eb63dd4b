"""Durations, amounts, owners, globs and selectors: the small types of a policy."""

import re
import time
from collections.abc import Callable
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rebalancer.model.labels import LabelSelector, Operator, SelectorRequirement
from rebalancer.model.words import format_duration
from rebalancer.policy import (
    Amount,
    EligibleNamespaces,
    Mode,
    NamespaceFilter,
    Nodes,
    Owner,
    Selector,
    default_policy,
    parse_duration,
)
from tests.policy import strategies


@given(st.integers(0, 365 * 24 * 3600))
def test_every_duration_reads_back_as_itself(seconds: int) -> None:
    """What is printed can be pasted into a file."""
    duration = timedelta(seconds=seconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7200), ("1h30m", 5400), ("1h1m1s", 3661), ("0s", 0)]
)
def test_durations_have_their_units(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "5", "5M", "m", "-5m", "5m ", "5m\n", "1.5h", "30m1h", "1d", "\u0665m", "8761h", "9" * 40 + "s", "PT5M"],
)
def test_everything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_duration(text)


@pytest.mark.parametrize("value", [timedelta(seconds=-1), timedelta(days=400), timedelta(milliseconds=1500)])
def test_code_cannot_build_a_policy_that_no_file_could_hold(value: timedelta) -> None:
    """Else the shown policy would not read back."""
    with pytest.raises(ValidationError, match="whole seconds"):
        Nodes(settle=value)


@given(st.integers(1, 100), st.integers(0, 10**6))
def test_a_percentage_rounds_down_but_frees_at_least_one_of_two(percent: int, total: int) -> None:
    """10% of 9 replicas is one, not none: else small workloads could never be repaired."""
    number = Amount(value=percent, percent=True).resolve(total)
    exact = total * percent / 100
    assert number <= max(exact, 1)
    assert number > exact - 1
    assert number >= 1 or total < 2


@pytest.mark.parametrize(
    ("written", "total", "number"), [(3, 0, 3), (0, 9, 0), ("0%", 500, 0), ("50%", 1, 0), ("100%", 1, 1), ("34%", 3, 1)]
)
def test_amounts_at_the_edges(written: int | str, total: int, number: int) -> None:
    """A plain number ignores the total; 0% is nothing; a percentage of one pod may be none."""
    assert Amount.of(written).resolve(total) == number


@pytest.mark.parametrize("written", ["101%", "-1%", "1.5%", "5 %", "%", "", "\u0665%", "5%\n", -1, 2**31])
def test_everything_else_is_no_amount(written: int | str) -> None:
    with pytest.raises(ValueError, match="expected"):
        Amount.of(written)


@pytest.mark.parametrize(
    ("written", "owner", "shown"),
    [
        ("ReplicaSet", Owner("ReplicaSet", "apps"), "ReplicaSet"),
        ("ReplicaSet.apps", Owner("ReplicaSet", "apps"), "ReplicaSet"),
        ("ReplicationController", Owner("ReplicationController", ""), "ReplicationController"),
        ("StatefulSet.apps.kruise.io", Owner("StatefulSet", "apps.kruise.io"), "StatefulSet.apps.kruise.io"),
        ("Job.batch", Owner("Job", "batch"), "Job.batch"),
    ],
)
def test_owners_are_kinds_with_their_group(written: str, owner: Owner, shown: str) -> None:
    """A vendor's StatefulSet is not Kubernetes' own."""
    assert Owner.of(written) == owner
    assert str(owner) == shown


@pytest.mark.parametrize(
    "written",
    [
        "replicaset",
        "CloneSet",
        "ReplicaSet.",
        "Job",
        "Deployment.apps",
        "DaemonSet",
        "DaemonSet.apps.kruise.io",
        "Node",
        "A.b/c",
        "",
    ],
)
def test_owners_whose_pods_are_never_moved_are_refused(written: str) -> None:
    """A value without effect is refused, not ignored."""
    with pytest.raises(ValueError, match="expected"):
        Owner.of(written)


@given(st.lists(strategies.globs, max_size=3), st.lists(strategies.globs, max_size=3), st.text("ab-*?", max_size=6))
def test_namespaces_are_chosen_as_a_shell_would(include: list[str], exclude: list[str], name: str) -> None:
    """Held against the standard library's globs; exclude wins."""
    chosen = NamespaceFilter(include=tuple(include), exclude=tuple(exclude)).selects(name)
    assert chosen == (
        any(fnmatchcase(name, glob) for glob in include) and not any(fnmatchcase(name, glob) for glob in exclude)
    )


@given(st.text("ab*?", min_size=1, max_size=12), st.text("ab", max_size=12))
def test_a_glob_means_what_it_means_in_a_shell(glob: str, name: str) -> None:
    """`*` is any characters and `?` one, however many of them there are."""
    assert NamespaceFilter(include=(glob,)).selects(name) == fnmatchcase(name, glob)


@pytest.mark.parametrize("glob", ["*a" * 20 + "*b", "*a*?" * 60, "*" * 253, "?*" * 126, "*a?" * 60 + "*"])
def test_no_glob_takes_long(glob: str) -> None:
    """Whoever writes the policy must not be able to stop a cycle with it: 5,000 namespaces take a moment."""
    chosen = NamespaceFilter(include=(glob,))
    began = time.monotonic()
    for number in range(5_000):
        chosen.selects("a" * 58 + f"{number:05}")
    assert time.monotonic() - began < 3


def test_naming_namespaces_keeps_kube_system_out() -> None:
    """The default of `exclude` does not depend on whether `include` is written."""
    assert not EligibleNamespaces(include=("*",)).selects("kube-system")
    assert EligibleNamespaces(include=("*",), exclude=()).selects("kube-system")


def test_a_selector_compiles_to_the_models() -> None:
    """Matching has one implementation, the model's."""
    selector = Selector.model_validate(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["b", "a"]}],
        }
    )
    assert selector.compiled == LabelSelector.of(
        {"app": "web"}, [SelectorRequirement("tier", Operator.NOT_IN, ("a", "b"))]
    )
    assert Selector().compiled.matches({"any": "pod"})


def test_a_changed_copy_matches_what_it_says() -> None:
    """Nothing compiled from the original is left in it."""
    selector = Selector(match_labels={"app": "web"})
    assert selector.compiled.matches({"app": "web"})
    assert not selector.model_copy(update={"match_labels": {"app": "db"}}).compiled.matches({"app": "web"})
    chosen = NamespaceFilter(include=("a",))
    assert chosen.selects("a")
    assert not chosen.model_copy(update={"include": ("b",)}).selects("a")


@given(strategies.selectors, st.data())
def test_every_valid_selector_matches_as_kubernetes_documents(document: dict[str, Any], data: st.DataObject) -> None:
    """Held against the documented meaning, over labels with the keys and values that the selector names."""
    pairs = [*document.get("matchLabels", {}).items()]
    written = document.get("matchExpressions", [])
    pairs += [(expression["key"], value) for expression in written for value in expression.get("values", ["x"])]
    labels = dict(data.draw(st.lists(st.sampled_from(pairs)))) if pairs else {}
    meant: dict[str, Callable[[str, list[str]], bool]] = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
    }
    expected = document.get("matchLabels", {}).items() <= labels.items() and all(
        meant[expression["operator"]](expression["key"], expression.get("values", [])) for expression in written
    )
    selector = Selector.model_validate(document)
    assert selector.compiled.matches(labels) == expected
    assert selector == Selector.model_validate(selector.model_dump(mode="json"))


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "A.b/c", "a/b/c", "-a", "a" * 64, "a" * 254 + "/b", "a_b/c", "a b", "ä"]
)
def test_label_keys_are_checked_as_kubernetes_does(key: str) -> None:
    with pytest.raises(ValidationError):
        Selector(match_labels={key: "x"})


@pytest.mark.parametrize("value", ["-", "a.", "a b", "a" * 64, "a/b", "ä", "a\n"])
def test_label_values_are_checked_as_kubernetes_does(value: str) -> None:
    with pytest.raises(ValidationError):
        Selector(match_labels={"a": value})


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("limit", [None, *Mode])
def test_a_limit_only_makes_the_mode_safer(mode: Mode, limit: Mode | None) -> None:
    """Observe wins over Approve, and Approve over Evict, whichever of the two says it."""
    given = {mode} if limit is None else {mode, limit}
    safest = next(candidate for candidate in (Mode.OBSERVE, Mode.APPROVE, Mode.EVICT) if candidate in given)
    assert mode.at_most(limit) is safest


def test_a_changed_copy_has_a_hash_of_its_own() -> None:
    """The hash is computed once for a policy, and not again for each question."""
    policy = default_policy()
    other = policy.model_copy(update={"mode": Mode.EVICT})
    assert len({policy.hash, other.hash}) == 2
    assert other.model_copy(update={"mode": policy.mode}).hash == policy.hash
    assert "hash" not in policy.to_dict()


def test_the_hash_is_short_and_printable() -> None:
    """Plans, logs and annotations contain it."""
    assert re.fullmatch(r"[0-9a-f]{16}", default_policy().hash)
