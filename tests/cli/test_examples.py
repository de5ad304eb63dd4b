"""The examples that the simulator plays: their clusters are those of the manifests, and their ends are as promised."""

from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from rebalancer.adapters.files.manifests import read_manifests
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.reasons import State
from rebalancer.model.workloads import Workload
from rebalancer.policy import Policy, ScaleDownPrevention, load_policy
from rebalancer.simulator.play import Outcome, with_prevention
from rebalancer.simulator.scenario import Scenario, load_scenario
from tests.pages import EXAMPLES, ROOT

SEEDS = (1, 2, 3)
"""Of delays, names and the scheduler's choices."""

FOLDERS = sorted((ROOT / page).parent for page in EXAMPLES)
SIMULATED = [folder for folder in FOLDERS if (folder / "scenario.yaml").exists()]
MOST_WORDS = 250
REPAIRED: dict[str, tuple[int, set[str]]] = {"zone-back": (3, set()), "redis-limits": (2, {"zone-half"})}
"""By folder, the minimum of evictions, and the limits that are violated before."""


class Played(NamedTuple):
    """How a simulation ended, and how many constraints and limits were violated in its worst cycle."""

    outcome: Outcome
    worst: int


def policy_of(folder: Path) -> Policy:
    return load_policy((folder / "policy.yaml").read_bytes(), source=str(folder))


def scenario_of(folder: Path) -> Scenario:
    return load_scenario((folder / "scenario.yaml").read_bytes(), str(folder))


def play(folder: Path, policy: Policy, seed: int) -> Played:
    playing = scenario_of(folder).play(seed=seed, policy=policy)
    worst = 0
    for _ in playing.advance():
        if playing.state.cycle is not None:
            worst = max(worst, count_violations(playing.outcome()))
    return Played(playing.outcome(), worst)


def count_violations(outcome: Outcome) -> int:
    """Count what is violated in the last cycle: spread, limits and anti-affinity."""
    found = outcome.cycle.assessment
    terms = [term for term in found.anti_affinity if term.violated]
    return len(found.violated) + sum(limit.state is not State.SATISFIED for limit in found.limits) + len(terms)


def as_written(workload: Workload) -> object:
    """Return what a manifest says of a workload, but its image."""
    template = workload.template
    assert template is not None
    spec = structs.replace(template.spec, images=())
    names = workload.kind, workload.namespace, workload.name
    return *names, workload.replicas, workload.selector, template.labels, spec


def bounds(budget: DisruptionBudget) -> object:
    """Return what a manifest says of a budget."""
    return budget.namespace, budget.name, budget.selector, budget.min_available, budget.max_unavailable


@pytest.mark.parametrize("folder", SIMULATED, ids=lambda folder: folder.name)
def test_a_scenario_has_the_workloads_and_budgets_of_the_manifests(folder: Path) -> None:
    """And, where it brings a policy, that of the folder: what is simulated is what is applied."""
    scenario = scenario_of(folder)
    assert scenario.snapshot is not None
    file = folder / "workload.yaml"
    manifests = list(read_manifests(file.read_text(encoding="utf-8"), str(file)))
    written = [as_written(manifest.workload) for manifest in manifests if manifest.workload is not None]
    assert written
    assert written == [as_written(workload) for workload in scenario.snapshot.workloads if workload.owner is None]
    budgets = [bounds(manifest.budget) for manifest in manifests if manifest.budget is not None]
    assert budgets == [bounds(budget) for budget in scenario.snapshot.budgets]
    assert scenario.policy is None or scenario.policy == policy_of(folder)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", REPAIRED)
def test_what_the_loss_of_a_zone_violates_is_repaired_with_the_minimum(name: str, seed: int) -> None:
    folder = ROOT / "docs" / "examples" / name
    minimum, violated = REPAIRED[name]
    outcome, worst = play(folder, policy_of(folder), seed)
    assert worst > 0
    assert {one.limit for one in outcome.headrooms if one.headroom < 0} == violated
    assert outcome.evictions == outcome.lower_bound == minimum
    assert (outcome.settled, count_violations(outcome)) == (True, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_prevention_leaves_nothing_to_repair(seed: int) -> None:
    """Without it the same scale-downs cost evictions."""
    folder = ROOT / "docs" / "examples" / "prevention"
    steered = policy_of(folder)
    outcome, worst = play(folder, steered, seed)
    assert (outcome.settled, outcome.evictions, worst) == (True, 0, 0)
    outcome, worst = play(folder, with_prevention(steered, ScaleDownPrevention.OFF), seed)
    assert worst > 0
    assert outcome.evictions == outcome.lower_bound > 0


@pytest.mark.parametrize("page", EXAMPLES)
def test_an_example_is_read_in_a_minute(page: str) -> None:
    """Output and all; and its policy is valid."""
    assert len((ROOT / page).read_text(encoding="utf-8").split()) <= MOST_WORDS
    policy_of((ROOT / page).parent)
