"""A patch removes the trouble: the same drawn cluster with it, played again in the simulator."""

from collections.abc import Iterable, Sequence

from rebalancer.lint.finding import Finding, Rule
from tests.lint.experiment import DEPLOYED, ROLLED_OUT, ZONE_LOST, Step
from tests.lint.simulated import Simulated

STEPS = {DEPLOYED: Rule.NO_PLACEMENT, ROLLED_OUT: Rule.ROLLOUT_WEDGES, ZONE_LOST: Rule.NOT_WITHOUT_A_ZONE}


def find_fixed(seed: int) -> Iterable[tuple[Step, Finding]]:
    """Yield what went wrong as was said, where the finding has a patch."""
    for step in Simulated(seed).run():
        for found in step.said.get(f"lint{seed}", ()):
            said = found.patch and STEPS.get(step.name) is found.rule
            if said and found.manifest.title in step.undone[f"lint{seed}"]:
                yield step, found


def play(seeds: Iterable[int]) -> Sequence[tuple[int, Step, Finding, bool, bool]]:
    """Return for each patched finding whether it, and whether the trouble, is gone."""
    results = []
    for seed in seeds:
        name = f"lint{seed}"
        for step, found in find_fixed(seed):
            again = [
                one
                for one in Simulated(seed, found).run()
                if one.name == step.name and (step.name != ROLLED_OUT or one.objects == step.objects)
            ]
            title = found.manifest.title
            said = any((one.rule, one.manifest.title) == (found.rule, title) for one in again[0].said[name])
            results.append((seed, step, found, not said, title not in again[0].undone[name]))
    return results
