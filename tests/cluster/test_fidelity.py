"""The model says what the real kube-scheduler does: node by node, plugin by plugin, score by score.

Random clusters and pods (`tests/fidelity/scenes.py`), each from its seed. `make thorough` plays 3,000 of them; the
figures are printed, and kept in docs/fidelity.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.control_plane.build import MissingPart, programs
from tests.fidelity.arena import Arena, arena
from tests.fidelity.scenes import scene
from tests.fidelity.tally import FLOORS, Tally

ORDINARY = 150
THOROUGH = 3000
FIRST_THOROUGH_SEED = 10_000


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Arena]:
    """Return a control plane whose controllers stand still and whose scheduler tells what it does."""
    try:
        programs()
    except MissingPart as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no control plane: {missing}")
    with arena() as made:
        yield made


def played(scheduler: Arena, seeds: range, newcomers: int = 4) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.clusters += 1
        for trial in scheduler.play(scene(seed, newcomers=newcomers)):
            tally.add(trial)
            assert not trial.wrong, "\n".join(tally.wrong)
    print(f"\nseeds {seeds.start} to {seeds.stop - 1}\n{tally.report()}")
    return tally


def test_every_verdict_score_message_and_landing_agrees(scheduler: Arena) -> None:
    """150 clusters: feasible nodes, each plugin's score on each, the message when nothing fits, the landing."""
    tally = played(scheduler, range(ORDINARY))
    assert tally.wrong == []
    assert min(tally.results.values()) > 0


@pytest.mark.thorough
@pytest.mark.timeout(4 * 3600)
def test_three_thousand_clusters_agree_and_the_zone_is_mostly_certain(scheduler: Arena) -> None:
    """3,000 clusters without a difference, and the zone called certain as often as can be hoped for."""
    tally = played(scheduler, range(FIRST_THOROUGH_SEED, FIRST_THOROUGH_SEED + THOROUGH), newcomers=3)
    assert tally.wrong == []
    assert {kind: tally.share(kind) for kind, floor in FLOORS.items() if tally.share(kind) < floor} == {}
