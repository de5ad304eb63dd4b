"""A patch removes the trouble, not the finding alone: drawn clusters are played again in the simulator with it.

Deployments whose pods find no node, rollouts that wedge, and zones without which not all pods come back.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pytest

from rebalancer.lint.finding import Finding, Rule
from tests.lint.experiment import DEPLOYED, ROLLED_OUT, ZONE_LOST, Step, is_about
from tests.lint.simulated import Simulated

RULES: Final = {DEPLOYED: Rule.NO_PLACEMENT, ROLLED_OUT: Rule.ROLLOUT_WEDGES, ZONE_LOST: Rule.NOT_WITHOUT_A_ZONE}


class Replayed(NamedTuple):
    """A finding that came true, and whether it is said again, or comes true again, with its patch."""

    seed: int
    finding: Finding
    is_said: bool
    is_so: bool

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.finding.manifest.title}: {self.finding.message} {self.finding.patch}"


def replay(seed: int) -> Iterator[Replayed]:
    """Play a drawn cluster, and again with the patch of each finding that came true."""
    name = f"lint{seed}"
    for step in Simulated(seed).run():
        for found in step.said.get(name, ()):
            title = found.manifest.title
            if RULES.get(step.name) is found.rule and found.patch and is_about(found, step, name):
                if title not in step.undone[name]:
                    continue
                again = play_until(step, Simulated(seed, found))
                said = any((one.rule, one.manifest.title) == (found.rule, title) for one in again.said[name])
                yield Replayed(seed, found, said, title in again.undone[name])


def play_until(step: Step, simulated: Simulated) -> Step:
    """Play until the same step; the zone that is lost then may be another one."""
    for one in simulated.run():
        if one.name == step.name and (step.name == ZONE_LOST or one.objects == step.objects):
            return one
    raise AssertionError(step.name)


def find_futile(seeds: Iterable[int]) -> tuple[Sequence[Replayed], Sequence[Replayed]]:
    """Return the patches that were tried, and those that left the finding or the trouble."""
    tried = [one for seed in seeds for one in replay(seed)]
    return tried, [one for one in tried if one.is_said or one.is_so]


def test_a_patch_removes_the_finding_and_the_trouble() -> None:
    """Of each kind: fewer replicas, a larger maxSkew, fewer minDomains, and a pod more that may be missing."""
    tried, futile = find_futile([13, 44, 52])
    assert not futile, "\n".join(map(str, futile))
    assert {str(one.finding.patch[0].path[-1]) for one in tried} == {
        "replicas",
        "maxSkew",
        "minDomains",
        "maxUnavailable",
    }
    assert {one.finding.rule for one in tried} == set(RULES.values())


@pytest.mark.thorough
def test_no_patch_of_many_drawn_clusters_is_futile() -> None:
    tried, futile = find_futile(range(1_000, 1_400))
    print(f"{len(tried)} patches, {len(futile)} of them futile")
    assert not futile, "\n".join(map(str, futile))
