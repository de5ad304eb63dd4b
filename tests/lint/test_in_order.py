"""Patches of one call, applied one after the other."""

from typing import Any

from rebalancer.lint.finding import Rule
from tests.lint.build import HOST, ZONE, affinity, deployment, findings, found, patched, spread, term


def apply_all(made: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest after all patches of its findings, in their order."""
    for one in findings(made):
        made = patched(made, one)
    return made


def test_several_equal_constraints_go_at_once() -> None:
    """The first stays, and so does what is not equal; no other patch names an item that has moved."""
    for rest in ([spread(), spread()], [spread(), spread(HOST), spread(), spread(HOST, hard=False), spread(HOST)]):
        made = deployment(6, topologySpreadConstraints=[spread(), *rest])
        left = apply_all(made)["spec"]["template"]["spec"]["topologySpreadConstraints"]
        kinds = [(one["topologyKey"], one["whenUnsatisfiable"]) for one in left]
        assert sorted(kinds) == sorted({(one["topologyKey"], one["whenUnsatisfiable"]) for one in (spread(), *rest)})
        (first, *_) = found(Rule.DUPLICATE_CONSTRAINT, made)
        assert found(Rule.DUPLICATE_CONSTRAINT, patched(made, first)) == []


def test_a_patch_behind_an_item_that_is_removed_comes_with_the_next_call() -> None:
    """It would change another item then; one before it applies all the same."""
    made = deployment(
        6,
        affinity=affinity(together=[term(ZONE), term(HOST)], apart=[term(ZONE), term(HOST)]),
        topologySpreadConstraints=[spread("zones", hard=False), spread(), spread()],
    )
    changed = apply_all(made)
    assert found(Rule.DUPLICATE_CONSTRAINT, changed) == []
    while changed != (after := apply_all(changed)):
        changed = after
    assert [one for one in findings(changed) if one.patch] == []


def test_a_misspelt_key_is_not_corrected_to_that_of_another_constraint() -> None:
    """The API server refuses two with one key; a soft one beside a hard one it takes."""
    for hard, patches in ((True, 0), (False, 1)):
        made = deployment(topologySpreadConstraints=[spread(), spread("topology.kubernetes.io/zones", hard=hard)])
        (one,) = found(Rule.MISSPELT_KEY, made)
        assert len(one.patch) == patches
