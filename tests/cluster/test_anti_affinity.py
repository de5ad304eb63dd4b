"""Violated podAntiAffinity on the real control plane: as few evictions as can be, each lands where it was predicted.

The states are drawn, three workloads at most, a third of them across namespaces, and lie side by side, each on nodes of
its own. What is right is a search over all placements, not the planner's word.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.closed_loop.apart import Laid
from tests.closed_loop.ours import ALL_AT_ONCE
from tests.closed_loop.trial import wait_at_rest
from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.layout import lay_out
from tests.control_plane.plane import ControlPlane
from tests.planning.anti_affinity.drawn import draw, draw_preferring

CYCLES: Final = 20
"""Cycles in which nothing is evicted any more."""


def find_faults(laid: Laid, evicted: int, placed: Sequence[tuple[str, str]]) -> list[str]:
    """Return what is not as it should be at the end; `placed` are its pods, by app and node, "" for none."""
    drawn = laid.drawn
    if any(not on for _, on in placed):
        return [f"{laid.name}: a pod is pending: {placed}"]
    if any(term.weight for term in drawn.terms):
        before, after = drawn.weigh(drawn.pods), drawn.weigh(placed)
        gained = after < before if evicted else after == before
        return [] if gained else [f"{laid.name}: {evicted} evictions, weight {before} to {after}: {placed}; {drawn}"]
    least = drawn.minimum()
    if least is None:
        return []
    is_safe = drawn.can_be_forced(drawn.pods, least)
    faults = []
    if evicted != (least if is_safe else 0):
        faults.append(f"{laid.name}: {evicted} evictions, the least are {least}, safe: {is_safe}; {drawn}")
    if is_safe and drawn.conflicts(placed):
        faults.append(f"{laid.name}: not repaired: {placed}")
    return faults


def repair(plane: ControlPlane, folder: Path, laid: Sequence[Laid]) -> list[str]:
    """Lay the states out, let them be repaired, and return what is wrong after cycles without an eviction."""
    lay_out(plane, [part for one in laid for part in one.parts()], timeout=240)
    install(plane, "base", "evict")
    before = plane.audit.mark()
    text = policy(
        "Evict",
        interval="1s",
        budgets={**ALL_AT_ONCE, "slowStart": False},
        eligibility={"minAge": "0s", "minReplicas": 1},
        antiAffinity={"actOn": ["Required", "Preferred"], "for": "0s"},
        groups=[],
    )
    with Controller(plane, folder, text) as controller:
        seen, since = -1, 0
        while len(controller.log("cycle")) - since < CYCLES:
            controller.wait_for("cycle", count=len(controller.log("cycle")) + 1)
            number = len(plane.audit.evictions(user=USER, since=before))
            if number != seen:
                seen, since = number, len(controller.log("cycle"))
        metrics = controller.metrics()
    wait_at_rest(plane)
    granted = [one for one in plane.audit.evictions(user=USER, since=before) if one.code == 201]
    evicted = Counter(one.namespace.rpartition("-")[0] for one in granted)
    ends = {name: value for name, value in metrics.items() if name.startswith("rebalancer_moves_total")}
    wrong = [name for name, value in ends.items() if value and "verified" not in name]
    faults = [f"moves that did not land as predicted: {wrong}"] if wrong else []
    for one in laid:
        faults += find_faults(one, evicted[one.name], one.placed(plane.api))
    return faults


def draw_states(required: range, preferring: range) -> list[Laid]:
    """Return drawn states, those that violate what is required and those that only prefer it."""
    return [
        *(Laid(draw(seed), f"aa{seed}") for seed in required),
        *(Laid(draw_preferring(seed), f"ap{seed}") for seed in preferring),
    ]


@pytest.mark.invariant("anti-affinity-repair")
def test_drawn_states_are_repaired_with_the_fewest_evictions(cluster: ControlPlane, tmp_path: Path) -> None:
    """Twelve of them; then nothing is evicted for 20 cycles. Of preferred terms the weight falls."""
    faults = repair(cluster, tmp_path, draw_states(range(8), range(4)))
    assert not faults, "\n".join(faults)


@pytest.mark.thorough
def test_forty_drawn_states_are(cluster: ControlPlane, tmp_path: Path) -> None:
    """The same with forty others that violate what is required, and twenty that only prefer it."""
    faults = repair(cluster, tmp_path, draw_states(range(100, 140), range(100, 120)))
    assert not faults, "\n".join(faults)
